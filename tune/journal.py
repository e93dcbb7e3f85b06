# SPDX-License-Identifier: MIT
"""The journal: the statuses of an apply transaction, and the due step of one that no process works on.

Question   A program writes a host's TCP settings and may be killed at any instruction, or the host may lose power. How
           do the earlier settings come back?
Method     A *transaction* is one `apply` (an act, in what is printed and in the database). Before its first write it is
           in the journal with the settings from before (`before`), those to be in force (`rules`) and until when
           (`expires_s`). A process commits each step before it takes it:

               begun ──► writing ──► leased ──► kept
                 │          │           │         │
                 │          └─────┬─────┴─────────┘
                 ▼                ▼
               undone ◄──────  undoing          replaced: a later one of the same place took over

           begun     nothing was written; a watchdog process is being started
           writing   anything may have been written
           leased    all was written and read back; to be undone when the lease ends
           kept      in force until a rollback
           undoing   `revert` may be under way
Stop when  The transaction is undone. Undoing is `Driver.revert`, which may be done any number of times, so any process
           that finds a transaction due repeats it from its beginning.
Reads as   `due(status, ...)`: the next step for a transaction that no process works on.
Fails as   A driver that cannot revert leaves its transaction in `undoing`, with the reason; a later undo tries again.
Differs    from tuned and bpftune, which restore at their own exit: a process that is killed has no exit. From a log of
           single values: the driver alone knows the meaning of its `before`, and gets it back whole.
Source     Commit-confirmed of routers (Junos "commit confirmed", RFC 6241 section 8.4); write-ahead logs (Mohan 1992).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from configtron.model.tuning import Place, Rules

BEGUN, WRITING, LEASED, KEPT, UNDOING, UNDONE, REPLACED = (
    "begun", "writing", "leased", "kept", "undoing", "undone", "replaced",
)  # fmt: skip
# Transactions that may have left something on the host.
OPEN = (BEGUN, WRITING, LEASED, KEPT, UNDOING)
# Transactions whose rules are wholly in force.
IN_FORCE = (LEASED, KEPT)

# Steps that `due` returns.
NOTHING, FORGET, UNDO, GUARD = "nothing", "forget", "undo", "guard"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One apply, as journaled.

    driver     name of the driver that reverts it, at `place`
    space      the network namespace it was made in, where the place names none: "net:[4026531840]"
    boot       the kernel's boot id when it began: after a reboot nothing of it is in force
    before     the settings from before ours, as the driver described them (JSON)
    rules      all rules that are in force after it
    lease_s    length of its lease, s; 0 is without end
    expires_s  end of the lease, in seconds since boot; of a closed transaction: when it ended; 0: unknown
    over       the transaction that it replaced and that is in force again once it is undone; 0: the untouched stack
    held       prefixes that were held back
    watchdog   the process that undoes it when the lease ends: its id and start time (column keeper)
    why        the reason of its end, or the obstacle to it
    """

    driver: str
    place: Place
    space: str
    boot: str
    status: str
    before: str
    rules: Rules
    id: int = 0
    begun_at: str = ""
    lease_s: float = 0.0
    expires_s: float = 0.0
    over: int = 0
    held: int = 0
    watchdog: str = ""
    why: str = ""

    def closed(self, status: str, why: str, now_s: float = 0.0) -> Transaction:
        """Return the transaction once it is over, without its rules, which may be a hundred thousand prefixes.

        now_s: seconds since boot; 0: unknown.
        """
        return replace(self, status=status, why=why, expires_s=now_s, rules=Rules(), before="", watchdog="")


def due(status: str, *, rebooted: bool, expired: bool) -> str:
    """Return the next step for a transaction that no living process works on.

    `FORGET`: nothing of it is on the host; `UNDO`; `GUARD`: it has time left and needs a watchdog; `NOTHING`.
    """
    if status not in OPEN:
        return NOTHING
    if rebooted:
        return FORGET
    if status == BEGUN:
        return FORGET
    if status in (WRITING, UNDOING) or (status == LEASED and expired):
        return UNDO
    return GUARD if status == LEASED else NOTHING
