# SPDX-License-Identifier: MIT
"""The applier: documents in, rules in force out. It takes data, checks all of it, and has no socket and no clock.

Question   What may a map from the network change on this host, and for how long?
Method     A document counts if its signature, its bounds and its table's digest hold, and if it is later than the one
           in force. Prefixes that a human set, or that lie in one, are left out; so is a class with a profile that the
           operator's bounds, the guard or the driver refuse. What is left is drawn for the epoch, and put in force as a
           change of what is there. Mixes change with the epoch or with the key alone. Twice a second the epoch is
           compared with the wall clock, the validity and the lease with the clock since boot.
Stop when  The map's validity ends, another program changes what is in force, or the process ends: then the lease does.
Reads as   `MapResult`: ACK or NACK, refused entries by name.
Fails as   A NACK with the reason; what was in force stays.
Differs    from `tune apply`: rules stay in memory, the driver stays open, and a change of a hundred prefixes is written
           and journaled as a hundred.
Source     NetEdit (SIGCOMM 2024): agents work from local state; xDS: last good kept
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nacl.signing import VerifyKey

from configtron.fleet.map_document import WRONG_BASE, HeadForm, MapRefused, OpenedMap, opened
from configtron.fleet.map_table import MapTable, dropped_of, prefixes_of
from configtron.fleet.messages import MOST_REFUSED, MapResult
from configtron.model.draw import Mix, Plan
from configtron.model.errors import ConfigtronError, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service.fleet.drawing import DrawnMap, drawn_map, profiles_of, used_profiles
from configtron.tune.plan import UNTOUCHED
from configtron.tune.rules import after, difference, inside

# s between two renewals of the lease, which lasts two at least.
RENEW_S = 1.0


class LeaseOver(Refused):
    """The lease of what was in force has ended meanwhile: a map is put in force from the beginning."""


class Enforcement(Protocol):
    """What puts rules in force and takes them back when their lease ends, whatever becomes of this process."""

    @property
    def draws(self) -> bool:
        """Whether the kernel draws: then prefixes point to classes, and plans are turned."""

    def barred(self, profile: Profile) -> str:
        """Return why a profile may not be in force here, in one line; ""."""

    def begin(self, rules: Rules, lease_s: float) -> None:
        """Put all of these rules in force, in place of what this applier had. Errors: `ConfigtronError`."""

    def change(self, changes: Changes, target: Rules) -> None:
        """Put changes in force that lead to `target`. Errors: `ConfigtronError`, with everything as before."""

    def turn(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        """Load a plan and put it in force, where the kernel draws. Errors: `ConfigtronError`."""

    def renew(self, lease_s: float) -> None:
        """Let the lease last that long from now. Errors: `ConfigtronError` where it has ended."""

    def foreign(self) -> str:
        """Return what another program changed since the last call, in one line; ""."""

    def frozen(self) -> str:
        """Return what another program had changed, until the operator unfreezes the place; ""."""

    def keep(self, document: bytes, term: int, version: int, whole: bool) -> None:
        """Journal a document that is in force; `whole`: earlier ones are not needed any more."""


class LoadResult(NamedTuple):
    """What came of a document: what the manager hears, what is in force, whether to ask for the whole map instead."""

    result: MapResult
    held: tuple[int, int, bytes]
    retry: bool = False


@dataclass
class _Accepted:
    """The latest map that was accepted: its head, table, and prefixes with their classes but for those left out."""

    head: HeadForm
    table: MapTable
    classes: dict[str, str]
    until_s: float


class Applier:
    """One host's rules. `humans`: rules that a human set here; now_s: seconds since boot; now_ns: wall clock."""

    def __init__(self, enforcement: Enforcement, key: VerifyKey, humans: Rules, base: Rules | None = None) -> None:
        self._enforcement, self._key, self._humans = enforcement, key, humans
        self._base = base or Rules()
        self._accepted: _Accepted | None = None
        self._drawing: DrawnMap | None = None
        self._before: DrawnMap | None = None
        self._rules: Rules | None = None
        self._renewed_s = float("-inf")
        self._latest = (0, 0)
        self._unkept: list[tuple[bytes, tuple[int, int], bool]] = []
        self.frozen = ""
        self.remarks: list[str] = []
        # Prefix -> the class that it had before maps in force changed it, for `retuning.py` to take.
        self.reclassed: dict[str, str] = {}

    @property
    def held(self) -> tuple[int, int, bytes]:
        """Return (term, version, digest) of the map in force; (0, 0, b""): none."""
        if self._accepted is None:
            return 0, 0, b""
        head = self._accepted.head
        return head.term, head.version, head.digest

    @property
    def drawing(self) -> DrawnMap | None:
        """Return the mixes and the epoch that arms are drawn from now; None: none are."""
        return self._drawing

    @property
    def drawn_classes(self) -> Mapping[str, str]:
        """Return prefix -> class of those mixes: the prefixes of the map that are in force here."""
        return self._accepted.classes if self._accepted else {}

    @property
    def renewed_s(self) -> float:
        """Return when the lease was renewed last, seconds since boot: until then all was in force for sure."""
        return self._renewed_s

    @property
    def rules(self) -> Rules:
        """Return what is in force by this applier."""
        return self._rules or Rules()

    @property
    def draws(self) -> bool:
        """Return whether the kernel draws for each client."""
        return self._enforcement.draws

    def class_of(self, prefix: str) -> str:
        """Return the class of a listed prefix in the map in force; "": it has none."""
        return self._accepted.classes.get(prefix, "") if self._accepted else ""

    # A document.

    def resume(self, documents: Sequence[bytes], now_s: float, now_ns: int) -> str:
        """Put this host's own copies in force, the first whole and each later a difference; return why not, or "".

        The wall clock decides whether they are valid, as no other clock went on meanwhile.
        """
        found: OpenedMap | None = None
        try:
            for document in documents:
                found = opened(document, self._key, found.table if found else None)
                # An older map that is handed over again is refused, also where this one is void by now.
                self._latest = (found.head.term, found.head.version)
        except MapRefused as error:
            return str(error)
        if found is None or found.head.not_after_ns <= now_ns:
            return "its validity is over"
        left_s = (found.head.not_after_ns - max(now_ns, found.head.made_ns)) / 1e9
        return self._put(OpenedMap(found.head, found.table, None), b"", now_s, now_ns, now_s + left_s).result.error

    def load(self, document: bytes, now_s: float, now_ns: int) -> LoadResult:
        """Put a document in force: for as long as it was valid when the manager made it, by this host's own clock."""
        before = self._accepted
        try:
            found = opened(document, self._key, before.table if before else None)
        except MapRefused as error:
            return self._refused((0, 0), str(error), retry=str(error) == WRONG_BASE and before is not None)
        head = found.head
        if (place := (head.term, head.version)) < self._latest or place == self.held[:2]:
            latest = ".".join(map(str, self._latest))
            return self._refused(
                place, f"map {head.term}.{head.version} is not later than {latest}, which was accepted"
            )
        if self.frozen:
            return self._refused(place, f"frozen: {self.frozen}")
        left_s = (head.not_after_ns - head.made_ns) / 1e9
        return self._put(found, document, now_s, now_ns, now_s + left_s)

    def _put(self, found: OpenedMap, document: bytes, now_s: float, now_ns: int, until_s: float) -> LoadResult:
        head = found.head
        place = (head.term, head.version)
        barred = self._barred(head)
        fresh, left_out = self._classes(found)
        epoch = now_ns // 1_000_000_000 // head.epoch_s
        drawing, turns = self._drawing, False
        if drawing is None or drawing.head.key != head.key:
            drawing, turns = drawn_map(head, epoch, barred), True
        before = self._rules
        try:
            if turns or self._rules is None or found.change is None:
                self._whole(fresh, drawing, head, turns, now_s)
            else:
                self._difference(found, fresh, drawing)
        except LeaseOver as error:
            self._lost(str(error))
            return self._refused(place, str(error), retry=True)
        except ConfigtronError as error:
            if self._rules is not before:
                self._lost(f"map {head.term}.{head.version} is in force in part, until its lease ends: {error}")
            return self._refused(place, str(error))
        if document:
            self._keep(document, place, found.change is None)
        self._note_reclassed(found, fresh)
        self._accepted = _Accepted(head, found.table, fresh, until_s)
        if drawing is not self._drawing:
            self._before = self._drawing
        self._drawing, self._latest = drawing, place
        refused = [(f"profile {name}", reason) for name, reason in barred.items()]
        refused += [(prefix, f"a human set {owner}") for prefix, owner in left_out.items()]
        cut = tuple((entry[:255], reason[:1000]) for entry, reason in refused[:MOST_REFUSED])
        return LoadResult(
            MapResult(*place, head.digest, len(fresh), cut, max(len(refused) - MOST_REFUSED, 0)), self.held
        )

    def _keep(self, document: bytes, place: tuple[int, int], whole: bool) -> None:
        """Keep a document for the next start; on a full disk it waits, and the map stays in force."""
        if whole:
            self._unkept.clear()
        self._unkept.append((document, place, whole))
        why = self._keep_again()
        if why and len(self._unkept) == 1:
            self.remarks.append(f"map {place[0]}.{place[1]} is in force, but not kept for the next start yet: {why}")

    def _keep_again(self) -> str:
        """Keep the documents that wait, in order; return why one is not kept."""
        while self._unkept:
            document, place, whole = self._unkept[0]
            try:
                self._enforcement.keep(document, *place, whole)
            except ConfigtronError as error:
                return str(error)
            del self._unkept[0]
        return ""

    def _note_reclassed(self, found: OpenedMap, classes: Mapping[str, str]) -> None:
        """Note which listed prefixes a map gives another class."""
        had = self._accepted.classes if self._accepted else {}
        names = classes if found.change is None else prefixes_of(found.change.put, found.head.classes)
        for prefix in names:
            now = classes.get(prefix, "")
            if had.get(prefix, now) != now and self.reclassed.setdefault(prefix, had[prefix]) == now:
                del self.reclassed[prefix]

    def _refused(self, place: tuple[int, int], why: str, *, retry: bool = False) -> LoadResult:
        return LoadResult(MapResult(*place, self.held[2], error=why[:1000]), self.held, retry)

    def _barred(self, head: HeadForm) -> dict[str, str]:
        found = {name: self._enforcement.barred(profile) for name, profile in profiles_of(head).items()}
        for name, human in self._humans.profiles.items():
            if name in head.profiles and profiles_of(head)[name].settings != human.settings:
                found[name] = f"a human's profile {name} has other settings"
        return {name: why for name, why in found.items() if why}

    def _classes(self, found: OpenedMap) -> tuple[dict[str, str], dict[str, str]]:
        """Return (prefix -> class of all prefixes that are the learner's, refused prefix -> the human's)."""
        put = found.table if found.change is None else found.change.put
        fresh = prefixes_of(put, found.head.classes)
        left_out = self._humans_of(fresh)
        for prefix in left_out:
            del fresh[prefix]
        if found.change is None or self._accepted is None:
            return fresh, left_out
        classes = {**self._accepted.classes, **fresh}
        for prefix in dropped_of(found.change):
            classes.pop(prefix, None)
        return classes, left_out

    def _humans_of(self, prefixes: Mapping[str, str]) -> dict[str, str]:
        """Return prefix -> the human's prefix that it is, or lies in."""
        humans = self._humans.prefixes
        if not humans:
            return {}
        own = {prefix: prefix for prefix in prefixes if prefix in humans}
        within = inside(prefixes.keys() - own.keys(), humans)
        return own | dict.fromkeys(within, "a wider prefix")

    def _whole(self, classes: Mapping[str, str], drawing: DrawnMap, head: HeadForm, turns: bool, now_s: float) -> None:
        target = self._target(classes, drawing, head)
        if self._rules is None:
            self._enforcement.begin(target, head.lease_s)
            self._renewed_s = now_s
        elif changes := difference(self._rules, target):
            self._enforcement.change(_with_profiles(changes, target), target)
        self._rules = target
        if turns and self._enforcement.draws:
            self._enforcement.turn(drawing.plan(round((now_s + head.lease_s) * 1e9)), drawing.mixes)

    def _target(self, classes: Mapping[str, str], drawing: DrawnMap, head: HeadForm) -> Rules:
        """Return all rules: the base, and the map's as the kernel or this applier draws them."""
        if self._enforcement.draws:
            prefixes = {prefix: name for prefix, name in classes.items() if name in drawing.mixes}
            # The kernel has two plans, the one in force and the one before or after it: it may draw what either names.
            profiles = profiles_of(head)
            for one in (self._before, self._drawing, drawing):
                if one is not None:
                    profiles = {**one.profiles, **{name: Profile(name) for name in one.mixes}} | profiles
        else:
            prefixes = self._without_needless(drawing.draw(classes))
            profiles = used_profiles(drawing.profiles, prefixes.values())
        return Rules({**profiles, **self._base.profiles}, {**prefixes, **self._base.prefixes}, self._base.default)

    def _without_needless(self, prefixes: dict[str, str]) -> dict[str, str]:
        """Leave prefixes of Default out where no wider rule reaches them."""
        lengths = {(":" in prefix, prefix.rpartition("/")[2]) for prefix in (*prefixes, *self._base.prefixes)}
        if self._base.default or len(lengths) > len({version for version, _ in lengths}):
            return prefixes
        return {prefix: name for prefix, name in prefixes.items() if name != UNTOUCHED}

    def _difference(self, found: OpenedMap, classes: Mapping[str, str], drawing: DrawnMap) -> None:
        """Put a change of prefixes in force at the cost of those prefixes."""
        assert found.change is not None and self._rules is not None
        put = prefixes_of(found.change.put, found.head.classes)
        touched = {prefix: classes[prefix] for prefix in put if prefix in classes}
        some = self._target(touched, drawing, found.head)
        gone = {*dropped_of(found.change), *touched} - some.prefixes.keys() - self._base.prefixes.keys()
        have = self._rules
        changes = Changes(
            {name: profile for name, profile in some.profiles.items() if have.profiles.get(name) != profile},
            {prefix: name for prefix, name in some.prefixes.items() if have.prefixes.get(prefix) != name},
            frozenset(), frozenset(gone & have.prefixes.keys()),
        )  # fmt: skip
        if not changes:
            return
        target = after(have, changes)
        self._enforcement.change(_with_profiles(changes, target), target)
        self._rules = target

    # Time.

    def tick(self, now_s: float, now_ns: int) -> None:
        """Renew the lease, turn the epoch, end what is void, and look for foreign changes."""
        if self.frozen and not self._enforcement.frozen():
            self.frozen = ""
            self._lost("unfrozen: the map is put in force anew")
        if self._rules is None or self._accepted is None:
            return
        if self._unkept:
            self._keep_again()
        try:
            if not self.frozen and (foreign := self._enforcement.foreign()):
                self.frozen = foreign
                self.remarks.append(f"another program changed what is in force; no map is applied until `configtron"
                                    f" tune unfreeze`: {foreign}")  # fmt: skip
            if now_s >= self._accepted.until_s:
                self._end(f"map {self.held[0]}.{self.held[1]} is void: no later one came; Default applies")
                return
            if now_s - self._renewed_s >= RENEW_S:
                self._enforcement.renew(self._accepted.head.lease_s)
                self._renewed_s = now_s
            if not self.frozen:
                self._turn(now_s, now_ns)
        except ConfigtronError as error:
            self._lost(str(error))

    def _turn(self, now_s: float, now_ns: int) -> None:
        assert self._accepted is not None and self._drawing is not None
        head = self._accepted.head
        epoch = now_ns // 1_000_000_000 // head.epoch_s
        if epoch == self._drawing.epoch:
            return
        drawing = drawn_map(head, epoch, self._barred(head))
        self._whole(self._accepted.classes, drawing, head, True, now_s)
        self._before, self._drawing = self._drawing, drawing

    def _end(self, why: str) -> None:
        """Leave the base alone in force."""
        assert self._rules is not None
        if changes := difference(self._rules, self._base):
            self._enforcement.change(_with_profiles(changes, self._base), self._base)
        self._lost(why)

    def _lost(self, why: str) -> None:
        """Forget what was in force: a later map, or the same one again, begins anew."""
        self.remarks.append(why)
        self._accepted = self._drawing = self._before = self._rules = None
        self.reclassed = {}

    def take_reclassed(self) -> dict[str, str]:
        """Return prefix -> former class of those whose class changed since the last call."""
        found, self.reclassed = self.reclassed, {}
        return found

    def take_remarks(self) -> list[str]:
        """Return the remarks since the last call."""
        found, self.remarks = self.remarks, []
        return found


def _with_profiles(changes: Changes, target: Rules) -> Changes:
    """Return changes with the profiles of all prefixes that change, since a driver need not know them by name."""
    named = {changes.default or "", *changes.prefixes.values()} - {""}
    profiles = {**changes.profiles, **{name: target.profiles[name] for name in named}}
    return Changes(profiles, changes.prefixes, changes.dropped_profiles, changes.dropped_prefixes, changes.default)
