# SPDX-License-Identifier: MIT
"""The two ends of the socketpair between a manager and its learner: data, never code.

A message is a frame of MessagePack. The manager's end never waits: what the socket does not take is kept
and sent later, and what has arrived is read in parts.
"""

from __future__ import annotations

import socket
from typing import TypeVar

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from configtron.fleet.transport.frame_buffer import FrameBuffer, FrameTooLong, framed
from configtron.model.errors import ConfigtronError

T = TypeVar("T")

# Bytes of a message: what a policy knows of a hundred thousand prefixes, many times over.
MOST_BYTES = 1 << 30
READ_BYTES = 1 << 20


class BeginForm(Struct, frozen=True, array_like=True, tag="begin"):
    """Begin. maker: MODULE:FUNCTION; arguments: what it takes beside the database, JSON."""

    database: str
    maker: str
    arguments: str


class MapForm(Struct, frozen=True, array_like=True):
    """A map: text by `map_text`, and the key of its draw."""

    text: str
    key: bytes


class AskForm(Struct, frozen=True, array_like=True, tag="ask"):
    """`LearningAsk`; map, limits: None where they are those of the question before; limits as JSON."""

    now_ns: int
    place: tuple[int, int]
    key: bytes
    span_ns: int
    map: MapForm | None
    limits: str | None
    agents: tuple[str, ...]
    refused: int
    entries: int
    again: tuple[tuple[int, int], ...]
    paused: bool
    recalled: bool
    save: bool


class AnswerForm(Struct, frozen=True, array_like=True, tag="answer"):
    """`LearningAnswer`."""

    asked_ns: int
    map: MapForm | None
    why: str
    facts: dict[str, str]
    classes: dict[str, str] | None


class RemarkForm(Struct, frozen=True, array_like=True, tag="remark"):
    """A line for the manager's log; level: a number of `logging`. An empty one shows that the learner is alive."""

    level: int
    text: str


class FailureForm(Struct, frozen=True, array_like=True, tag="failure"):
    """Why the learner ends; begun: it had taken up what is stored before that; code: exit code of the error."""

    text: str
    code: int
    begun: bool


ToLearner = BeginForm | AskForm
OfLearner = AnswerForm | RemarkForm | FailureForm
_ENCODER = Encoder()
TO_LEARNER: Decoder[ToLearner] = Decoder(ToLearner)
OF_LEARNER: Decoder[OfLearner] = Decoder(OfLearner)


class LearnerGone(ConfigtronError):
    """The other end is closed, or sent what is no message."""


class LearnerLink:
    """One end of the socketpair. waits: sending and receiving wait until they can; else neither does."""

    def __init__(self, end: socket.socket, *, waits: bool) -> None:
        self.socket = end
        end.setblocking(waits)
        self._in, self._out = FrameBuffer(MOST_BYTES), bytearray()

    def send(self, message: ToLearner | OfLearner) -> None:
        """Send a message, or the part that the socket takes. Errors: `LearnerGone`."""
        self._out += framed(_ENCODER.encode(message))
        self.flush()

    def flush(self) -> None:
        """Send what has been kept. Errors: `LearnerGone`."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out[:READ_BYTES])]
        except BlockingIOError:
            return
        except OSError as error:
            raise LearnerGone(f"its socket is closed ({error})") from error

    def receive(self, decoder: Decoder[T]) -> list[T]:
        """Return the messages that have arrived. Errors: `LearnerGone`."""
        found: list[T] = []
        try:
            while not found:
                data = self.socket.recv(READ_BYTES)
                if not data:
                    raise LearnerGone("its socket is closed")
                found += [decoder.decode(message) for message in self._in.feed(data)]
        except BlockingIOError:
            pass
        except (OSError, DecodeError, UnicodeDecodeError, RecursionError, FrameTooLong) as error:
            raise LearnerGone(f"its message cannot be read ({error})") from error
        return found
