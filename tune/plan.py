# SPDX-License-Identifier: MIT
"""A plan: the changes from the rules in force to the wanted ones, one advice each.

An advice is about a scope and one of its knobs: ("profile:web", "initcwnd", 10 -> 20), ("192.0.2.0/24", "profile",
none -> "web"), ("default", "profile", none -> "web"). An unchanged profile has no advice, so no advice has the form
X -> X. An advice's id is a hash of driver, scope, knob, from and to: the same advice has the same id on any day, and a
muted one stays muted until one of these changes.

A plan leaves out these prefixes and advices:
held back   a share of the prefixes, always the same (`holdback`): they keep the untouched stack, for comparison
canary      with a canary share, only that share of the prefixes moves; the others stay as they are
muted       by id: acknowledged (`tune acknowledge`)
frozen      by scope: another program changed it; until `unfreeze`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from ipaddress import ip_network
from itertools import islice
from typing import NamedTuple, overload

from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile, Value
from configtron.model.records import canonical, value_form
from configtron.model.tuning import Changes, Rules, prefix_counts
from configtron.model.tuning_json import value_text
from configtron.tune.rules import difference, prefix_changes, prefixes_among, renamed

# An id of 64 bits: among a million advices two alike are as likely as 1 in 30 million.
ID_BYTES = 8
# The knob of an advice about who has which profile, or about a profile that comes or goes whole.
WHOLE = "profile"
DEFAULT = "default"
OF_PROFILE = "profile:"
# The scope of all that is in force at a place, and of all prefixes of one IP version, where they are lost together.
PLACE, IPV4, IPV6 = "place", "ipv4", "ipv6"
# The profile of a held-back prefix where a wider prefix or the default would apply to it.
UNTOUCHED = "untouched"
# At most this many prefixes that change or differ alike are events or rows of their own: more, as behind a gateway that
# changed, are one.
SINGLY = 8
# The name of a changed profile while only the canary has it.
CANARY = ".canary"


class Advice(NamedTuple):
    """One change that is advised. `was` or `to` None: absent before, or after."""

    driver: str
    scope: str
    knob: str
    was: Value | None
    to: Value | None

    @property
    def id(self) -> str:
        """Return a hash of all its fields, in hex."""
        text = canonical([self.driver, self.scope, self.knob, value_form(self.was), value_form(self.to)])
        return blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()

    @property
    def text(self) -> str:
        """Return the advice in one line."""
        return f"{self.scope} {self.knob}: {value_text(self.was) or 'none'} -> {value_text(self.to) or 'none'}"


@dataclass(frozen=True, slots=True)
class PrefixShare:
    """A share of all prefixes, 0 to 1, always the same ones for one salt and purpose."""

    purpose: str
    salt: str
    fraction: float

    def holds(self, prefix: str) -> bool:
        """Return whether a prefix is one of them."""
        drawn = blake2b(f"{self.purpose} {self.salt} {prefix}".encode(), digest_size=8).digest()
        return int.from_bytes(drawn, "big") < self.fraction * 2**64


def aim(have: Rules, want: Rules, holdback: PrefixShare, canary: PrefixShare) -> Rules:
    """Return the target: the wanted rules without held-back prefixes, and for the canary's prefixes only."""
    held = _held_back(want, holdback)
    if canary.fraction < 1:
        held = _canary_only(have, held, canary)
    return replace(held, profiles={name: held.profiles[name] for name in sorted(held.used)})


def _held_back(want: Rules, holdback: PrefixShare) -> Rules:
    if not holdback.fraction:
        return want
    prefixes = {prefix: name for prefix, name in want.prefixes.items() if not holdback.holds(prefix)}
    lengths: dict[bool, set[int]] = {False: set(), True: set()}
    for prefix in prefixes:
        lengths[":" in prefix].add(int(prefix.rpartition("/")[2]))
    profiles = dict(want.profiles)
    for prefix in sorted(want.prefixes.keys() - prefixes.keys()):
        if want.default or _covered(prefix, prefixes, lengths[":" in prefix]):
            prefixes[prefix] = UNTOUCHED
            profiles[UNTOUCHED] = Profile(UNTOUCHED)
    return replace(want, profiles=profiles, prefixes=prefixes)


def _covered(prefix: str, prefixes: Mapping[str, str], lengths: Collection[int]) -> bool:
    network = ip_network(prefix)
    shorter = (length for length in lengths if length < network.prefixlen)
    return any(str(network.supernet(new_prefix=length)) in prefixes for length in shorter)


def _canary_only(have: Rules, want: Rules, canary: PrefixShare) -> Rules:
    """Return the wanted rules for the canary's prefixes, and the rules in force for all others and the default."""
    stay = {prefix: name for prefix, name in have.prefixes.items() if not canary.holds(prefix)}
    profiles = {name: have.profiles[name] for name in {have.default, *stay.values()} - {""}}
    prefixes = dict(stay)
    names: dict[str, str] = {}
    for prefix, name in want.prefixes.items():
        if canary.holds(prefix):
            if name not in names:
                differs = name in profiles and profiles[name].settings != want.profiles[name].settings
                names[name] = name + CANARY if differs else name
                profiles[names[name]] = replace(want.profiles[name], name=names[name])
            prefixes[prefix] = names[name]
    return Rules(profiles, prefixes, have.default)


class Advices(Sequence[Advice]):
    """The changes from rules in force to a target, in order: profiles, default, prefixes, removals.

    That of a prefix is made when it is asked for: there may be a million.
    """

    def __init__(self, driver: str, have: Rules, target: Rules) -> None:
        self._driver, self._have = driver, have.prefixes
        self._first = tuple(_before_prefixes(driver, have, target))
        self._changed, self._dropped = prefix_changes(have.prefixes, target.prefixes)
        gone = sorted(have.profiles.keys() - target.profiles.keys())
        self._last = tuple(Advice(driver, OF_PROFILE + name, WHOLE, name, None) for name in gone)

    def __len__(self) -> int:
        return len(self._first) + len(self._changed) + len(self._dropped) + len(self._last)

    def __iter__(self) -> Iterator[Advice]:
        yield from self._first
        was = dict(prefixes_among(self._have, self._changed).items())
        for prefix, name in self._changed.items():
            yield Advice(self._driver, prefix, WHOLE, was.get(prefix), name)
        for prefix in self._dropped:
            yield Advice(self._driver, prefix, WHOLE, self._have[prefix], None)
        yield from self._last

    @overload
    def __getitem__(self, place: int) -> Advice: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Advice, ...]: ...

    def __getitem__(self, place: int | slice) -> Advice | tuple[Advice, ...]:
        """Return one advice, or some: those before it are made."""
        if isinstance(place, slice):
            return tuple(self)[place]
        return next(islice(self, range(len(self))[place], None))


def advise(driver: str, have: Rules, target: Rules) -> Advices:
    """Return the changes from `have` to `target`. Linear in their number."""
    return Advices(driver, have, target)


def _before_prefixes(driver: str, have: Rules, target: Rules) -> Iterator[Advice]:
    for name, profile in sorted(target.profiles.items()):
        yield from _of_profile(driver, name, have.profiles.get(name), profile)
    if have.default != target.default:
        yield Advice(driver, DEFAULT, WHOLE, have.default or None, target.default or None)


def _of_profile(driver: str, name: str, was: Profile | None, to: Profile) -> Iterator[Advice]:
    scope = OF_PROFILE + name
    if was is None and not to.settings:
        yield Advice(driver, scope, WHOLE, None, name)
    before, after = dict(was.settings if was else ()), dict(to.settings)
    for knob in sorted(before.keys() | after.keys()):
        if before.get(knob) != after.get(knob):
            yield Advice(driver, scope, knob, before.get(knob), after.get(knob))


def lost_together(wanted: Rules, found: Rules) -> tuple[str, ...]:
    """Return the wide scopes without any rule left in force: `PLACE`, or the IP versions that lost all prefixes.

    A place with a single prefix, and no default, has no wider scope than that prefix.
    """
    held = {version: [p for p in wanted.prefixes if (":" in p) == (version == IPV6)] for version in (IPV4, IPV6)}
    left = {version: any(p in found.prefixes for p in prefixes) for version, prefixes in held.items()}
    if len(wanted.prefixes) + bool(wanted.default) > 1 and not any(left.values()) and not found.default:
        return (PLACE,)
    return tuple(version for version, prefixes in held.items() if len(prefixes) > 1 and not left[version])


def holds_scope(wide: str, scope: str) -> bool:
    """Return whether a wide scope contains another: `PLACE` all scopes, `IPV4` and `IPV6` their prefixes."""
    if wide in (IPV4, IPV6):
        return "/" in scope and (":" in scope) == (wide == IPV6)
    return wide == PLACE


def follow(have: Rules, advices: Iterable[Advice]) -> Rules:
    """Return the rules after these advices. A profile that some client still has stays.

    Errors: `Refused` where an advice begins from another value than the one in force: the plan is out of date.
    """
    profiles = {name: dict(profile.settings) for name, profile in have.profiles.items()}
    prefixes, default = dict(have.prefixes), have.default
    dropped: set[str] = set()
    for advice in advices:
        if advice.scope.startswith(OF_PROFILE):
            name = advice.scope.removeprefix(OF_PROFILE)
            found: Value | None = _follow_profile(profiles, dropped, name, advice)
        elif advice.scope == DEFAULT:
            found, default = default or None, _name(advice.to)
        else:
            found = prefixes.pop(advice.scope, None)
            if advice.to is not None:
                prefixes[advice.scope] = _name(advice.to)
        if found != advice.was:
            now = f"is {value_text(found) or 'none'} now"
            raise Refused(f"advice {advice.id} ({advice.text}) is out of date: it {now}; make a new plan")
    used = {default, *prefixes.values()} - {""}
    kept = {name: settings for name, settings in profiles.items() if name not in dropped or name in used}
    kept |= {name: {} for name in used - kept.keys()}
    return Rules({name: Profile(name, tuple(kept[name].items())) for name in sorted(kept)}, prefixes, default)


def _follow_profile(
    profiles: dict[str, dict[str, Value]], dropped: set[str], name: str, advice: Advice
) -> Value | None:
    """Apply an advice to one profile; return the value before."""
    if advice.knob == WHOLE:
        found = name if name in profiles else None
        if advice.to is None:
            dropped.add(name)
        else:
            profiles.setdefault(name, {})
        return found
    settings = profiles.setdefault(name, {})
    was = settings.pop(advice.knob, None)
    if advice.to is not None:
        settings[advice.knob] = advice.to
    return was


def _name(value: Value | None) -> str:
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{value!r} is no name of a profile")
    return value or ""


def changes(have: Rules, target: Rules) -> Changes:
    """Return the changes for a driver, with the profiles of all changed prefixes: it need not know names."""
    found = difference(have, target)
    named = {found.default or "", *prefix_counts(found.prefixes)} - {""}
    return replace(found, profiles={**found.profiles, **{name: target.profiles[name] for name in named}})


def recognised(found: Rules, known: Iterable[Rules]) -> Rules:
    """Return rules read back under their profiles' known names: a kernel that keeps settings need not keep names."""
    names: dict[tuple[tuple[str, Value], ...], str] = {}
    familiar: set[str] = set()
    for rules in known:
        familiar |= rules.profiles.keys()
        for profile in rules.profiles.values():
            names.setdefault(profile.settings, profile.name)
    called = {
        name: name if name in familiar else names.get(profile.settings, name)
        for name, profile in found.profiles.items()
    }
    return Rules(
        {called[name]: replace(profile, name=called[name]) for name, profile in found.profiles.items()},
        renamed(found.prefixes, called),
        called.get(found.default, found.default),
    )
