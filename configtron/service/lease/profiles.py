# SPDX-License-Identifier: MIT
"""The paper's programming interface (ConfigTron 2019, Table 3) under a lease: a program's settings end with it.

paper                            here                                  does
initConfigProfile() -> ID        init_config_profile() -> int          a profile without settings; the lowest free ID
setProfileParam(ID, key, value)  set_profile_param(ID, knob, value)    one setting, at once in force for its prefixes
getProfileParam(ID, key)         get_profile_param(ID, knob)           the kernel's value; None if it is not set
deleteConfigProfile(ID)          delete_config_profile(ID)             `BadInput` while a prefix has it
AssignProfile(SocketID, ID)      assign_profile(descriptor, ID)        a connected socket
AssignProfile(IP-Prefix, ID)     assign_profile("192.0.2.0/24", ID)    connections of those clients from now on

Each call has the name in the paper and the one here.

    from configtron.service import lease

    with lease.Profiles(lease.LeaseOptions(Path("tune.db"), driver="route")) as table:
        far = table.init_config_profile()
        table.set_profile_params(far, {"initcwnd": 20, "tcp_congestion_control": "reno"})
        table.assign_profile("192.0.2.0/24", far)
        ...                               # in force in this block; then undone, unless `keep()` was called

Method     Each call that changes rules is one apply transaction: journaled, read back, with a watchdog and an ownership
           record. A thread renews the lease three times in its length, until the block ends.
Fails as   A process that is killed, or stopped, renews no lease: its watchdog restores the earlier state. A table
           whose transaction was undone or replaced by another program raises `Refused`.
Differs    from the paper's: `set_profile_params` sets several knobs at once; the guard refuses profiles that are unfair
           to cubic (`Limits.allow_unfair`); one program at a time has the table of a place.
Source     Naseer and Benson, ConfigTron, 2019, Table 3; rules: `configtron.tune.profiles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from threading import Event as Signal
from threading import Thread
from types import TracebackType

from configtron.db.tuning import Tuning
from configtron.model.bounds import check_number
from configtron.model.errors import ConfigtronError, Missing, Refused
from configtron.model.nouns import Value
from configtron.model.protocols import SocketAssigner
from configtron.model.tuning import Rules
from configtron.service.lease import watchdog_process
from configtron.service.lease.apply_transaction import apply_rules, keep_transaction
from configtron.service.lease.context import context_of, exclusive_lock
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.planner import chosen, guard
from configtron.service.lease.recovery import recover_due
from configtron.service.lease.undo import REQUESTED, undo
from configtron.tune import profiles
from configtron.tune.journal import IN_FORCE, Transaction

# Default lease, s: how long the settings of a killed program stay.
TABLE_LEASE_S = 10.0
LEAST_LEASE_S = 0.1
# Renewals within the length of a lease.
RENEWALS = 3


class Profiles:
    """The six calls, within a `with` block. A failed call changes nothing.

    options  where, by which driver, within which limits
    lease_s  s for which settings outlive a process that is killed

    Errors: the driver's (`Missing`, `BadInput`, `Refused`), the guard's and the lock's (`Refused`), `Mismatch`.
    """

    def __init__(self, options: LeaseOptions, *, lease_s: float = TABLE_LEASE_S) -> None:
        check_number("lease_s", lease_s, LEAST_LEASE_S)
        self._options, self._lease_s = options, lease_s
        self._number, self._keep = 0, False
        self._ended = Signal()
        self._renewer = Thread(target=self._renew, name="configtron-lease", daemon=True)
        self._exit = ExitStack()

    def __enter__(self) -> Profiles:
        journal = self._exit.enter_context(Tuning(self._options.database))
        try:
            self._context = context_of(journal)
            with exclusive_lock(self._options.database):
                recover_due(self._context)
                self._driver = chosen(self._context, self._options, Rules())
        except BaseException:
            self._exit.close()
            raise
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._exit:
            self._ended.set()
            self._renewer.join()
            with exclusive_lock(self._options.database):
                mine = self._context.journal.act(self._number) if self._number else None
                if mine is not None and mine.status in IN_FORCE:
                    self._end(mine)
            if mine is not None:
                watchdog_process.dismiss(mine)

    def _end(self, mine: Transaction) -> None:
        if self._keep:
            keep_transaction(self._context, mine)
        else:
            undo(self._context, mine, REQUESTED)

    def keep(self) -> None:
        """Leave the rules in force when the block ends, until `configtron tune rollback`."""
        self._keep = True

    def init_config_profile(self) -> int:
        """Make a profile without settings; return its ID."""
        with exclusive_lock(self._options.database):
            have = self._have()
            number, target = profiles.init_config_profile(have)
            self._apply(have, target)
        return number

    def set_profile_param(self, number: int, knob: str, value: Value) -> None:
        """Set one knob of a profile."""
        self.set_profile_params(number, {knob: value})

    def set_profile_params(self, number: int, settings: Mapping[str, Value]) -> None:
        """Set several knobs of a profile, all or none."""
        with exclusive_lock(self._options.database):
            have = self._have()
            self._apply(have, profiles.set_profile_params(have, number, settings))

    def get_profile_param(self, number: int, knob: str) -> Value | None:
        """Return a knob of a profile as the driver reads it back; None where the profile does not set it."""
        return profiles.get_profile_param(self._have(), number, knob)

    def delete_config_profile(self, number: int) -> None:
        """Delete a profile. Errors: `BadInput` while prefixes have it."""
        with exclusive_lock(self._options.database):
            have = self._have()
            self._apply(have, profiles.delete_config_profile(have, number))

    def assign_profile(self, client: str | int, number: int) -> None:
        """Give a profile to a prefix (text), or to a connected socket (its descriptor).

        Errors: `Missing` for a socket where the driver assigns none.
        """
        with exclusive_lock(self._options.database):
            have = self._have()
            if isinstance(client, str):
                self._apply(have, profiles.assign_profile(have, client, number))
            elif not isinstance(self._driver, SocketAssigner):
                raise Missing(f"the driver {self._driver.name} assigns no single sockets; the driver kmod does")
            else:
                self._driver.assign(client, profiles.profile_of(have, number).name)

    def _have(self) -> Rules:
        """Return the rules that the driver reads. Errors: `Refused` where this table's transaction is over."""
        mine = self._context.journal.act(self._number, bare=True) if self._number else None
        if mine is not None and mine.status not in IN_FORCE:
            raise Refused(f"transaction {mine.id} of this table is {mine.status} ({mine.why}); begin a new one")
        return self._driver.read()

    def _apply(self, have: Rules, target: Rules) -> None:
        guard(self._driver, target, self._options.limits)
        place = self._options.place
        before = self._context.journal.open_act(self._driver.name, place, self._context.namespace_of(place))
        new = apply_rules(self._context, self._driver, place, have, target, self._lease_s)
        self._number = new.id
        if before is not None:
            watchdog_process.dismiss(before)

    def _renew(self) -> None:
        """Renew the lease until the block ends. Runs in a thread, with a connection of its own."""
        while not self._ended.wait(self._lease_s / RENEWALS):
            # A journal that cannot be written now may be at the next turn; else the lease ends, as it must.
            with suppress(ConfigtronError, OSError), Tuning(self._options.database) as journal:
                journal.renew(self._number, self._context.now_s() + self._lease_s)

    # The paper's own names.
    initConfigProfile = init_config_profile
    setProfileParam = set_profile_param
    getProfileParam = get_profile_param
    deleteConfigProfile = delete_config_profile
    AssignProfile = assign_profile
