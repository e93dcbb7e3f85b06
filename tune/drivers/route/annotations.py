# SPDX-License-Identifier: MIT
"""Short texts kept by the kernel, beside the routes that they explain: as routes.

Question   Routes and sysctls hold no names. Where do a profile's name and settings stand, so that a later process reads
           them back, that they go when the namespace or the machine goes, and that no file can disagree with the
           kernel?
Method     A table that no rule looks up. A text is cut into pieces of four bytes; each is a blackhole route whose
           destination is the piece and whose metric is the note's number and the piece's place. Piece 0 holds length
           and checksum: a note whose writer was killed is no note.
Reads as   ip route show table 49394: `blackhole 123.34.110.97 metric 65538` is piece 2 of note 1: '{"na'.
Fails as   a number or a text that is too long: `BadInput`. The kernel's refusals: `Refused`.
Source     linux/net/ipv4/fib_trie.c: a prefix may stand in a table once for each metric
"""

from __future__ import annotations

import errno
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping

from configtron.linux.netlink import Netlink
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.tune.drivers.route.routes import Writer, read
from configtron.tune.route_table import RouteKey, RouteWay

# An IPv4 address.
PIECE_BYTES = 4
# A metric has 32 bits: this many for the place, the rest for the number.
PLACE_BITS = 12
MOST_BYTES = PIECE_BYTES * ((1 << PLACE_BITS) - 1)
# Above it a profile's number would run into the offsets of `tune/route_table.py`.
MOST_NOTES = 9_999
BLACKHOLE = RouteWay("blackhole")


class Notes:
    """The notes of one table."""

    def __init__(self, net: Netlink, table: int, protocol: int) -> None:
        self._net, self._table, self._protocol = net, table, protocol
        self._writer = Writer(table, lambda *_: protocol)

    def read(self) -> dict[int, str]:
        """Every whole note by its number."""
        return {number: text for number, parts in self._pieces().items() if (text := _whole(parts)) is not None}

    def write(self, notes: Mapping[int, str]) -> None:
        """Put notes in place of those with the same numbers. Errors: `BadInput`, `Refused`."""
        keys = pieces(notes)
        self.drop(notes)
        self._net.write(self._writer.new(key, BLACKHOLE) for key in keys)

    def drop(self, numbers: Iterable[int]) -> None:
        """Take notes away, whole or not."""
        there = self._pieces()
        self._forget(_key(n, place, piece) for n in numbers for place, piece in there.get(n, {}).items())

    def clear(self) -> None:
        """Take all away."""
        self.drop(list(self._pieces()))

    def _forget(self, keys: Iterable[RouteKey]) -> None:
        self._net.write((self._writer.delete(key, BLACKHOLE) for key in keys), forgiven=(errno.ESRCH,))

    def _pieces(self) -> dict[int, dict[int, bytes]]:
        found: dict[int, dict[int, bytes]] = {}
        for route in read(self._net, 4, self._table, self._protocol):
            number, place = route.key.metric >> PLACE_BITS, route.key.metric & (1 << PLACE_BITS) - 1
            found.setdefault(number, {})[place] = route.key.address
        return found


def pieces(notes: Mapping[int, str]) -> list[RouteKey]:
    """Return the routes that notes are written as. Errors: `BadInput`."""
    cut = {number: _cut(number, text.encode()) for number, text in notes.items()}
    return [_key(number, place, piece) for number, parts in cut.items() for place, piece in enumerate(parts)]


def free(taken: Iterable[int]) -> Iterator[int]:
    """Yield numbers that no note has, from 1. Errors: `BadInput` when they come to an end."""
    held = set(taken)
    yield from (number for number in range(1, MOST_NOTES + 1) if number not in held)
    raise BadInput(f"there are {MOST_NOTES} profiles already; drop some: configtron tune profile drop NAME")


def _key(number: int, place: int, piece: bytes) -> RouteKey:
    return RouteKey(4, piece, 32, number << PLACE_BITS | place)


def _cut(number: int, text: bytes) -> list[bytes]:
    if not 0 < number <= MOST_NOTES or not 0 < len(text) <= MOST_BYTES:
        raise BadInput(f"note {number} of {len(text)} bytes: at most {MOST_NOTES} of {MOST_BYTES} bytes can be kept")
    head = len(text).to_bytes(2, "big") + _sum(text)
    padded = text + bytes(-len(text) % PIECE_BYTES)
    return [head, *(padded[at : at + PIECE_BYTES] for at in range(0, len(padded), PIECE_BYTES))]


def _whole(parts: Mapping[int, bytes]) -> str | None:
    head, rest = parts.get(0, b""), b"".join(parts[place] for place in sorted(parts) if place)
    text = rest[: int.from_bytes(head[:2], "big")]
    return text.decode() if head and _sum(text) == head[2:] else None


def _sum(text: bytes) -> bytes:
    """Two bytes of the CRC: a note cut short passes one time in 65536, and then the length must fit as well."""
    return (zlib.crc32(text) & 0xFFFF).to_bytes(2, "big")


def format_note(profile: Profile) -> str:
    """Return a profile as a note."""
    return json.dumps({"profile": profile.name, "settings": dict(profile.settings)}, separators=(",", ":"))


def profile_of(text: str) -> Profile | None:
    """Return the profile that a note spells; None where it is another kind of note."""
    held = json.loads(text)
    return Profile(held["profile"], tuple(held["settings"].items())) if "profile" in held else None
