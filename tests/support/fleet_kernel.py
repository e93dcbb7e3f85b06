# SPDX-License-Identifier: MIT
"""A simulated host's kernel that draws: what the driver ebpf leaves there, which outlives every process.

Rules, two halves of a plan, the lease's end by the host's own boot clock, and a ring of records that lacks room now and
then. Profiles have numbers, which are given anew once they are free: a record names its profile by number, and a reader
looks the name up later. The draw is that of `model/draw.py`; the judge has its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from configtron.model.close_records import CLOSED, RESET, CloseRecord, OpenRecord
from configtron.model.draw import Mix, Plan, draw, unit_of
from configtron.model.errors import BadInput
from configtron.model.tuning import Changes, Rules
from configtron.tune.rules import after

# Records of the ring.
RING = 400


@dataclass(frozen=True)
class Half:
    """A plan with its mixes."""

    plan: Plan
    mixes: Mapping[str, Mix]

    def moves(self, other: Half) -> bool:
        """Return whether this one, under the key and epoch of the other, would give clients another arm."""
        one, two = self.plan, other.plan
        same = (one.key, one.epoch) == (two.key, two.epoch)
        return same and (dict(self.mixes), one.bands, one.holdback) != (dict(other.mixes), two.bands, two.holdback)


@dataclass(frozen=True)
class Beginning:
    """An open record as the ring has it: numbers in place of names."""

    opened: OpenRecord
    class_number: int
    profile_number: int


@dataclass(frozen=True)
class Ending:
    """A close record as the ring has it."""

    begun: Beginning
    closed: CloseRecord


@dataclass
class DrawingKernel:
    """Rules, plan and records of one host. `lease_ns`: of CLOCK_BOOTTIME; new connections get nothing after it."""

    rules: Rules = field(default_factory=Rules)
    half: Half | None = None
    loaded: Half | None = None
    lease_ns: int = 0
    lost: int = 0
    dropped: int = 0
    ring: deque[Beginning | Ending] = field(default_factory=deque)
    numbers: dict[str, int] = field(default_factory=dict)
    cookies: int = 0

    # The driver's side.

    def write(self, target: Rules) -> None:
        """Put rules in force. Errors: `BadInput` where a profile is dropped that the plan draws."""
        gone = self.rules.profiles.keys() - target.profiles.keys()
        if drawn := gone & self._drawn():
            raise BadInput(f"profile {min(drawn)!r} is dropped, but the plan in force or loaded draws it; load another")
        for name in gone:
            self.numbers.pop(name, None)
        used = set(self.numbers.values())
        free = (number for number in range(1, 1024) if number not in used)
        for name in target.profiles:
            if name not in self.numbers:
                self.numbers[name] = next(free)
        self.rules = target

    def change(self, changes: Changes) -> None:
        """Put changes in force. Errors: those of `write`."""
        self.write(after(self.rules, changes))

    def _drawn(self) -> set[str]:
        found = set[str]()
        for half in (self.half, self.loaded):
            if half is not None:
                found |= {*half.mixes, *(name for mix in half.mixes.values() for name in mix.profiles)}
                found |= {name for _, name in half.plan.bands}
        return found

    def load_plan(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        """Load the idle half. Errors: `BadInput`."""
        new = Half(plan, dict(mixes))
        named = {*mixes, *(name for mix in mixes.values() for name in mix.profiles), *(name for _, name in plan.bands)}
        if absent := sorted(named - self.numbers.keys()):
            raise BadInput(f"no profile is called {absent[0]!r}")
        if self.half is not None and new.moves(self.half):
            why = "mixes, bands and holdback change only together with the epoch"
            raise BadInput(f"epoch {plan.epoch} is in force with other mixes: {why}")
        self.loaded = new

    def turn(self) -> None:
        """Put the loaded half in force; a lease that is longer stays. Errors: `BadInput`."""
        if self.loaded is None:
            raise BadInput("no plan is loaded; load one before the turn")
        until_ns = self.loaded.plan.not_after
        self.lease_ns = until_ns if self.half is None else max(until_ns, self.lease_ns)
        self.half, self.loaded = self.loaded, None

    def drop_plan(self) -> None:
        """No plan in force, none loaded: each prefix has the profile that it points to."""
        self.half, self.loaded, self.lease_ns = None, None, 0

    def revert(self, base: Rules) -> None:
        """Remove all of this driver's state, records too, and write what a human had below."""
        self.drop_plan()
        self.rules, self.lost = Rules(), 0
        self.ring.clear()
        self.numbers.clear()
        self.write(base)

    # Connections.

    def has_lapsed(self, boot_ns: int) -> bool:
        """Return whether a plan is in force whose lease has passed."""
        return self.half is not None and boot_ns > self.lease_ns

    def connect(self, client: str, prefix: str, rtt_us: int, remote_port: int, boot_ns: int) -> Beginning | None:
        """Return what a new connection gets; None: nothing of ours applies, and nothing is recorded."""
        if self.has_lapsed(boot_ns):
            return None
        half, name, band = self.half, self.rules.prefixes.get(prefix, ""), 0
        if half is None:
            return Beginning(_opened(prefix, remote_port, boot_ns, 0, "", None, rtt_us), 0, self.numbers.get(name, 0))
        if not name and (band := half.plan.band(rtt_us)):
            name = half.plan.bands[band - 1][1]
        class_name, arm, held, profile = "", None, False, name
        if name in half.mixes:
            drawn = draw(half.plan, half.mixes[name], unit_of(client))
            class_name, arm, held = name, drawn.arm, drawn.held
            profile = half.plan.held_profile if arm is None else half.mixes[name].profiles[arm]
        self.cookies += 1
        opened = _opened(prefix, remote_port, boot_ns, self.cookies, profile, half.plan.epoch, rtt_us)
        opened = opened._replace(class_name=class_name or None, arm=arm, held=held, band=band or None)
        begun = Beginning(opened, self.numbers.get(class_name, 0), self.numbers.get(profile, 0))
        self._record(begun)
        return begun

    def end(self, begun: Beginning, boot_ns: int, min_rtt_us: int, is_reset: bool) -> None:
        """Record the end of a connection that was recorded."""
        if begun.opened.cookie and self.half is not None:
            record = CloseRecord(begun.opened, boot_ns, min_rtt_us, 10, 50_000, 900, 40, 2, 0.5, 0.0, 4000.0,
                                 RESET if is_reset else CLOSED)  # fmt: skip
            self._record(Ending(begun, record))

    def _record(self, record: Beginning | Ending) -> None:
        if len(self.ring) >= RING:
            self.lost += 1
        else:
            self.ring.append(record)

    # The reader.

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Hand out the records that wait, each once."""
        names = {number: name for name, number in self.numbers.items()}
        while self.ring:
            record = self.ring.popleft()
            if isinstance(record, Ending):
                yield record.closed._replace(opened=_named(record.begun, names))
            else:
                yield _named(record, names)

    def lost_records(self) -> int:
        """Return how many records were lost."""
        return self.lost


def _opened(prefix: str, port: int, boot_ns: int, cookie: int, profile: str, epoch: int | None, rtt_us: int
            ) -> OpenRecord:  # fmt: skip
    return OpenRecord(prefix, 443, port, boot_ns, cookie or None, None, None, False, profile, 1 if profile else None,
                      epoch, None, rtt_us, False)  # fmt: skip


def _named(begun: Beginning, names: Mapping[int, str]) -> OpenRecord:
    """Return a record with the names that its numbers have now."""
    number = begun.profile_number
    class_name = names.get(begun.class_number) if begun.class_number else None
    return begun.opened._replace(class_name=class_name, profile=names.get(number) if number else "")
