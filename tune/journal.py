# SPDX-License-Identifier: MIT
"""The journal's grammar: what an act goes through, and what is due to one that was left behind.

Question   A program writes a host's TCP settings and may be killed at any instruction, or the host may lose power. Who
           puts back what stood there?
Method     An *act* is one `apply`. Before its first write it is in the journal with what stood here (`before`), what is
           to be in force (`rules`) and until when (`expires_s`). Each step is committed before it is taken:

               begun ──► writing ──► leased ──► kept
                 │          │           │         │
                 │          └─────┬─────┴─────────┘
                 ▼                ▼
               undone ◄──────  undoing          replaced: a later act of the same place took over

           begun     nothing was written; a keeper process is being started
           writing   anything may have been written
           leased    all was written and read back; to be undone when the lease ends
           kept      in force until somebody says otherwise
           undoing   `revert` may be under way
Stop when  The act is undone. Undoing is `Driver.revert`, which may be done any number of times, so whoever finds an act
           that is due does it over, from its beginning.
Reads as   `due(act, ...)`: what is to be done about an act that nobody is working on.
Fails as   A driver that cannot revert leaves its act in `undoing`, with the reason; it is tried again.
Differs    from tuned and bpftune, which restore at their own exit: a process that is killed has no exit. From a log of
           single values: what stood before is the driver's business, and is handed back to it whole.
Source     Commit-confirmed of routers (Junos "commit confirmed", RFC 6241 section 8.4); write-ahead logs (Mohan 1992).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from configtron.model.tuning import Place, Rules

BEGUN, WRITING, LEASED, KEPT, UNDOING, UNDONE, REPLACED = (
    "begun", "writing", "leased", "kept", "undoing", "undone", "replaced",
)  # fmt: skip
# Acts that may have left something on the host.
OPEN = (BEGUN, WRITING, LEASED, KEPT, UNDOING)
# Acts whose rules are wholly in force.
IN_FORCE = (LEASED, KEPT)

# What `due` answers.
NOTHING, FORGET, UNDO, GUARD = "nothing", "forget", "undo", "guard"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One apply, as journaled.

    driver     its name; with `place`, who is to be asked to revert
    space      the network namespace it was made in, where the place names none: "net:[4026531840]"
    boot       the kernel's boot id when it began: after a reboot nothing of it is in force
    before     what the driver said stood here before anything of ours (JSON)
    rules      what is to be in force after it, all of it
    lease_s    for how long it was granted; 0 is without end
    expires_s  when that ends, in seconds since boot
    over       the act that it replaced and that is in force again once it is undone; 0: the untouched stack
    held       prefixes that were held back
    keeper     the process that undoes it when the lease ends: its id and start time
    why        how it came to its end, or what is in the way
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
    keeper: str = ""
    why: str = ""

    def closed(self, status: str, why: str) -> Transaction:
        """The act once it is over; its rules, a hundred thousand prefixes perhaps, are not kept for the record."""
        return replace(self, status=status, why=why, rules=Rules(), before="", keeper="")


def due(status: str, *, rebooted: bool, expired: bool) -> str:
    """What is to be done about an act that no living process is working on.

    `FORGET`: nothing of it is on the host; `UNDO`; `GUARD`: it has time left and needs a keeper; `NOTHING`.
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
