# SPDX-License-Identifier: MIT
"""Export: the wanted rules in the syntax of another tool. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from configtron.db.read_only import read_only
from configtron.model.errors import Missing
from configtron.model.tuning import Place, Rules
from configtron.service.lease.options import LeaseOptions
from configtron.tune import export as syntax
from configtron.tune.guard import DriverReach, check_reach
from configtron.tune.rules import check


def export(options: LeaseOptions, form: str, *, ipv6: bool = False) -> list[str]:
    """Return lines of configuration, with a comment for each setting that the tool cannot express; routes lead as the
    host's routes do now.

    form  input of `ip -batch` (one IP version), sections of .network files, or of sysctl.d (default profile)

    Errors: `BadInput` for rules that name no profile; `Missing` for a place that names listeners.
    """
    if options.place.listen:
        raise Missing(f"--as {form}: no word there for listeners ({options.place.listen}); leave --listen out")
    wanted = read_only(options.database, lambda journal: check(journal.wanted()))
    return list(_sysctl(wanted) if form == "sysctl" else _routes(wanted, options.place, form, 6 if ipv6 else 4))


def _routes(wanted: Rules, place: Place, form: str, version: int) -> Iterator[str]:
    # Loaded only here: the netlink client.
    from configtron.tune.drivers.route.route_driver import RouteDriver

    driver = RouteDriver(place)
    yield from syntax.left_out(wanted.profiles, driver.reachable, driver.unreachable)
    expressible = {name: syntax.within(profile, driver.reachable) for name, profile in wanted.profiles.items()}
    draft = driver.draft(replace(wanted, profiles=expressible))
    yield from syntax.networkd(draft) if form == "networkd" else syntax.iproute2(draft, version)


def _sysctl(wanted: Rules) -> Iterator[str]:
    from configtron.tune.drivers.sysctl import SysctlDriver, files

    driver = SysctlDriver(Place())
    reachable, unreachable = driver.reachable, driver.unreachable
    if wanted.prefixes:
        yield f"# left out: {len(wanted.prefixes)} prefixes: a namespace's settings know none"
    used = {name: profile for name, profile in wanted.profiles.items() if name == wanted.default}
    yield from syntax.left_out(used, reachable, unreachable)
    profile = syntax.within(used[wanted.default], reachable) if wanted.default else None
    if profile is not None:
        check_reach(profile, DriverReach("sysctl", reachable, unreachable))
    elif wanted.profiles:
        yield "# nothing to set: no profile is the default (configtron tune prefix set default NAME)"
    yield from syntax.sysctl(profile, files(profile) if profile else {})
