# SPDX-License-Identifier: MIT
"""Tuning as a library: plan, apply, roll back and watch profiles that expire unless their lease is renewed.

    from pathlib import Path
    from configtron.service import lease

    options = lease.LeaseOptions(Path("tune.db"), driver="route")
    applied = lease.apply(options, lease_s=60.0)
    lease.rollback(options)

Options are frozen, results are values, progress is a `Notice` to a callback, errors are those of
`configtron.model.errors`. Nothing here prints or reads the command line. An exception, an interruption too, leaves
either all of a transaction in force or what stood before; a killed process leaves both to its watchdog.
"""

from __future__ import annotations

from configtron.service.lease.apply import Applied, apply
from configtron.service.lease.doctor import Examined, KnobSupport, absent_namespace, examine, knobs
from configtron.service.lease.export import export
from configtron.service.lease.options import AUTO, LEASE_S, LeaseOptions, Notice, OnNotice
from configtron.service.lease.plan import Planned, PlanReport, plan
from configtron.service.lease.profiles import Profiles
from configtron.service.lease.reapply import Reapplied, reapply
from configtron.service.lease.recover import Recovered, recover
from configtron.service.lease.rollback import Closed, RolledBack, keep, rollback
from configtron.service.lease.status import StatusReport, VerifyReport, status, verify
from configtron.service.lease.wanted import (
    Wanted,
    acknowledge,
    acknowledged,
    drop_prefixes,
    drop_profile,
    profile_of,
    read_prefixes,
    set_prefixes,
    set_profile,
    unacknowledge,
    unfreeze,
    wanted,
)
from configtron.service.lease.watch import WatchEvent, watch

__all__ = [
    "AUTO", "LEASE_S", "Applied", "Closed", "Examined", "KnobSupport", "LeaseOptions", "Notice", "OnNotice",
    "PlanReport", "Planned", "Profiles", "Reapplied", "Recovered", "RolledBack", "StatusReport", "VerifyReport",
    "Wanted", "WatchEvent", "absent_namespace", "acknowledge", "acknowledged", "apply", "drop_prefixes",
    "drop_profile", "examine", "export", "keep", "knobs", "plan", "profile_of", "read_prefixes", "reapply", "recover",
    "rollback", "set_prefixes", "set_profile", "status", "unacknowledge", "unfreeze", "verify", "wanted", "watch",
]  # fmt: skip
