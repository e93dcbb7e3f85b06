# SPDX-License-Identifier: MIT
"""Where to look from: vantages written in TOML. Pure over text. An unknown key is refused.

[[vantage]]
name = "eu"                        # unique; short, it stands in every trace id
region = "Europe"
netns = "v-eu"                     # network namespace as `ip netns` names it; absent = the host's own
interface = "eth0"                 # device to send by; absent = as the routes say, for each target
source_address = "10.60.4.2"       # configured there; absent = as the routes say
source_address6 = "2001:db8::2"
resolver = "10.61.3.53"            # DNS server asked from there, with port if not 53; absent = /etc/resolv.conf
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from ipaddress import ip_address

from configtron.model.errors import BadInput
from configtron.model.nouns import Vantage
from configtron.probe.targets import Source

# The host itself, when no other is named.
HERE = Vantage("here", "here")
# Names stand in trace ids and file names.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
FIELDS = tuple(field.name for field in fields(Vantage))


def read_vantages(source: Source) -> tuple[Vantage, ...]:
    """Return the vantages in a TOML text, in its order."""
    try:
        document = tomllib.loads(source.text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"{source.name}: not TOML: {error}") from error
    tables = document.get("vantage")
    if not isinstance(tables, list) or not tables or set(document) != {"vantage"}:
        raise BadInput(f"{source.name}: has [[vantage]] tables, at least one, and nothing else")
    found = tuple(_vantage(table, f"{source.name}: vantage {n}") for n, table in enumerate(tables, start=1))
    names = [vantage.name for vantage in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{source.name}: vantage {name!r} is there twice; names are unique")
    return found


def choose(vantages: tuple[Vantage, ...], regions: str) -> tuple[Vantage, ...]:
    """Return the vantages whose name or region is in the comma-separated list; all if it is empty."""
    wanted = [word.strip().lower() for word in regions.split(",") if word.strip()]
    for word in wanted:
        if not any(word in (vantage.name, vantage.region.lower()) for vantage in vantages):
            known = ", ".join(f"{vantage.name} ({vantage.region})" for vantage in vantages)
            raise BadInput(f"region {word!r}: not among the vantages: {known}")
    return tuple(v for v in vantages if not wanted or v.name in wanted or v.region.lower() in wanted)


def _vantage(table: object, where: str) -> Vantage:
    if not isinstance(table, dict):
        raise BadInput(f"{where}: not a table")
    for name, value in table.items():
        if name not in FIELDS:
            raise BadInput(f"{where}: {name!r} is unknown; known are {', '.join(FIELDS)}")
        if not isinstance(value, str):
            raise BadInput(f"{where}: {name} is a text in quotes")
    if not NAME.fullmatch(table.get("name", "")):
        raise BadInput(f"{where}: needs a name of small letters, digits and hyphens")
    for name, version in (("source_address", 4), ("source_address6", 6)):
        _check_address(table.get(name, ""), version, f"{where}: {name}")
    return Vantage(**{"region": table["name"], **table})


def _check_address(text: str, version: int, where: str) -> None:
    try:
        if text and ip_address(text).version != version:
            raise BadInput(f"{where}: {text!r} is no IPv{version} address")
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from error
