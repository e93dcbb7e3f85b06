# SPDX-License-Identifier: MIT
"""The blocklist: address ranges and names that no probe may touch.

The run checks it after every redirect and DNS answer, aliases (CNAME) too, so a check must be quick: sorted disjoint
ranges, one bisection.

    special ranges   by default nothing that IANA keeps for special purposes is probed (a lab has its own list: none)
    blocklist file   addresses, blocks and names (with all names below them), `#` comments
    opt-out file     the same form: hosts whose operators asked us to leave them alone
    allowlist file   if given, only these addresses may be probed; they are exempt from the special ranges, never from
                     blocklist and opt-out; a name in it is refused
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from configtron.probe.special import SPECIAL
from configtron.probe.targets import Source, SourceLine, hostname

# Addresses of which the number is cached: as many as a campaign has open connections. A connection looks its address up
# in several lists.
CACHED_ADDRESSES = 4096


class Range(NamedTuple):
    """Addresses first..last of one version, and why they stand here."""

    version: int
    first: int
    last: int
    why: str


class Ranges:
    """A set of ranges that answers which of them an address is in; of nested ones the widest counts."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._disjoint: list[Range] = []
        for item in sorted(ranges, key=lambda r: (r.version, r.first, -r.last)):
            above = self._disjoint[-1] if self._disjoint else None
            if above is None or above.version != item.version or item.first > above.last:
                self._disjoint.append(item)
            elif item.last > above.last:
                self._disjoint.append(item._replace(first=above.last + 1))
        self._starts = [(item.version, item.first) for item in self._disjoint]

    def find(self, address: str) -> Range | None:
        """Return the range that address is in."""
        version, number = parsed = numbered(address)
        place = bisect_right(self._starts, parsed) - 1
        if place < 0:
            return None
        found = self._disjoint[place]
        return found if found.version == version and number <= found.last else None


@lru_cache(CACHED_ADDRESSES)
def numbered(address: str) -> tuple[int, int]:
    """Return an address's version and number. Errors: `ValueError`."""
    parsed = ip_address(address)
    return parsed.version, int(parsed)


class Blocklist:
    """The addresses and names that may not be probed, and why."""

    def __init__(
        self, blocked: Iterable[Source] = (), *, allowed: Iterable[Source] | None = None, special: bool = True
    ) -> None:
        ranges, self._names = _read(blocked)
        self._listed = Ranges(ranges)
        self._special = Ranges(special_ranges() if special else ())
        self._allowed = None if allowed is None else Ranges(_read(allowed, names=False)[0])

    def address(self, address: str) -> str:
        """Return why that address may not be probed; "" if it may."""
        listed = self._listed.find(address)
        if listed is not None:
            return listed.why
        if self._allowed is not None:
            return "" if self._allowed.find(address) else "not in the allowlist"
        special = self._special.find(address)
        return special.why if special is not None else ""

    def host(self, host: str) -> str:
        """Return why that name may not be probed; "" if it may. An address is looked up as one."""
        labels = host.lower().removesuffix(".").split(".")
        for n in range(len(labels)):
            why = self._names.get(".".join(labels[n:]))
            if why is not None:
                return why
        if ":" not in host and not labels[-1].isdigit():
            return ""
        try:
            return self.address(host)
        except ValueError:
            # Numbers that only some resolvers take for an address ("127.1", "2130706433") name no host.
            return "neither a name nor an address"


def special_ranges() -> Iterator[Range]:
    """Yield the table of `special.py`, as ranges."""
    for block, name, source in SPECIAL:
        yield _range(ip_network(block), f"{block} ({name}, {source})")


def _read(sources: Iterable[Source], *, names: bool = True) -> tuple[list[Range], dict[str, str]]:
    ranges, named = [], {}
    for source in sources:
        for number, line in enumerate(source.text.split("\n"), start=1):
            text = line.lstrip("\ufeff").partition("#")[0].strip()
            place = SourceLine(source.name, number)
            if not text:
                continue
            if ":" in text or text[0].isdigit() and text.rpartition(".")[2].split("/")[0].isdigit():
                try:
                    ranges.append(_range(ip_network(text, strict=False), f"{text} ({source.name}:{number})"))
                except ValueError as error:
                    raise place.error(f"not an address or block: {error}") from error
            elif names:
                name = hostname(text.removeprefix("*."), place)
                named[name] = f"{name} ({source.name}:{number})"
            else:
                raise place.error(f"{text[:80]!r}: an allowlist has addresses and blocks; name the host as a target")
    return ranges, named


def _range(block: IPv4Network | IPv6Network, why: str) -> Range:
    return Range(block.version, int(block.network_address), int(block.broadcast_address), why)
