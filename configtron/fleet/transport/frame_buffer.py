# SPDX-License-Identifier: MIT
"""Messages in a stream of bytes: four bytes of length, big-endian, then the message."""

from __future__ import annotations

from collections.abc import Iterator

from configtron.model.errors import ConfigtronError

HEAD_BYTES = 4


class FrameTooLong(ConfigtronError):
    """The other end announced a message longer than any that is taken."""


def framed(message: bytes) -> bytes:
    """Return a message with its length before it."""
    return len(message).to_bytes(HEAD_BYTES, "big") + message


class FrameBuffer:
    """Bytes that have arrived. most_bytes: of one message."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._waiting = most_bytes, bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that are whole with these bytes, each once. Errors: `FrameTooLong`."""
        self._waiting += data
        while len(self._waiting) >= HEAD_BYTES:
            length = int.from_bytes(self._waiting[:HEAD_BYTES], "big")
            if length > self._most_bytes:
                raise FrameTooLong(f"a message of {length} bytes; at most {self._most_bytes} are taken")
            end = HEAD_BYTES + length
            if len(self._waiting) < end:
                return
            message = bytes(self._waiting[HEAD_BYTES:end])
            del self._waiting[:end]
            yield message
