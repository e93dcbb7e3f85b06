# SPDX-License-Identifier: MIT
"""The two ends of the socketpair between the process that has the network and the one that applies: data, never code.

A message is four bytes of length, big-endian, then MessagePack. The applier takes `LoadDocument` and nothing else.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from typing import TypeVar

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from configtron.fleet.messages import CHUNK, MOST_CHUNKS, AgentHello, Count, Digest, Line, MapResult
from configtron.model.errors import ConfigtronError

T = TypeVar("T")

# Bytes of a message: a document, and some around it.
MOST_BYTES = CHUNK * MOST_CHUNKS + 1024
HEAD_BYTES, READ_BYTES = 4, 1 << 20


class LoadDocument(Struct, frozen=True, array_like=True, tag="load"):
    """Put this document in force."""

    document: bytes


class LoadReport(Struct, frozen=True, array_like=True, tag="loaded"):
    """What came of a document."""

    result: MapResult
    term: Count
    version: Count
    digest: Digest
    retry: bool


class HeldReport(Struct, frozen=True, array_like=True, tag="held"):
    """What is in force changed without a document: its validity or its lease ended, or it was frozen."""

    term: Count
    version: Count
    digest: Digest
    frozen: Line


class StandingReport(Struct, frozen=True, array_like=True, tag="standing"):
    """Figures of the applier for /metrics, some times a minute.

    valid_s, lease_s  s until the map is void, and until its lease ends; None: none is in force
    records           opened, closed and lost so far, and log lines; None: none are read
    """

    valid_s: float | None
    lease_s: float | None
    records: tuple[Count, Count, Count, Count] | None


FromApplier = AgentHello | LoadReport | HeldReport | StandingReport
_ENCODER = Encoder()
OF_NETWORK: Decoder[LoadDocument] = Decoder(LoadDocument)
OF_APPLIER: Decoder[FromApplier] = Decoder(FromApplier)


class LinkClosed(ConfigtronError):
    """The other process has ended, or sent what is no message."""


class ApplierLink:
    """One end of the socketpair. patience_s: until the other process counts as ended if it reads nothing; None: it is
    waited for."""

    def __init__(self, end: socket.socket, patience_s: float | None = None) -> None:
        self.socket = end
        end.settimeout(patience_s)
        self._waiting = bytearray()

    def send(self, message: LoadDocument | FromApplier) -> None:
        """Send a message. Errors: `LinkClosed`."""
        try:
            data = _ENCODER.encode(message)
            self.socket.sendall(len(data).to_bytes(HEAD_BYTES, "big") + data)
        except TimeoutError as error:
            raise LinkClosed("the other process of the agent reads nothing any more") from error
        except OSError as error:
            raise LinkClosed(f"the other process of the agent has ended ({error})") from error

    def send_if_room(self, message: StandingReport) -> None:
        """Send a small message, unless some of those before it were not read. Errors: `LinkClosed`."""
        if select.select([], [self.socket], [], 0)[1]:
            self.send(message)

    def receive(self, decoder: Decoder[T]) -> list[T]:
        """Return the messages that have arrived; call it when the socket can be read. Errors: `LinkClosed`."""
        try:
            data = self.socket.recv(READ_BYTES)
        except OSError as error:
            raise LinkClosed(f"the other process of the agent has ended ({error})") from error
        if not data:
            raise LinkClosed("the other process of the agent has ended")
        self._waiting += data
        try:
            return [decoder.decode(message) for message in self._whole()]
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LinkClosed(f"the other process of the agent sent what is no message: {error}") from error

    def _whole(self) -> Iterator[bytes]:
        """Yield the messages that have arrived whole, each once. Errors: `LinkClosed`."""
        while len(self._waiting) >= HEAD_BYTES:
            length = int.from_bytes(self._waiting[:HEAD_BYTES], "big")
            if length > MOST_BYTES:
                raise LinkClosed(f"the other process of the agent sent what is no message: {length} bytes; at most"
                                 f" {MOST_BYTES} are taken")  # fmt: skip
            end = HEAD_BYTES + length
            if len(self._waiting) < end:
                return
            yield bytes(self._waiting[HEAD_BYTES:end])
            del self._waiting[:end]
