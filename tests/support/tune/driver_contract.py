# SPDX-License-Identifier: MIT
"""What every driver promises: rules read back as they were applied, change by change, and `revert` leaves nothing.

driver_contract.py  check the ebpf driver; run it apart (tests/support/isolation.py); prints the failed checks
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.protocols import Driver
from configtron.model.tuning import Changes, Rules
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.rules import difference
from tests.support.tune.left import PLACE, nothing_left, placed

SLOW = Profile("slow", (("initcwnd", 4),))
FAST = Profile("fast", (("initcwnd", 30), ("tcp_congestion_control", "reno")))
BY_PREFIX = Rules(
    {"fast": FAST, "slow": SLOW},
    {"10.0.0.0/8": "slow", "10.1.0.0/16": "fast", "192.0.2.7/32": "fast", "fd00::/8": "slow", "fd01::/32": "fast"},
    "slow",
)
OF_NAMESPACE = Rules({"all": Profile("all", (("tcp_autocorking", 0), ("notsent_lowat", 20_000)))}, {}, "all")


@dataclass(frozen=True)
class Subject:
    """A driver to check: `make` returns it as another process would, `state` what the kernel has at its place."""

    make: Callable[[], Driver]
    rules: Rules
    other: Profile
    state: Callable[[], object]

    def apply(self) -> Driver:
        """Return the driver with the rules in force."""
        driver = self.make()
        assert driver.apply(difference(Rules(), self.rules)) == self.rules
        return driver


def rules_read_back_in_another_process(one: Subject) -> None:
    one.apply()
    assert one.make().read() == one.rules


def a_changed_profile_changes_all_its_prefixes(one: Subject) -> None:
    driver = one.apply()
    assert driver.apply(Changes({one.other.name: one.other})).profiles == {one.other.name: one.other}
    assert one.make().read() == replace(one.rules, profiles={**one.rules.profiles, one.other.name: one.other})


def what_is_dropped_is_gone(one: Subject) -> None:
    driver, default = one.apply(), one.rules.default
    kept = Rules({default: one.rules.profiles[default]}, dict([*one.rules.prefixes.items()][:1]), default)
    driver.apply(difference(one.rules, kept))
    assert one.make().read() == kept


def a_profile_in_use_cannot_be_dropped(one: Subject) -> None:
    driver = one.apply()
    try:
        driver.apply(Changes(dropped_profiles=frozenset({one.rules.default})))
    except BadInput as error:
        assert repr(one.rules.default) in str(error)
    else:
        raise AssertionError("it was dropped")
    assert one.make().read() == one.rules


def a_profile_that_is_not_there_cannot_be_given(one: Subject) -> None:
    driver = one.apply()
    before = one.state()
    try:
        driver.apply(Changes(default="absent"))
    except BadInput as error:
        assert "no profile is called 'absent'" in str(error)
    else:
        raise AssertionError("it was given")
    assert one.make().read() == one.rules and one.state() == before


def a_setting_out_of_reach_changes_nothing(one: Subject) -> None:
    driver = one.apply()
    before = one.state()
    try:
        driver.apply(Changes({one.other.name: Profile(one.other.name, (("no_such_knob", 1),))}))
    except BadInput as error:
        assert "no_such_knob" in str(error)
    else:
        raise AssertionError("it was taken")
    assert one.make().read() == one.rules and one.state() == before


def the_mark_changes_with_the_rules_alone(one: Subject) -> None:
    driver = one.apply()
    mark = driver.mark()
    assert driver.mark() == mark
    driver.apply(Changes({one.other.name: one.other}))
    assert driver.mark() != mark


def revert_leaves_nothing_however_often(one: Subject) -> None:
    untouched, before = one.state(), one.make().before()
    one.apply()
    for _ in range(2):
        one.make().revert(before)
        assert one.state() == untouched
    assert one.make().read() == Rules()


CHECKS = (
    rules_read_back_in_another_process, a_changed_profile_changes_all_its_prefixes, what_is_dropped_is_gone,
    a_profile_in_use_cannot_be_dropped, a_profile_that_is_not_there_cannot_be_given,
    a_setting_out_of_reach_changes_nothing, the_mark_changes_with_the_rules_alone, revert_leaves_nothing_however_often,
)  # fmt: skip


def main() -> None:
    failed = {}
    for check in CHECKS:
        with placed():
            one = Subject(lambda: EbpfDriver(PLACE), BY_PREFIX, Profile("fast", (("initcwnd", 20),)), nothing_left)
            before = one.make().before()
            try:
                check(one)
            except Exception:  # the test prints every check that failed, and fails by any
                failed[check.__name__] = traceback.format_exc()
            finally:
                one.make().revert(before)
    print(json.dumps(failed))


if __name__ == "__main__":
    main()
