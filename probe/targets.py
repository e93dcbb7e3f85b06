# SPDX-License-Identifier: MIT
"""Whom to ask: the words and lists that people hand in, read as Targets.

Rules for this file: pure over text; any text gives targets or one `BadInput` that names file and line.

A line, or an argument, is one of

    example.com   example.com:8080   https://example.com/path   192.0.2.7   [2001:db8::7]:443   192.0.2.0/28
    192.0.2.7, example.com, tag, 8443          CSV: IP, DOMAIN, TAG, PORT (any may be empty), as zgrab2 reads it
    17,example.com                             CSV: rank,domain, as Tranco and the former Alexa list write it

and `#`, first or behind a space, begins a comment. Dropped: ranks, since the list's order has them; a URL's fragment,
which no server is sent; the bits of an address below its block's length. Names are folded to lower case and to IDNA
(UTS 46).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

import idna

from configtron.model.errors import BadInput
from configtron.model.nouns import Target
from configtron.probe.hash_set import HashSet

# A /16: the largest block that is likely to be meant. More needs a number from the user.
MOST_UNASKED = 65536
# RFC 9110 4.2: default ports of the two schemes.
SCHEME_PORTS = {"http": 80, "https": 443}
# RFC 1035 2.3.4, without the root's dot.
LONGEST_NAME = 253
# Reported where a row of CSV does not begin with an address: it is often the names of its columns.
LIST_COLUMNS = "; columns are IP, DOMAIN, TAG, PORT or rank, domain, without a heading"
COMMENT = re.compile(r"(?:^|\s)#")
LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")


class Source(NamedTuple):
    """A text and where it came from, as messages name it. A part of a long one says which line it begins with."""

    name: str
    text: str
    first_line: int = 1


class SourceLine(NamedTuple):
    """Where a line stands."""

    source: str
    line: int

    def error(self, what: str) -> BadInput:
        """Return the complaint about this line."""
        where = f"{self.source}:{self.line}: " if self.line else ""
        return BadInput(f"{where}{what}")


def read(sources: Iterable[Source], *, most: int | None = None, path: str = "/") -> Iterator[Target]:
    """Yield targets of all sources in their order, each once; the first `most` of them if a number is given.

    `path` is asked where a line names none. Without `most`, more than `MOST_UNASKED` targets are refused. Results are
    kept by name, port and path, so a name with two addresses is refused as well.
    """
    # A digest of 64 bits stands for the target itself, which would be ten times as large.
    seen, given = HashSet(), HashSet()
    for place, target in _all(sources, path):
        if len(seen) == most:
            break
        fixed = target.address not in ("", target.host)
        name, digest = _digest(replace(target, address="") if fixed else target, 0), _digest(target, 0)
        if name in seen:
            if fixed and digest not in given:
                raise place.error(f"{target.host} again, with another address; list the addresses without the name")
            continue
        seen.add(name)
        if fixed:
            given.add(digest)
        if most is None and len(seen) > MOST_UNASKED:
            raise place.error(f"more than {MOST_UNASKED} targets; say how many you mean by --max-targets")
        yield target


def order(targets: Iterable[Target], seed: int) -> list[Target]:
    """Return targets in an order that depends on the seed and on each target alone, so that a shard keeps its order."""
    return sorted(targets, key=lambda target: rank(target, seed))


def rank(target: Target, seed: int) -> tuple[int, str, str, int, str, str]:
    """Return the sort key of `order`: equal for equal targets only."""
    return _digest(target, seed), target.host, target.address, target.port, target.path, target.tag


def shard(targets: Iterable[Target], index: int, count: int, seed: int) -> Iterator[Target]:
    """Return the `index`-th (from 0) of `count` disjoint shards, which together are all targets."""
    if not 0 <= index < count:
        raise BadInput(f"shard {index} of {count}: shards are numbered from 0 to {count - 1}")
    return (target for target in targets if _digest(target, ~seed) % count == index)


def _digest(target: Target, seed: int) -> int:
    text = f"{seed}|{target.host}|{target.address}|{target.port}|{target.path}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _all(sources: Iterable[Source], path: str) -> Iterator[tuple[SourceLine, Target]]:
    for source in sources:
        for number, line in enumerate(source.text.split("\n"), start=source.first_line):
            place = SourceLine(source.name, number if source.name else 0)
            text = COMMENT.split(line.lstrip("\ufeff"), 1)[0].strip()
            if text:
                yield from ((place, target) for target in _line(text, place, path))


def _line(text: str, place: SourceLine, path: str) -> Iterator[Target]:
    if "," in text and "://" not in text:
        yield from _row(text, place, path)
    elif "://" in text:
        yield _url(text, place)
    elif "/" in text and not _is_block(text):
        _refuse_path_of_address(text, place)
        yield _url(f"http://{text}", place)
    elif "/" in text:
        yield from _block(text, place, Target("", path=path))
    else:
        host, port = _host_and_port(text, place)
        yield _target(host, port, place, path)


def _row(text: str, place: SourceLine, path: str) -> Iterator[Target]:
    try:
        fields = [field.strip() for field in next(csv.reader([text], skipinitialspace=True, strict=True))]
    except (csv.Error, StopIteration) as error:
        raise place.error(f"not CSV: {error}") from error
    if len(fields) == 2 and fields[0].isascii() and fields[0].isdigit():
        yield _target(fields[1], 80, place, path)
        return
    if len(fields) > 4:
        raise place.error(f"{len(fields)} columns; IP, DOMAIN, TAG, PORT are the most")
    address, domain, tag, port = fields + [""] * (4 - len(fields))
    row = Target("", port=_port(port, place) if port else 80, path=path, tag=tag)
    if domain:
        fixed = str(_address(address, place, LIST_COLUMNS)) if address else ""
        yield Target(hostname(domain, place), fixed, row.port, path, tag=tag)
    elif "/" in address:
        yield from _block(address, place, row)
    elif address:
        yield _bare(_address(address, place, LIST_COLUMNS), row)
    else:
        raise place.error("neither IP nor DOMAIN")


def _is_block(text: str) -> bool:
    before, _, after = text.partition("/")
    return after.isdigit() and (":" in before or before.replace(".", "").isdigit())


def _refuse_path_of_address(text: str, place: SourceLine) -> None:
    """Refuse a path after an address: in a block, a number follows the "/", not a page's path."""
    before, _, after = text.partition("/")
    if before.startswith("[") or not (":" in before or _looks_like_ipv4(before)):
        return
    try:
        ip_address(before)
    except ValueError:
        return
    raise place.error(f"{text[:LONGEST_NAME]!r}: not an address block: {after!r} is no prefix length; a page of it is"
                      f" http://{f'[{before}]' if ':' in before else before}/{after}"[:2 * LONGEST_NAME])  # fmt: skip


def _block(text: str, place: SourceLine, like: Target) -> Iterator[Target]:
    try:
        block = ip_network(text, strict=False)
    except ValueError as error:
        raise place.error(f"not an address block: {error}") from error
    return (_bare(address, like) for address in block)


def _bare(address: IPv4Address | IPv6Address, like: Target) -> Target:
    return Target(str(address), str(address), like.port, like.path, tag=like.tag)


def _url(text: str, place: SourceLine) -> Target:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise place.error(f"{text[:LONGEST_NAME]!r}: not a URL: {error}") from error
    if parts.scheme not in SCHEME_PORTS:
        raise place.error(f"{parts.scheme}: only http and https are probed")
    if parts.username is not None:
        raise place.error("a URL with a user name is not probed")
    if port == 0:
        raise place.error("port 0: ports are 1 to 65535")
    asked = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not asked.isascii() or any(character <= " " or character == "\x7f" for character in asked):
        raise place.error("a path has plain ASCII only; write other characters as %XX")
    return _target(host, port or SCHEME_PORTS[parts.scheme], place, asked)


def _host_and_port(text: str, place: SourceLine) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise place.error(f"{text!r}: write [IPv6] or [IPv6]:port")
        return host, _port(rest[1:], place) if rest else 80
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port, place)
    return text, 80


def _port(text: str, place: SourceLine) -> int:
    # Five digits at most: Python refuses to convert very long ones.
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise place.error(f"port {text!r}: ports are 1 to 65535")
    return int(text)


def _target(host: str, port: int, place: SourceLine, path: str) -> Target:
    if ":" in host or _looks_like_ipv4(host):
        return _bare(_address(host, place), Target("", port=port, path=path))
    return Target(hostname(host, place), "", port, path)


def _looks_like_ipv4(host: str) -> bool:
    last = host.rstrip(".").rpartition(".")[2]
    return last.isascii() and last.isdigit()


def _address(text: str, place: SourceLine, hint: str = "") -> IPv4Address | IPv6Address:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise place.error(f"not an address: {error}{hint}") from error
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise place.error(f"{text!r}: an address with a zone is only reachable from here")
    return address


def hostname(text: str, place: SourceLine = SourceLine("", 0)) -> str:  # noqa: B008  # a named tuple is immutable
    """Return a host name in lower-case ASCII, without the root's dot."""
    name = text.strip().removesuffix(".").lower()
    # Long before any limit of DNS: IDNA's tables are slow on long text.
    if not name.isascii() and len(name) <= LONGEST_NAME:
        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise place.error(f"{text!r}: not an internationalised name: {error}") from error
    if len(name) > LONGEST_NAME or not all(LABEL.fullmatch(label) for label in name.split(".")):
        raise place.error(f"{text[:80]!r}: not a host name, address, block or URL")
    if _looks_like_ipv4(name):
        raise place.error(f"{text!r}: a host name does not end in a number")
    return name
