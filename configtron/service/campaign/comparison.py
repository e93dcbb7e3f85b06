# SPDX-License-Identifier: MIT
"""Compare the verdicts of two runs."""

from __future__ import annotations

from collections.abc import Iterator

from configtron.db.store import Store
from configtron.fingerprint.diversity import BALANCING, MIXED, compare, is_mixed
from configtron.report.changes import VerdictChange
from configtron.service.campaign.runs import find_run, records_of


def changes(store: Store, before: int, after: int) -> Iterator[VerdictChange]:
    """Yield a comparison of every parameter that both runs have a verdict on.

    Where unlike servers share an address, the outcome is `MIXED`, but for `BALANCING` itself.
    """
    old = {(item.site, item.vantage): item.verdicts for item in records_of(store, find_run(store, before))}
    for item in records_of(store, find_run(store, after)):
        earlier = old.get((item.site, item.vantage), {})
        mixed = is_mixed(earlier) or is_mixed(item.verdicts)
        for knob in sorted(earlier.keys() & item.verdicts.keys()):
            then, now = earlier[knob], item.verdicts[knob]
            outcome = MIXED if mixed and knob != BALANCING else compare(then, now)
            yield VerdictChange(item.site, item.vantage, knob, outcome, then, now)
