# SPDX-License-Identifier: MIT
"""The protocols between pure code and the world: `Wire`, `Driver`. Pure code works with any implementation.

Not every driver can do everything. An optional ability is a protocol of its own, and callers test for it with
`isinstance`:

    Mover           apply profiles to connections that are open
    Follower        keep its routes in step with the host's own
    SocketAssigner  give a profile to one connected socket
    PerListener     act on the connections of some listening ports only
    Listener        learn of each write from the kernel
    RefusalCounter  count the settings that the kernel refused at single connections
    Trier           find out by a trial whether it can act
    Asker           ask the kernel what else decides on clients' connections
    Stamper         show by a few calls whether anything in force was changed
    Original        read the kernel's values without our profiles
    Inventory       list its own state by marks in the kernel
    Drawing         draw each client's profile from its class's mix, and record its connections
    PlanReader      read back which plan is in force
    RecordPacker    hand out its records packed
    RecordStopper   leave the kernel's records to another reader
    RecordMarker    mark the records of connections that were re-tuned while open
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from configtron.model.close_records import CloseRecord, OpenRecord, PackedRecords
from configtron.model.draw import Mix, Plan, PlanState
from configtron.model.nouns import Packet, Profile, Segment, Value
from configtron.model.tuning import Answers, Changes, Place, Reach, Rules


class Wire(Protocol):
    """One TCP flow of segments. The wire alone knows ports and initial sequence numbers."""

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        """Put a segment on the wire, with that type of service; return it as sent, with its time."""

    def receive(self, until: float) -> Packet | None:
        """Return the next packet received, or None once `until` (seconds since the trace began) has passed."""


class Driver(Protocol):
    """One way to set the local stack. A driver reads the rules in force from the kernel and never from memory.

    A driver keeps no state between calls that would die with its process: `before` returns the earlier state, the
    caller writes it to the journal and passes it back to `revert`.
    """

    @property
    def name(self) -> str:
        """Return the driver's name on the command line: kmod, ebpf, route, sysctl, memory."""

    @property
    def place(self) -> Place:
        """Return the place where the driver acts."""

    def missing(self) -> str:
        """Return why the driver cannot act here and how to mend that, one line; "" if it can act."""

    def settable(self) -> Mapping[str, Reach]:
        """Return the knobs it can set on this host now, by name."""

    @property
    def reachable(self) -> Mapping[str, Reach]:
        """Return the knobs it sets on a host that has all it needs, by name. Reads nothing of this host."""

    @property
    def unreachable(self) -> Mapping[str, str]:
        """Return the knobs that it sets on no host: knob -> the reason, and the setting to use in its place."""

    def before(self) -> str:
        """Return the host's own state that `apply` would overwrite, as JSON text, for the journal."""

    def apply(self, changes: Changes) -> Rules:
        """Put all changes in force or raise an error; return the changed profiles and prefixes as read back.

        Errors: `Missing` where the driver cannot act, `BadInput` where a value is out of reach, `Refused` where another
        program's setting blocks the change. The error of a change that failed half-way states so; `revert` undoes it.
        """

    def read(self) -> Rules:
        """Return all of our rules that are in force here."""

    def mark(self) -> str:
        """Return a short text that differs once any program has changed our state; cheap enough for 2 Hz."""

    def revert(self, before: str) -> None:
        """Remove all of our state and restore `before`. From any state, any number of times."""


@runtime_checkable
class Mover(Protocol):
    """A driver that also reaches connections which are open already, on request."""

    def move(self) -> tuple[int, int]:
        """Apply the rules in force to open connections; return (clients' open connections, those with a profile)."""


@runtime_checkable
class Follower(Protocol):
    """A driver whose state is a copy of the host's own (routes), which the host may change later."""

    def follow(self, wanted: Rules | None = None) -> int:
        """Copy the host's own state again; return how many copies changed. With `wanted`, only for these rules."""


@runtime_checkable
class SocketAssigner(Protocol):
    """A driver that can give a profile to one connected socket (AssignProfile(SocketID, ID), Table 3)."""

    def assign(self, descriptor: int, profile: str) -> None:
        """Give the profile of that name to a socket of this process. Errors: `BadInput`, `Missing`, `Refused`."""

    def assigned(self, descriptor: int) -> str:
        """Return the name of the profile that a socket of this process has, "" for none. Errors: as `assign`."""


@runtime_checkable
class PerListener(Protocol):
    """A driver that can act on the connections of some listening ports only (`Place.listen`)."""

    def listened(self) -> Sequence[Driver]:
        """Return one driver for each set of listeners that has rules at this place."""


@runtime_checkable
class Listener(Protocol):
    """A driver that the kernel notifies of changes: it finds an external change without reading all rules."""

    def news(self) -> tuple[frozenset[str], Rules] | None:
        """Return the prefixes written since the last call (or `mark`), and their rules in force; None: call `mark`."""


@runtime_checkable
class RefusalCounter(Protocol):
    """A driver that counts the settings that the kernel refuses at single connections, after `apply` has succeeded."""

    def refusals(self) -> Mapping[str, tuple[int, str]]:
        """Return knob -> (count of refusals, reason of the last one). Empty where the kernel refused none."""


@runtime_checkable
class Trier(Protocol):
    """A driver that finds out by a trial what it can do, where no file of the kernel answers the question.

    No trial sets or leaves anything.
    """

    def tried(self) -> str:
        """Return why the driver cannot act, in one line; "" if it can."""

    def tried_reach(self) -> Mapping[str, Reach]:
        """Return what `settable` does, with notes of what the kernel refused."""

    def unfit(self, profile: Profile) -> str:
        """Return why a whole profile cannot come in force here, though each of its settings could; "" if it can."""


@runtime_checkable
class Asker(Protocol):
    """A driver that can ask the kernel what else decides on clients' connections, beside reading its own writes."""

    def ask(self, rules: Rules) -> Answers:
        """Return the kernel's answers for clients of these rules. Write nothing and send no packet.

        Without rules: what stands beside the driver here (`Answers.unasked`).
        """


@runtime_checkable
class Stamper(Protocol):
    """A driver that shows whether anything in force was changed by a few calls, however many prefixes there are."""

    def stamp(self) -> str:
        """Return text that differs once anything in force was changed since, by any program and process."""


@runtime_checkable
class Original(Protocol):
    """A driver that can read the kernel's own values, which hold where no profile of ours sets the knob."""

    def untouched(self) -> Mapping[str, Value]:
        """Return each knob's value without our profiles."""


@runtime_checkable
class Inventory(Protocol):
    """A driver that finds its own state by marks in the kernel itself, without any journal."""

    def ours(self) -> str:
        """Return the state here that has our marks, in a few words; "" if there is none."""

    def others(self) -> tuple[str, ...]:
        """Return other programs' entries among ours, one line each with how to remove it; `revert` leaves them."""


@runtime_checkable
class Drawing(Protocol):
    """A driver whose kernel part draws each client's profile from the mix of the class that its prefix names.

    The kernel part has two halves, each a plan with its mixes, and one word selects the half in force: a reader would
    see a plan torn if it were changed in place. Mixes change only together with the epoch. Once a plan is in force and
    its lease has passed, the driver applies nothing to new connections, even if every process of ours is dead.
    """

    def load_plan(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        """Prepare the idle half: a plan, and the mix of each class by the name of the profile that prefixes point to.

        It comes into force with `turn`. Errors: `BadInput` for an unknown profile name, and for other mixes under the
        key and epoch that are in force; `Missing` where the driver's rules are not in force.
        """

    def turn(self) -> None:
        """Put the loaded half in force with one store, its lease too. Errors: `BadInput` where none is loaded."""

    def renew(self, until_ns: int) -> None:
        """Let the lease end at a time of CLOCK_BOOTTIME, ns; cheap enough for every second."""

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Yield the waiting records, each once, and end when none is left. One reader at a time."""

    def lost_records(self) -> int:
        """Return how many records found no room since the rules came in force."""

    def drop_plan(self) -> None:
        """Remove the plan in force and the loaded one: each prefix then has the profile that it points to."""


@runtime_checkable
class RecordPacker(Protocol):
    """A driver that hands out its records without unpacking each."""

    def packed_records(self) -> Iterator[PackedRecords]:
        """Yield the waiting records, each once, as `Drawing.records` does."""


@runtime_checkable
class RecordStopper(Protocol):
    """A driver whose kernel part hands its records to one open file at a time."""

    def stop_records(self) -> None:
        """Close the file that receives records, if there is one: another driver of this kernel may open its own."""


@runtime_checkable
class PlanReader(Protocol):
    """A driver that reads back which plan it draws by."""

    def plan_state(self) -> PlanState | None:
        """Return the plan in force in short; None where none is."""


@runtime_checkable
class RecordMarker(Protocol):
    """A driver, or a reader of connections' ends, whose records state whether a profile was set anew while a connection
    was open."""

    def mark_moved(self, sockets: Mapping[int, int]) -> None:
        """Mark the records of connected sockets, SO_COOKIE -> descriptor of this process; those without a record are
        skipped."""
