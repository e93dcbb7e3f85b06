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

from lazy_loader import attach_stub

# The public names are in `__init__.pyi`; each is imported at its first use.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
