# SPDX-License-Identifier: MIT
"""Play a stream script on the messages of its own recording."""

from __future__ import annotations

from configtron.model.errors import Diverged
from configtron.model.nouns import Message, Session, Trace
from configtron.probe.script import Hold, Open, StreamScript, Write


def play_messages(script: StreamScript, trace: Trace) -> str:
    """Run a stream script on its own trace's messages. Returns how it ended; raises `Diverged` if it says other words.

    The segments below cannot be compared: TLS is fresh in each run. The application's bytes can.
    """
    messages = list(trace.messages)
    answer: Session | Message | None = None
    while True:
        try:
            command = script.send(answer)
        except StopIteration as stop:
            return str(stop.value)
        answer = None
        following = messages[0] if messages else None
        if isinstance(command, Open):
            answer = trace.session
        elif isinstance(command, Write | Hold):
            if following is None or (following.way, following.data) != ("out", command.data):
                raise Diverged(f"{trace.id}: the script says {command.data!r}; the recording has {following}")
            answer = messages.pop(0)
        elif following is not None and following.way == "in" and following.at <= command.until:
            answer = messages.pop(0)
