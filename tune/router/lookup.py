# SPDX-License-Identifier: MIT
"""The map that Apache lacks: an address in, the pool of its longest prefix out, a line each.

    RewriteMap pools "prg:PYTHON -P -m configtron.tune.router.lookup MAP"

Apache starts it once, asks it by one pipe for all requests, and again with each graceful restart: then it reads the
file anew. It holds a dictionary a prefix length; for what it does not understand it answers NULL, and Apache takes its
own default. With --check it says in one line what is wrong with the file, and exits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

Tables = dict[int, dict[int, dict[int, str]]]
BITS = {4: 32, 6: 128}
NOTHING = "NULL"


def tables(lines: Iterable[str]) -> Tables:
    """{IP version: {prefix length, longest first: {leading bits: pool}}}. Errors: `ValueError`."""
    found: Tables = {4: {}, 6: {}}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            prefix, pool = words
            network = ip_network(prefix)
        except ValueError as error:
            raise ValueError(f"line {number}: {line.strip()!r} is not PREFIX POOL") from error
        leading = int(network.network_address) >> (BITS[network.version] - network.prefixlen)
        found[network.version].setdefault(network.prefixlen, {})[leading] = pool
    return {version: dict(sorted(lengths.items(), reverse=True)) for version, lengths in found.items()}


def pool(held: Tables, address: str) -> str:
    """Return the pool of an address; NULL for a text that is no address, or without a pool."""
    try:
        asked = ip_address(address.strip())
    except ValueError:
        return NOTHING
    asked = getattr(asked, "ipv4_mapped", None) or asked
    number, width = int(asked), BITS[asked.version]
    for length, prefixes in held[asked.version].items():
        found = prefixes.get(number >> (width - length))
        if found is not None:
            return found
    return NOTHING


def answers(held: Tables, asked: Iterable[str]) -> Iterator[str]:
    """Return a line for each line."""
    return (f"{pool(held, line)}\n" for line in asked)


def main(words: list[str]) -> int:
    """Serve, or check, the map that is named."""
    checking = words[:1] == ["--check"]
    (path,) = words[1:] if checking else words
    try:
        with open(path) as file:
            held = tables(file)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    if not checking:
        for line in answers(held, iter(sys.stdin.readline, "")):
            sys.stdout.write(line)
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
