# SPDX-License-Identifier: MIT
"""Tuning as a library: plan, apply, roll back and watch profiles that expire unless their lease is renewed.

    from pathlib import Path
    from configtron.service import lease

    options = lease.LeaseOptions(Path("tune.db"), driver="route")
    applied = lease.apply(options, lease_s=60.0)
    lease.rollback(options)

Options are frozen, results are values, progress is a `Notice` to a callback, errors are those of
`configtron.model.errors`. Nothing here prints or reads the command line. After an exception or an interruption either
the whole transaction is in force or the earlier state; after a kill the watchdog restores the earlier state.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from configtron.service.boundary import bounded

if TYPE_CHECKING:
    from configtron.service.lease.apply_transaction import Applied, apply
    from configtron.service.lease.doctor import Examined, KnobSupport, absent_namespace, driver_names, examine, knobs
    from configtron.service.lease.export_syntax import export
    from configtron.service.lease.open_connections import Reapplied, reapply
    from configtron.service.lease.options import AUTO, LEASE_S, LeaseOptions, Notice, OnNotice
    from configtron.service.lease.planner import Planned, PlanReport, plan
    from configtron.service.lease.profiles import Profiles
    from configtron.service.lease.recovery import Recovered, recover
    from configtron.service.lease.roll_back import Closed, RolledBack, keep, rollback
    from configtron.service.lease.status_report import StatusReport, VerifyReport, status, verify
    from configtron.service.lease.transaction_log import LoggedTransaction, history
    from configtron.service.lease.wanted_rules import (
        StoredRules,
        acknowledge,
        acknowledged,
        drop_prefixes,
        drop_profile,
        import_prefixes,
        profile_of,
        read_prefixes,
        set_prefixes,
        set_profile,
        unacknowledge,
        unfreeze,
        wanted,
    )
    from configtron.service.lease.watcher import WatchEvent, watch

__all__ = [
    "AUTO", "LEASE_S", "Applied", "Closed", "Examined", "KnobSupport", "LeaseOptions", "LoggedTransaction", "Notice",
    "OnNotice", "PlanReport", "Planned", "Profiles", "Reapplied", "Recovered", "RolledBack", "StatusReport",
    "VerifyReport", "StoredRules", "WatchEvent", "absent_namespace", "acknowledge", "acknowledged", "apply",
    "driver_names", "drop_prefixes", "drop_profile", "examine", "export", "history", "keep", "knobs", "plan",
    "profile_of", "import_prefixes", "read_prefixes", "reapply", "recover", "rollback", "set_prefixes", "set_profile",
    "status", "unacknowledge", "unfreeze", "verify", "wanted", "watch",
]  # fmt: skip

# Name -> its module, which Python loads at the first use of the name: a command loads only the modules that it needs.
HOMES = {
    "apply_transaction": "Applied apply",
    "doctor": "Examined KnobSupport absent_namespace driver_names examine knobs",
    "export_syntax": "export",
    "options": "AUTO LEASE_S LeaseOptions Notice OnNotice",
    "planner": "Planned PlanReport plan",
    "profiles": "Profiles",
    "open_connections": "Reapplied reapply",
    "recovery": "Recovered recover",
    "roll_back": "Closed RolledBack keep rollback",
    "status_report": "StatusReport VerifyReport status verify",
    "transaction_log": "LoggedTransaction history",
    "wanted_rules": "StoredRules acknowledge acknowledged drop_prefixes drop_profile profile_of import_prefixes "
    "read_prefixes set_prefixes set_profile unacknowledge unfreeze wanted",
    "watcher": "WatchEvent watch",
}


def __getattr__(name: str) -> object:
    for home, names in HOMES.items():
        if name in names.split():
            found = globals()[name] = bounded(getattr(import_module(f"{__name__}.{home}"), name))
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
