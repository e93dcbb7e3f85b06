# SPDX-License-Identifier: MIT
"""The applier: documents in, rules in force out. It takes data, checks all of it, and has no socket and no clock.

Question   What may a map from the network change on this host, and for how long?
Method     A document counts if its signature, its bounds and its table's digest hold, and if it is later than the one
           in force. Prefixes that a human set, or that lie in one, are left out; so is a class with a profile that the
           operator's bounds, the guard or the driver refuse. What is left is drawn for the epoch, and put in force as a
           change of what is there. Prefixes and mixes change with the epoch or with the key (a rollback) alone: a map
           that comes within an epoch waits for its end, so that no client changes its arm before; so does one whose key
           has drawn in this epoch, and another key since (a second manager's, `epoch_keys.py`). Twice a second the
           epoch is compared with the wall clock, the validity and the lease with the clock since boot.
Stop when  The map's validity ends, another program changes what is in force, or the process ends: then the lease does.
Reads as   `MapResult`: ACK or NACK, refused entries by name; a NACK at the turn where the driver refuses only then.
Fails as   A NACK with the reason; what was in force stays.
Differs    from `tune apply`: rules stay in memory, the driver stays open, and a change of a hundred prefixes is written
           and journaled as a hundred.
Source     NetEdit (SIGCOMM 2024): agents work from local state; xDS: last good kept
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from nacl.signing import VerifyKey

from configtron.fleet.map_document import HeadForm, MapRefused, OpenedMap, opened
from configtron.fleet.map_table import prefixes_of
from configtron.fleet.messages import MapResult
from configtron.model.errors import Busy, ConfigtronError, Refused, Unwritten
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.drawing import (
    DrawnMap,
    drawn_map,
    profiles_of,
    refused_entries,
    used_profiles,
    valid_until_s,
    with_profiles,
    without_needless,
)
from configtron.service.fleet.enforced_rules import Enforcement
from configtron.service.fleet.epoch_activations import EpochActivations
from configtron.service.fleet.epoch_keys import EpochKeys
from configtron.service.fleet.map_journal import NOT_DRAWN, DocumentQueue, DrawnPlace
from configtron.tune.rules import difference, inside

# s between two renewals of the lease, which lasts two at least; between two looks for changes by other programs, which
# read the kernel's tables.
RENEW_S, LOOK_S = 1.0, 0.25
# Errors of the journal that pass, and are no reason to reject a map: no room on the disk, a lock.
PASSING = (Unwritten, Busy)


class LeaseOver(Refused):
    """The lease of what was in force has ended meanwhile: a map is put in force from the beginning."""


class LoadResult(NamedTuple):
    """What came of a document: what the manager hears, what is in force, whether to ask for it again."""

    result: MapResult
    held: tuple[int, int, bytes]
    retry: bool = False


@dataclass
class _Accepted:
    """The latest map that was accepted: its head, and prefixes with their classes but for those left out."""

    head: HeadForm
    classes: dict[str, str]
    until_s: float

    @property
    def place(self) -> tuple[int, int]:
        """Return (term, version)."""
        return self.head.term, self.head.version


class _Turned(NamedTuple):
    """A map in force, and its mixes as they are drawn from in one epoch."""

    accepted: _Accepted
    drawing: DrawnMap


class Applier:
    """One host's rules. `humans`: rules that a human set here; now_s: seconds since boot; now_ns: wall clock."""

    def __init__(self, enforcement: Enforcement, key: VerifyKey, humans: Rules, base: Rules | None = None) -> None:
        self._enforcement, self._key, self._humans = enforcement, key, humans
        self._base = base or Rules()
        self._accepted: _Accepted | None = None
        # In force now; what was in force last, also where that was lost since; the drawing before.
        self._now: _Turned | None = None
        self._last: _Turned | None = None
        self._before: DrawnMap | None = None
        self._keys = EpochKeys()
        self._rules: Rules | None = None
        self._ports: tuple[int, ...] = ()
        self._renewed_s = self._failed_s = self._looked_s = float("-inf")
        self._latest = (0, 0)
        self.frozen, self._complained = "", False
        self.remarks: list[str] = []
        self._kept = DocumentQueue(enforcement, self.remarks.append)
        # Prefix -> the class that it had before maps in force changed it, for `retuning.py` to take.
        self.reclassed: dict[str, str] = {}
        self._late: list[LoadResult] = []
        self.activations = EpochActivations()

    @property
    def held(self) -> tuple[int, int, bytes]:
        """Return (term, version, digest) of the map in force; (0, 0, b""): none."""
        return (*self._accepted.place, self._accepted.head.digest) if self._accepted else (0, 0, b"")

    @property
    def drawing(self) -> DrawnMap | None:
        """Return the mixes and the epoch that arms are drawn from now; None: none are."""
        return self._now.drawing if self._now else None

    @property
    def _drawn_place(self) -> DrawnPlace:
        assert self._now is not None
        return DrawnPlace(*self._now.accepted.place, self._now.drawing.epoch, self._keys.names)

    @property
    def drawn_classes(self) -> Mapping[str, str]:
        """Return prefix -> class of those mixes: the prefixes of the map that are in force here."""
        return self._now.accepted.classes if self._now else {}

    @property
    def rules(self) -> Rules:
        """Return what is in force by this applier."""
        return self._rules or Rules()

    @property
    def draws(self) -> bool:
        """Return whether the kernel draws for each client."""
        return self._enforcement.draws

    def left(self, now_s: float) -> tuple[float, float] | None:
        """Return the s until the map is void, and until its lease ends unless it is renewed; None: none is in force.

        The lease has ended where another program took away all that it is of."""
        if (kept := self._accepted) is None:
            return None
        ended = self.frozen and self._enforcement.gone()
        return kept.until_s - now_s, 0.0 if ended else max(self._renewed_s + kept.head.lease_s - now_s, 0.0)

    def class_of(self, prefix: str) -> str:
        """Return the class of a listed prefix in the map in force; "": it has none."""
        return self.drawn_classes.get(prefix, "")

    # A document.

    def resume(self, documents: Sequence[bytes], now_s: float, now_ns: int, drawn: DrawnPlace = NOT_DRAWN
               ) -> str:  # fmt: skip
        """Put the latest of this host's own copies in force; return why not, or "".

        The wall clock decides whether they are valid, as no other clock went on meanwhile. `drawn`: what was in force;
        within its epoch that comes in force again, and the latest one waits for the turn.
        """
        found: OpenedMap | None = None
        try:
            for document in documents:
                found = opened(document, self._key)
                # An older map that is handed over again is refused, also where this one is void by now.
                self._latest = (found.head.term, found.head.version)
                if self._latest == drawn[:2]:
                    head = found.head
                    accepted = _Accepted(head, self._classes(found)[0], valid_until_s(head, now_s, now_ns))
                    self._last = _Turned(accepted, drawn_map(head, drawn.epoch, self._barred(head)))
                    self._keys.restore(drawn.epoch, drawn.keys)
                    self._keys.drawn(drawn.epoch, found.head.key)
        except MapRefused as error:
            return str(error)
        if found is None or found.head.not_after_ns <= now_ns:
            return "its validity is over"
        until_s = valid_until_s(found.head, now_s, now_ns)
        return self._put(found, b"", now_s, now_ns, until_s).result.error

    def load(self, document: bytes, now_s: float, now_ns: int) -> LoadResult:
        """Put a document in force: for as long as it was valid when the manager made it, by this host's own clock."""
        try:
            found = opened(document, self._key)
        except MapRefused as error:
            return self._refused((0, 0), str(error))
        head = found.head
        if (place := (head.term, head.version)) < self._latest or place == self.held[:2]:
            latest = ".".join(map(str, self._latest))
            why = f"map {head.term}.{head.version} is not later than {latest}, which was accepted"
            return self._refused(place, why)
        with suppress(ConfigtronError):  # a change of ours would hide another program's
            self._look(now_s)
        if self.frozen:
            return self._refused(place, f"frozen: {self.frozen}")
        left_s = (head.not_after_ns - head.made_ns) / 1e9
        return self._put(found, document, now_s, now_ns, now_s + left_s)

    def _put(self, found: OpenedMap, document: bytes, now_s: float, now_ns: int, until_s: float) -> LoadResult:
        head = found.head
        place = (head.term, head.version)
        fresh, left_out = self._classes(found)
        accepted, before = _Accepted(head, fresh, until_s), self._rules
        try:
            if self._now is None or not self._keys.has(self._now.drawing.epoch, head.key):
                self._begin(self._under_way(head, now_ns) or _Turned(accepted, self._drawn(head, now_ns)), now_s)
        except LeaseOver as error:
            self._lost("")  # what asked for it logs the result
            return self._refused(place, str(error), retry=True)
        except ConfigtronError as error:
            if self._rules is not before:
                self._lost(f"map {head.term}.{head.version} is in force in part, until its lease ends: {error}")
            return self._refused(place, str(error), retry=isinstance(error, PASSING))
        self._accepted, self._latest = accepted, place
        if document:
            self._kept.keep(document, place)
        self._kept.turned(self._drawn_place)
        listed, omitted = refused_entries(profiles_of(head), self._barred(head), left_out)
        return LoadResult(MapResult(*place, head.digest, len(fresh), listed, omitted), self.held)

    def _drawn(self, head: HeadForm, now_ns: int) -> DrawnMap:
        return drawn_map(head, now_ns // 1_000_000_000 // head.epoch_s, self._barred(head))

    def _under_way(self, head: HeadForm, now_ns: int) -> _Turned | None:
        """Return what was in force last, if its epoch is not over: after a restart, or a lease that ended, clients have
        the arms that they had."""
        last = self._last
        if self._now is not None or last is None or not self._keys.has(last.drawing.epoch, head.key):
            return None
        return last if now_ns // 1_000_000_000 // last.drawing.head.epoch_s == last.drawing.epoch else None

    def _begin(self, new: _Turned, now_s: float) -> None:
        """Put a map in force. Errors: those of the enforcement."""
        try:
            self._whole(new.accepted.classes, new.drawing, now_s)
        except ConfigtronError:
            if (now := self._now) is not None:
                # Connections of this moment may have what was taken back.
                self.activations.begun(now_s, now.drawing, now.accepted.classes)
            raise
        if self._now is not None:
            self._before = self._now.drawing
            if self._now.accepted.place != new.accepted.place:
                # listed prefixes that have another class from now on
                for prefix, before in self._now.accepted.classes.items():
                    name = new.accepted.classes.get(prefix, "")
                    if before != name and self.reclassed.setdefault(prefix, before) == name:
                        del self.reclassed[prefix]
        self._now = self._last = new
        self._keys.drawn(new.drawing.epoch, new.drawing.head.key)
        self.activations.begun(now_s, new.drawing, new.accepted.classes)

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
        classes = prefixes_of(found.table, found.head.classes)
        left_out = self._humans_of(classes)
        for prefix in left_out:
            del classes[prefix]
        return classes, left_out

    def _humans_of(self, prefixes: Mapping[str, str]) -> dict[str, str]:
        """Return prefix -> the human's prefix that it is, or lies in."""
        humans = self._humans.prefixes
        if not humans:
            return {}
        own = {prefix: prefix for prefix in prefixes if prefix in humans}
        within = inside(prefixes.keys() - own.keys(), humans)
        return own | dict.fromkeys(within, "a wider prefix")

    def _whole(self, classes: Mapping[str, str], drawing: DrawnMap, now_s: float) -> None:
        target, lease_s, ports = self._target(classes, drawing), drawing.head.lease_s, drawing.head.ports
        if self._rules is None or ports != self._ports:
            self._enforcement.begin(target, lease_s, ports)
            self._ports, self._renewed_s = ports, now_s
        elif changes := difference(self._rules, target):
            self._enforcement.change(with_profiles(changes, target), target)
        self._rules = target
        if self._enforcement.draws:
            self._enforcement.turn(drawing.plan(round((now_s + lease_s) * 1e9)), drawing.mixes)

    def _target(self, classes: Mapping[str, str], drawing: DrawnMap) -> Rules:
        """Return all rules: the base, and the map's as the kernel or this applier draws them."""
        if self._enforcement.draws:
            prefixes = {prefix: name for prefix, name in classes.items() if name in drawing.mixes}
            # The kernel has two plans, the one in force and the one before or after it: it may draw what either names.
            profiles = drawing.used
            for one in (self._before, self.drawing, drawing):
                if one is not None:
                    profiles = {**one.used, **{name: Profile(name) for name in one.mixes}} | profiles
        else:
            prefixes = without_needless(drawing.draw(classes), self._base)
            profiles = used_profiles(drawing.profiles, prefixes.values())
        return Rules({**profiles, **self._base.profiles}, {**prefixes, **self._base.prefixes}, self._base.default)

    def tick(self, now_s: float, now_ns: int) -> None:
        """Renew the lease, turn the epoch, end what is void, and look for foreign changes."""
        if self.frozen and not self._enforcement.frozen():
            self.frozen = ""
            self._lost("unfrozen: the map is put in force anew")
        if self._rules is None or self._accepted is None:
            return
        self._kept.flush()
        try:
            if now_s - self._looked_s >= LOOK_S or self._is_turn_due(now_ns):
                self._look(now_s)
            if now_s >= self._accepted.until_s:
                self._end(f"map {self.held[0]}.{self.held[1]} is void: no later one came; Default applies")
                return
            if now_s - max(self._renewed_s, self._failed_s) >= RENEW_S:
                self._renew(now_s)
            if self._accepted is not None and not self.frozen:
                self._turn(now_s, now_ns)
        except ConfigtronError as error:
            self._failed(error, now_s)

    def _renew(self, now_s: float) -> None:
        """Renew the lease; where the journal has no room or is locked, try again while it lasts. Errors: others."""
        assert self._accepted is not None
        head = self._accepted.head
        try:
            self._enforcement.renew(head.lease_s)
            self._renewed_s, self._complained = now_s, False
        except PASSING as error:
            if now_s - self._renewed_s >= head.lease_s:
                self._lost("")
            elif not self._complained:
                self._complained = True
                self.remarks.append(f"the lease of map {head.term}.{head.version} cannot be renewed; once it is over"
                                    f" Default applies, until this is mended: {error}")  # fmt: skip

    def _failed(self, error: ConfigtronError, now_s: float) -> None:
        """Take a refusal of the driver's: what another program took away can be neither renewed nor changed."""
        with suppress(ConfigtronError):
            self._look(now_s)
        if self.frozen and self._accepted is not None and now_s < self._accepted.until_s:
            self._failed_s = now_s
            return
        term, version, _ = self.held
        self._lost("" if self.frozen else f"map {term}.{version} is given up, and asked for again; Default applies"
                   f" meanwhile: {error}")  # fmt: skip

    def _look(self, now_s: float) -> None:
        """Freeze the place where another program changed it since the last look. Errors: the enforcement's."""
        if self.frozen or self._rules is None:
            return
        before_s, self._looked_s = self._looked_s, now_s
        if foreign := self._enforcement.foreign():
            self.activations.ended(before_s)
            self.frozen = foreign
            self.remarks.append(f"another program changed what is in force; no map is applied until `configtron tune"
                                f" unfreeze`: {foreign}")  # fmt: skip

    def _is_turn_due(self, now_ns: int) -> bool:
        assert self._now is not None
        return now_ns // 1_000_000_000 // self._now.drawing.head.epoch_s != self._now.drawing.epoch

    def _turn(self, now_s: float, now_ns: int) -> None:
        """Draw for the next epoch, by the latest map, once the epoch under way is over."""
        assert self._accepted is not None and self._now is not None
        now = self._now
        if not self._is_turn_due(now_ns):
            return
        try:
            self._begin(_Turned(self._accepted, self._drawn(self._accepted.head, now_ns)), now_s)
        except (LeaseOver, *PASSING):
            raise
        except ConfigtronError as error:
            if self._accepted.place == now.accepted.place:
                raise
            self._refuse_late(now.accepted, str(error))
            self._begin(_Turned(now.accepted, self._drawn(now.accepted.head, now_ns)), now_s)
        self._kept.turned(self._drawn_place)

    def _refuse_late(self, good: _Accepted, why: str) -> None:
        """Go back to the map in force, as the driver refuses the one that waited for the turn."""
        assert self._accepted is not None
        place, self._accepted = self._accepted.place, good
        self._kept.dropped(good.place)
        self._late.append(self._refused(place, why))
        self.remarks.append(f"map {place[0]}.{place[1]} is refused at the turn of the epoch, {good.place[0]}."
                            f"{good.place[1]} stays: {why}")  # fmt: skip

    def take_late(self) -> list[LoadResult]:
        """Return the results since the last call that a turn changed: of maps that had been accepted before."""
        found, self._late = self._late, []
        return found

    def _end(self, why: str) -> None:
        """Leave the base alone in force."""
        assert self._rules is not None
        if changes := difference(self._rules, self._base):
            self._enforcement.change(with_profiles(changes, self._base), self._base)
        self._lost(why)

    def _lost(self, why: str) -> None:
        """Forget what was in force: a later map, or the same one again, begins anew. `why`: a line for the log; ""."""
        if why:
            self.remarks.append(why)
        # Until the lease was renewed last, all was in force for sure.
        self.activations.ended(max(self._renewed_s, self._failed_s))
        self._accepted = self._now = self._before = self._rules = None
        self.reclassed = {}

    def take_reclassed(self) -> dict[str, str]:
        """Return prefix -> former class of those whose class changed since the last call."""
        found, self.reclassed = self.reclassed, {}
        return found

    def take_remarks(self) -> list[str]:
        """Return the remarks since the last call."""
        found, self.remarks[:] = list(self.remarks), []
        return found
