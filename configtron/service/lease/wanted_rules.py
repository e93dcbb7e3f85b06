# SPDX-License-Identifier: MIT
"""Wanted rules: profiles and prefixes, stored until they are dropped; acknowledged advice; frozen scopes.

Nothing here touches the kernel's stack: the next `plan` shows the changes, `apply` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from io import StringIO, TextIOBase
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import MANY, Rules
from configtron.model.tuning_json import setting_of
from configtron.tune.capabilities import refusal
from configtron.tune.drivers import tables
from configtron.tune.drivers.congestion_controls import unknown
from configtron.tune.plan import DEFAULT, UNTOUCHED
from configtron.tune.rules import canonical, longest

if TYPE_CHECKING:
    from configtron.model.prefix_columns import PrefixColumns

# A name goes into kernel tables, file names and command lines.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
# Id of advice, as `configtron.tune.plan` computes it.
ADVICE_ID = re.compile("[0-9a-f]{16}")
HUMAN, LEARNER = "human", "learner"
# A file of prefixes: the form of its lines, and lines that are heads of its columns.
SYNTAX = "write PREFIX PROFILE, separated by a space or a comma"
HEADS = (("prefix", "profile"), ("prefix", "profile", "owner"))


class StoredRules(NamedTuple):
    """Wanted rules, and the names of profiles and prefixes that the learner's export set; a human set the others."""

    rules: Rules
    learned_profiles: Collection[str]
    learned_prefixes: Collection[str]

    def profile_owner(self, name: str) -> str:
        """Return who set a profile: `HUMAN` or `LEARNER`."""
        return LEARNER if name in self.learned_profiles else HUMAN

    def prefixes(self) -> list[tuple[str, str, str]]:
        """Return (prefix, profile, owner) in the order of addresses, then the default's."""
        ordered = sorted(self.rules.prefixes.items(), key=lambda pair: (":" in pair[0], ip_network(pair[0])))
        found = [(one, name, LEARNER if one in self.learned_prefixes else HUMAN) for one, name in ordered]
        return found + ([(DEFAULT, self.rules.default, HUMAN)] if self.rules.default else [])


def wanted(database: Path) -> StoredRules:
    """Return the wanted rules. Write nothing."""
    return read_only(database, lambda book: StoredRules(book.wanted(), book.learned("profile"), book.learned("prefix")))


def set_profile(
    database: Path, name: str, words: Iterable[str], *, dropped: Collection[str] = (), unchecked: bool = False
) -> str:
    """Make a profile, or set knobs of one, by words KNOB=VALUE; its other knobs stay, but those dropped.

    unchecked  accept a congestion control that neither this kernel nor Linux has

    Returns a remark about the congestion control, or "". Errors: `BadInput`; then nothing is kept.
    """
    if not NAME.fullmatch(name) or name in (DEFAULT, UNTOUCHED):
        raise BadInput(f"{name!r} cannot be a profile's name: letters, digits, - and _, at most 31; not {DEFAULT!r}")
    new = _settings(list(words))
    remark = "" if unchecked else _check_control(new.get("tcp_congestion_control"))
    with Tuning(database) as journal:
        found = journal.wanted().profiles.get(name)
        before = dict(found.settings if found else ())
        if unset := sorted(set(dropped) - before.keys()):
            raise BadInput(f"profile {name}: {unset[0]} is not set")
        others = {knob: value for knob, value in before.items() if knob not in dropped}
        journal.set_profiles([Profile(name, tuple({**others, **new}.items()))])
    return remark


def _settings(words: list[str]) -> dict[str, Value]:
    """Return settings from words, each one that some driver takes. Errors: `BadInput`."""
    new, reaches = dict(setting_of(word) for word in words), tables()
    if len(new) < len(words):
        raise BadInput(f"{' '.join(words)}: one of them is there twice; nothing was kept")
    for word in words:
        if wrong := refusal(*setting_of(word), reaches):
            raise BadInput(f"{word} {wrong}; nothing was kept")
    return new


def _check_control(name: Value | None) -> str:
    """Return a remark about a congestion control; "" if there is nothing to say. Errors: `BadInput` if it is none."""
    if name is None:
        return ""
    wrong, remark = unknown(str(name))
    if wrong:
        raise BadInput(f"{wrong}; nothing was kept; for a host with one of its own: --unchecked")
    return remark


def drop_profile(database: Path, name: str) -> bool:
    """Drop a profile; return whether there was one. Errors: `BadInput` while prefixes or the default have it."""
    with Tuning(database) as journal:
        return journal.drop_profile(name)


def set_prefixes(database: Path, prefixes: Mapping[str, str], *, whole: bool = False) -> int:
    """Give prefixes (or `DEFAULT`: all other clients) their profiles; return how many are new.

    prefixes  an address alone is a prefix; kept as `canonical` writes them
    whole     drop all other prefixes, and the default

    Errors: `BadInput` for text that is no prefix, for a prefix with two profiles, and for an unknown profile; then
    nothing is stored.
    """
    named: dict[str, str] = {}
    for written, name in prefixes.items():
        if written != DEFAULT and named.setdefault(prefix := canonical(written), name) != name:
            raise BadInput(f"prefix {prefix} has two profiles, {named[prefix]} and {name}")
    return _store(database, named, prefixes.get(DEFAULT, ""), whole)


def _store(database: Path, prefixes: Mapping[str, str], default: str, whole: bool) -> int:
    """Store canonical prefixes and the default, "" to leave it; return how many prefixes are new."""
    with Tuning(database) as journal:
        new = journal.set_prefixes(prefixes, whole=whole)
        if default or whole:
            journal.set_default(default)
    return new


def import_prefixes(database: Path, lines: Iterable[str], file: str, *, whole: bool = False) -> tuple[int, int]:
    """Give the prefixes in lines of a file their profiles; return how many were read, and how many are new.

    Errors: `BadInput`, which names the file; then nothing is kept.
    """
    pairs = read_prefixes(lines, file)
    default = pairs.get(DEFAULT, "")
    named = {prefix: name for prefix, name in pairs.items() if prefix != DEFAULT} if default else pairs
    try:
        new = _store(database, named, default, whole)
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from error
    return len(named), new


def drop_prefixes(database: Path, prefixes: Iterable[str] | None) -> int:
    """Remove the profiles of prefixes and `DEFAULT` (None: of all); return how many had one. Errors: `BadInput`."""
    with Tuning(database) as journal:
        rules = journal.wanted()
        chosen = [*rules.prefixes, DEFAULT] if prefixes is None else list(prefixes)
        count = journal.drop_prefixes([canonical(one) for one in chosen if one != DEFAULT])
        if rules.default and DEFAULT in chosen:
            journal.set_default("")
            count += 1
    return count


def profile_of(rules: Rules, address: str) -> tuple[str, Profile]:
    """Return a client's prefix (or `DEFAULT`) and profile, by longest prefix match. Errors: `BadInput`."""
    try:
        ip_address(address)
    except ValueError as error:
        raise BadInput(f"{address!r} is no address; write e.g. 192.0.2.7 or 2001:db8::7") from error
    found = longest(rules, address)
    name = rules.prefixes[found] if found else rules.default
    return found or DEFAULT, rules.profiles[name] if name else Profile(UNTOUCHED)


def acknowledge(database: Path, ids: Iterable[str], about: str = "") -> None:
    """Acknowledge advice: plans show it as muted and do not follow it. Errors: `BadInput` for text that is no id."""
    ids = list(ids)
    for one in ids:
        if not ADVICE_ID.fullmatch(one):
            raise BadInput(f"{one!r} is no advice's id (16 hexadecimal digits); `configtron tune plan` shows them")
    with Tuning(database) as journal:
        journal.acknowledge(dict.fromkeys(ids, about))


def unacknowledge(database: Path, ids: Iterable[str]) -> int:
    """Follow advice again; return how many ids were acknowledged."""
    with Tuning(database) as journal:
        return journal.unacknowledge(ids)


def acknowledged(database: Path) -> dict[str, str]:
    """Return the ids of acknowledged advice, each with its remark."""
    return read_only(database, Tuning.acknowledged)


def unfreeze(database: Path, scopes: Collection[str] | None) -> int:
    """Let plans change scopes again that were frozen by an external change (None: all); return how many were."""
    with Tuning(database) as journal:
        return journal.unfreeze(scopes)


def read_prefixes(lines: Iterable[str], name: str) -> Mapping[str, str]:
    """Read lines of prefix (or `DEFAULT`) and profile, separated by a space or a comma; an owner may follow.

    Skip empty lines, comments from `#` on, and the heads of `prefix list -f csv`. Errors: `BadInput`, with the file's
    name and the line.
    """
    every: Iterable[str] = ()
    try:
        # A file's lines are not made one by one unless they are read one by one.
        text = lines.read() if isinstance(lines, TextIOBase) else "".join(every := list(lines))
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not text; {SYNTAX}") from error
    if text.count("\n") >= MANY and (columns := _columns(text)) is not None:
        return columns
    pairs: dict[str, str] = {}
    for number, line in enumerate(every or StringIO(text), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if words and tuple(words) not in HEADS:
            prefix, profile = _pair(words, f"{name}: line {number}")
            pairs[prefix] = profile
    return pairs


def _columns(text: str) -> PrefixColumns | None:
    """Read lines of canonical prefixes and profiles, and of nothing else, as columns; None if one is otherwise."""
    # Few prefixes need no numpy.
    from configtron.model.prefix_columns import rows_of_lines, strings
    from configtron.tune.ipv4_columns import parse_ipv4, sorted_prefixes

    # Arrays of texts end where a NUL stands.
    rows = rows_of_lines(text.encode()) if text.isascii() and "\0" not in text else None
    # A name with a comma or a comment behind it is more than a name.
    if rows is None or not all(map(NAME.fullmatch, rows[2])):
        return None
    parsed = parse_ipv4(rows[0])
    try:
        if any(canonical(one) != one for one in strings(rows[0][~parsed.rows])):
            return None
    except BadInput:
        return None
    return sorted_prefixes(*rows, parsed)


def _pair(words: list[str], where: str) -> tuple[str, str]:
    if words[2:] not in ([], [HUMAN], [LEARNER]) or len(words) < 2:
        raise BadInput(f"{where}: {SYNTAX}")
    try:
        return words[0] if words[0] == DEFAULT else canonical(words[0]), words[1]
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
