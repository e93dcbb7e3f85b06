# SPDX-License-Identifier: MIT
"""A recording that is not what the script makes: whatever part is unlike, it diverges. Recordings of fixtures/."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from configtron.model.errors import Diverged
from configtron.model.nouns import Message, Trace
from configtron.probe.wire.evidence_reader import read_located
from configtron.probe.wire.replay import replayed
from tests.support import ROOT


def kept(name: str, probe: str) -> Trace:
    """The first recording of that probe which went as it should."""
    for trace, _ in read_located(ROOT / "fixtures" / name / "trace.pcapng.gz"):
        if trace.probe == probe and (trace.session is None or not trace.session.error):
            return trace
    raise AssertionError(probe)


@pytest.mark.parametrize(("name", "probe"), [("icw/10", "icw"), ("h2_settings/node-all", "h2_settings")])
def test_what_is_unlike_diverges(name: str, probe: str) -> None:
    trace = kept(name, probe)
    assert replayed(trace) == trace
    first, last = trace.packets[0], trace.packets[-1]
    assert first.way == "out"
    changes: list[tuple[str, dict[str, Any]]] = [
        ("ending", {"ending": f"{trace.ending}, or not"}),
        ("the script:    is over", {"packets": (*trace.packets, last._replace(at=last.at + 60))}),
        (".", {"packets": trace.packets[:-1]}),
        # The type of service that we send is part of what is asked (ECN).
        ("at packet 0", {"packets": (first._replace(tos=first.tos ^ 2), *trace.packets[1:])}),
    ]
    if trace.messages:
        # Unread bytes would be kept for ever, and be read by the inferences.
        more = [Message(last.at + 1, "in", data) for data in (b"sent by no host", b"")]
        changes += [("messages", {"messages": (*trace.messages, one)}) for one in more]
    for says, change in changes:
        with pytest.raises(Diverged, match=says):
            replayed(replace(trace, **change))
