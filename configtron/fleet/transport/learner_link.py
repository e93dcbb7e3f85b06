# SPDX-License-Identifier: MIT
"""The two ends of the socketpair between a manager and its learner process: data, never code.

A message is a MessagePack object in a frame. The manager's end is non-blocking: what the socket buffer does not take is
queued and sent by the next `flush`, and a message that arrives in parts is put together.
"""

from __future__ import annotations

import socket
from typing import TypeVar

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from configtron.fleet.transport.frame_buffer import FrameBuffer, FrameTooLong, framed
from configtron.model.errors import ConfigtronError

T = TypeVar("T")

# Longest message, bytes: many times the state of a policy that has learned of a hundred thousand prefixes.
MOST_BYTES = 1 << 30
READ_BYTES = 1 << 20


class BeginForm(Struct, frozen=True, array_like=True, tag="begin"):
    """The first message. maker: MODULE:FUNCTION; arguments: its arguments besides the database, JSON."""

    database: str
    maker: str
    arguments: str


class MapForm(Struct, frozen=True, array_like=True):
    """A map: text by `map_text`, and the key of its draw."""

    text: str
    key: bytes


class AskForm(Struct, frozen=True, array_like=True, tag="ask"):
    """`LearningAsk`. map, limits (JSON): None where they are the same as in the request before."""

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


class LogLineForm(Struct, frozen=True, array_like=True, tag="log-line"):
    """A line for the manager's log; level: of `logging`. An empty line is a heartbeat."""

    level: int
    text: str


class FailureForm(Struct, frozen=True, array_like=True, tag="failure"):
    """Why the learner process ends. begun: it had restored its stored state before; code: exit code of the error."""

    text: str
    code: int
    begun: bool


ToLearner = BeginForm | AskForm
FromLearner = AnswerForm | LogLineForm | FailureForm
_ENCODER = Encoder()
TO_LEARNER: Decoder[ToLearner] = Decoder(ToLearner)
FROM_LEARNER: Decoder[FromLearner] = Decoder(FromLearner)


class LearnerGone(ConfigtronError):
    """The other end is closed, or sent something that is not a message."""


class LearnerLink:
    """One end of the socketpair. blocking: whether `send` and `receive` wait for the socket."""

    def __init__(self, end: socket.socket, *, blocking: bool) -> None:
        self.socket = end
        end.setblocking(blocking)
        self._in, self._out = FrameBuffer(MOST_BYTES), bytearray()

    def send(self, message: ToLearner | FromLearner) -> None:
        """Send a message, or the part that the socket takes. Errors: `LearnerGone`."""
        self._out += framed(_ENCODER.encode(message))
        self.flush()

    def flush(self) -> None:
        """Send what is queued. Errors: `LearnerGone`."""
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
