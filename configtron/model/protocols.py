# SPDX-License-Identifier: MIT
"""The protocols between pure code and the world: `Wire`, `Driver`, `Policy`. Pure code gets one and never asks which.

Not every driver can do everything. What only some can do is a protocol of its own, which callers ask for by
`isinstance`:

    Mover           apply profiles to connections that are open
    Follower        keep its routes in step with the host's own
    SocketAssigner  give a profile to one connected socket
    PerListener     keep to some listening ports
    Listener        learn of each write from the kernel
    RefusalCounter  count what the kernel refused at connections
    Trier           find out by trying whether it can act
    Asker           ask the kernel what clients would get
    Original        read what the kernel has without us
    Inventory       list what it made by marks in the kernel
    Drawing         draw each client's profile from its class's mix, and record its connections
    PlanReader      read back which plan is in force
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Mix, Plan, PlanState
from configtron.model.nouns import Context, Decision, Outcome, Packet, Segment, Value
from configtron.model.tuning import Answers, Changes, Place, Reach, Rules


class Wire(Protocol):
    """One TCP flow of segments. Knows ports and initial sequence numbers, so no other part has to."""

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        """Put a segment on the wire, with that type of service; returns it as sent, with its time."""

    def receive(self, until: float) -> Packet | None:
        """The next packet heard, or None once `until` (seconds since the trace began) has passed."""


class Driver(Protocol):
    """One way to set the local stack. What it says is in force was read from the kernel, never remembered.

    A driver holds no state of its own between calls that its process could take to the grave: what stood here before is
    handed out by `before`, written to the journal by the caller, and handed back to `revert`.
    """

    @property
    def name(self) -> str:
        """As on the command line: kmod, ebpf, route, sysctl, memory."""

    @property
    def place(self) -> Place:
        """Where it acts."""

    def missing(self) -> str:
        """Why it cannot act here and what to do about it, one line; "" if it can."""

    def settable(self) -> Mapping[str, Reach]:
        """Return the knobs it can set on this host now, by name."""

    def reachable(self) -> Mapping[str, Reach]:
        """Return the knobs it sets on a host that has all it needs, by name. Reads nothing of this host."""

    def unreachable(self) -> Mapping[str, str]:
        """Return the knobs that it sets on no host: knob -> why, and what to use in its place."""

    def before(self) -> str:
        """What of the host's own state `apply` would write over, as JSON text: journaled before anything is written."""

    def apply(self, changes: Changes) -> Rules:
        """Put changes in force; returns the changed profiles and prefixes as read back. All or an error, no half.

        `Missing` where it cannot act, `BadInput` where a value is out of reach, `Refused` where a foreign setting
        stands in the way; the error of a change that came to an end half-way says so, and `revert` mends it.
        """

    def read(self) -> Rules:
        """All that is in force here by our hand."""

    def mark(self) -> str:
        """A short text that differs once any program has changed what we manage; cheap enough for 2 Hz."""

    def revert(self, before: str) -> None:
        """Leave nothing of ours and put back `before`. From any state, any number of times."""


@runtime_checkable
class Mover(Protocol):
    """A driver that also reaches connections which are open already, on request."""

    def move(self) -> tuple[int, int]:
        """Put what is in force on them too; returns (open connections of clients, those of them with a profile)."""


@runtime_checkable
class Follower(Protocol):
    """A driver whose state is a copy of the host's own (routes), which the host may change later."""

    def follow(self, wanted: Rules | None = None) -> int:
        """Bring its copies in step with the host's own state; returns how many changed. `wanted`: only these rules'."""


@runtime_checkable
class SocketAssigner(Protocol):
    """A driver that can give a profile to one connected socket (AssignProfile(SocketID, ID), Table 3)."""

    def assign(self, descriptor: int, profile: str) -> None:
        """Give the profile of that name to a socket of this process. Errors: `BadInput`, `Missing`, `Refused`."""


@runtime_checkable
class PerListener(Protocol):
    """A driver that can keep to the connections of some listening ports (`Place.listen`)."""

    def listened(self) -> Sequence[Driver]:
        """Return one driver for each set of listeners that has rules at this place."""


@runtime_checkable
class Listener(Protocol):
    """A driver that the kernel notifies of changes, so that not all has to be read to see an external one."""

    def news(self) -> tuple[frozenset[str], Rules] | None:
        """Prefixes written since `mark` or this was last asked, and what is in force of them; None: ask `mark`."""


@runtime_checkable
class RefusalCounter(Protocol):
    """A driver that counts what the kernel refuses at single connections, after `apply` read everything back."""

    def refusals(self) -> Mapping[str, tuple[int, str]]:
        """Knob -> (how often, why the last time). Empty when all is well."""


@runtime_checkable
class Trier(Protocol):
    """A driver that finds out by trying whether it can act, where nothing that is read says so."""

    def tried(self) -> str:
        """Why it cannot, in one line; "" if it can. What it tries sets nothing and leaves nothing."""


@runtime_checkable
class Asker(Protocol):
    """A driver that can ask the kernel what clients would get, beside reading back what was written."""

    def ask(self, rules: Rules) -> Answers:
        """The kernel's answers for clients of these rules. Nothing is written, and no packet sent."""


@runtime_checkable
class Original(Protocol):
    """A driver that can read what the kernel has where no profile of ours says otherwise."""

    def untouched(self) -> Mapping[str, Value]:
        """Each knob's value without us."""


@runtime_checkable
class Inventory(Protocol):
    """A driver that knows what it made by marks in the kernel itself, whichever journal knows of it or none."""

    def ours(self) -> str:
        """All that stands here by our marks, in a few words; "" if nothing does."""

    def others(self) -> tuple[str, ...]:
        """What others have put among ours, one line each with how to take it away; `revert` leaves it there."""


@runtime_checkable
class Drawing(Protocol):
    """A driver whose kernel part draws each client's profile from the mix of the class that its prefix names.

    There are two halves, each a plan and its mixes, and one word that turns from one to the other: a plan that was
    changed in place would be read torn. Mixes change only together with the epoch. Once a plan is in force, nothing of
    the driver applies to new connections when its lease has passed, though every process of ours be dead.
    """

    def load_plan(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        """Prepare the idle half: a plan, and the mix of each class by the name of the profile that prefixes point to.

        Nothing of it is in force before `turn`. Errors: `BadInput` for the name of no profile, and for other mixes
        under the key and epoch that are in force; `Missing` where the driver's rules are not in force.
        """

    def turn(self) -> None:
        """Put the loaded half in force with one store, its lease too. Errors: `BadInput` where none is loaded."""

    def renew(self, until_ns: int) -> None:
        """Let the lease end at a time of CLOCK_BOOTTIME, ns; cheap enough for every second."""

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Hand out the records that wait, each once; ends when none is left. One reader at a time."""

    def lost_records(self) -> int:
        """Return how many records found no room since the rules came in force."""

    def drop_plan(self) -> None:
        """Leave no plan in force and none loaded: prefixes have the profile that they point to, as without a draw."""


@runtime_checkable
class PlanReader(Protocol):
    """A driver that reads back which plan it draws by."""

    def plan_state(self) -> PlanState | None:
        """Return the plan in force in short; None where none is."""


class Policy(Protocol):
    """One way to choose a profile. The simulator and the manager are two callers of it.

    Between two updates a decision depends on the context and on chance alone, so that many can be made at once
    (`choose_many` and `observe_many` of `learner/policy.py`) and come out bit for bit as if made one by one.
    """

    @property
    def name(self) -> str:
        """As on the command line: a row of `learner.POLICIES`."""

    def choose(self, context: Context) -> Decision:
        """Pick a profile for a context; the decision carries its arm, its class and its propensity."""

    def observe(self, outcome: Outcome) -> None:
        """Keep what a decision led to; every `update_every` outcomes are an `update`."""

    def update(self) -> None:
        """Learn from what was observed since the last update."""

    def save(self) -> str:
        """All that was learned, observed and drawn, as JSON text: exact, so that a restored policy goes on alike."""

    def restore(self, text: str) -> None:
        """Take over what `save` wrote. Errors: `BadInput` for another policy's or another version's text."""
