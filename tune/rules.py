# SPDX-License-Identifier: MIT
"""Rules as a value: their canonical form, the kernel's lookup of a client, and the changes between two of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeVar

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import MANY, Changes, Rules

T = TypeVar("T")

# Digits as `ipaddress` prints them: none in front that could be read as octal.
IPV4 = re.compile(r"(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})/(0|[1-9][0-9]?)")
# ::ffff:0:0/96, IPv4 inside IPv6 (RFC 4291 section 2.5.5.2).
MAPPED_BITS = 96


def canonical(prefix: str) -> str:
    """Return a prefix as rules write it; an address alone is a prefix of full length.

    Errors: `BadInput` for text that is no prefix, and for one with bits below its length, which is ambiguous. A
    zone (RFC 4007, fe80::%eth0) is an interface's name, thus any text, and belongs to no table of prefixes.
    """
    if _is_canonical(prefix):
        return prefix
    try:
        if "%" in prefix:
            raise ValueError("it names a zone")
        network = ip_network(prefix.strip())
    except ValueError as error:
        raise BadInput(f"{prefix!r} is no prefix ({error}); write e.g. 192.0.2.0/24 or 2001:db8::/48") from error
    if isinstance(network, IPv6Network) and network.prefixlen >= MAPPED_BITS:
        inner = network.network_address.ipv4_mapped
        if inner is not None:
            return str(IPv4Network((inner, network.prefixlen - MAPPED_BITS)))
    return str(network)


def _is_canonical(prefix: str) -> bool:
    """Return whether text is an IPv4 prefix as rules write it: a file has a million, and `ipaddress` is slow."""
    found = IPV4.fullmatch(prefix)
    if found is None:
        return False
    one, two, three, four, length = map(int, found.groups())
    if one > 255 or two > 255 or three > 255 or four > 255 or length > 32:
        return False
    return not (one << 24 | two << 16 | three << 8 | four) & (0xFFFF_FFFF >> length)


def check(rules: Rules) -> Rules:
    """Return the rules after a check that each name in them has a profile. Errors: `BadInput`."""
    if absent := sorted(rules.used - rules.profiles.keys()):
        known = ", ".join(sorted(rules.profiles)) or "none"
        remedy = f"make it: configtron tune profile set {absent[0]} KNOB=VALUE"
        raise BadInput(f"no profile is called {absent[0]!r} (there is: {known}); {remedy}")
    return rules


def longest(rules: Rules, address: str) -> str:
    """Return the longest prefix that holds a client; "" if none does."""
    parsed = ip_address(address)
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    for length in range(parsed.max_prefixlen, -1, -1):
        prefix = str(ip_network((parsed, length), strict=False))
        if prefix in rules.prefixes:
            return prefix
    return ""


def inside(prefixes: Iterable[str], wider: Collection[str]) -> set[str]:
    """Return the prefixes that lie in one of `wider` other than themselves."""
    lengths = sorted({int(one.partition("/")[2]) for one in wider})
    found = set()
    for prefix in prefixes if lengths else ():
        network = ip_network(prefix)
        shorter = (length for length in lengths if length < network.prefixlen)
        if any(str(network.supernet(new_prefix=length)) in wider for length in shorter):
            found.add(prefix)
    return found


def lookup(rules: Rules, address: str) -> Profile | None:
    """Return the profile of a client: by its longest prefix, else the default; None is the untouched stack."""
    prefix = longest(rules, address)
    name = rules.prefixes[prefix] if prefix else rules.default
    return rules.profiles[name] if name else None


def difference(have: Rules, want: Rules) -> Changes:
    """Return the changes from `have` to `want`; false where they are equal. Linear in the number of prefixes."""
    prefixes, dropped = prefix_changes(have.prefixes, want.prefixes)
    return Changes(
        profiles=dict(_news(have.profiles, want.profiles)),
        prefixes=prefixes,
        dropped_profiles=frozenset(have.profiles.keys() - want.profiles.keys()),
        dropped_prefixes=frozenset(dropped),
        default=want.default if want.default != have.default else None,
    )


def prefix_changes(have: Mapping[str, str], want: Mapping[str, str]) -> tuple[Mapping[str, str], Collection[str]]:
    """Return the wanted prefixes that are new or have another profile, and those that are wanted no more, in order."""
    if max(len(have), len(want)) < MANY:
        return dict(_news(have, want)), [prefix for prefix in have if prefix not in want]
    # Few prefixes need no numpy.
    from configtron.model.prefix_columns import columns_of, prefixes_not_in

    before, after = columns_of(have), columns_of(want)
    return before.changes_to(after), prefixes_not_in(before, after)


def after(have: Rules, changes: Changes) -> Rules:
    """Return the rules that changes lead to."""
    profiles = {**have.profiles, **changes.profiles}
    for name in changes.dropped_profiles:
        profiles.pop(name, None)
    prefixes = _prefixes_after(have.prefixes, changes)
    return Rules(profiles, prefixes, have.default if changes.default is None else changes.default)


def prefixes_among(prefixes: Mapping[str, str], chosen: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of the prefixes that are among the chosen, with their own profiles."""
    if max(len(prefixes), len(chosen)) < MANY:
        return {prefix: prefixes[prefix] for prefix in chosen if prefix in prefixes}
    from configtron.model.prefix_columns import columns_of

    return columns_of(prefixes).present_in(columns_of(chosen))


def renamed(prefixes: Mapping[str, str], names: Mapping[str, str]) -> Mapping[str, str]:
    """Return prefixes with other names of profiles; a name without another stays."""
    if len(prefixes) < MANY:
        return {prefix: names.get(name, name) for prefix, name in prefixes.items()}
    from configtron.model.prefix_columns import columns_of

    return columns_of(prefixes).with_profile_names(names)


def _prefixes_after(have: Mapping[str, str], changes: Changes) -> Mapping[str, str]:
    if max(len(have), len(changes.prefixes)) >= MANY:
        from configtron.model.prefix_columns import columns_of

        return columns_of(have).with_changes(columns_of(changes.prefixes), changes.dropped_prefixes)
    prefixes = {**have, **changes.prefixes}
    for prefix in changes.dropped_prefixes:
        prefixes.pop(prefix, None)
    return prefixes


def _news(have: Mapping[str, T], want: Mapping[str, T]) -> Iterable[tuple[str, T]]:
    return ((key, value) for key, value in want.items() if have.get(key) != value)
