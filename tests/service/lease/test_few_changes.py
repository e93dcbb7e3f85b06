# SPDX-License-Identifier: MIT
"""A few changed prefixes are applied without reading the others, and what is in force is what a dictionary says."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.service.lease import watchdog_process
from configtron.service.lease.apply_transaction import Applied, apply
from configtron.service.lease.context import context_of
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.roll_back import rollback
from configtron.service.lease.wanted_rules import drop_prefixes, set_prefixes
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.guard import Limits
from configtron.tune.journal import UNDONE, Transaction
from configtron.tune.plan import OF_PROFILE
from tests.support.memory_stack import Stack, stack

__all__ = ["stack"]

# So many that their rules stand beside their transaction's row.
MANY = 5000
PROFILES = [Profile(name, (("initcwnd", window),)) for name, window in (("one", 4), ("two", 10), ("three", 20))]


class Bench:
    """A database, the stack, and what the driver was asked to do."""

    def __init__(self, database: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database, self.stack, self.reads = database, stack, 0
        self.written: list[Changes] = []
        kinds = {name: getattr(MemoryDriver, name) for name in ("read", "apply")}

        def read(driver: MemoryDriver) -> Rules:
            self.reads += 1
            return kinds["read"](driver)  # type: ignore[no-any-return]

        def write(driver: MemoryDriver, changes: Changes) -> Rules:
            self.written.append(changes)
            return kinds["apply"](driver, changes)  # type: ignore[no-any-return]

        monkeypatch.setattr(MemoryDriver, "read", read)
        monkeypatch.setattr(MemoryDriver, "apply", write)
        with Tuning(database) as journal:
            journal.set_profiles(PROFILES)

    def apply(self, **limits: int) -> Applied:
        self.reads, self.written = 0, []
        return apply(LeaseOptions(self.database, "memory", limits=Limits(**limits)), lease_s=0.0)


@pytest.fixture
def bench(tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(watchdog_process, "start", lambda context, act: "")
    return Bench(tmp_path / "t.db", stack, monkeypatch)


def table(count: int) -> dict[str, str]:
    return {f"10.{n >> 8}.{n & 255}.0/24": ("one", "two")[n % 2] for n in range(count)}


def in_force(bench: Bench) -> tuple[dict[str, str], str]:
    rules = bench.stack.driver._rules
    return dict(rules.prefixes), rules.default


@pytest.mark.parametrize("count", [20, MANY])
def test_one_changed_prefix_is_one_write_and_no_reading(bench: Bench, count: int) -> None:
    wanted = table(count)
    set_prefixes(bench.database, wanted)
    bench.apply()
    set_prefixes(bench.database, {"10.0.3.0/24": "one"})
    applied = bench.apply()
    assert bench.reads == 0 and bench.written == [Changes(prefixes={"10.0.3.0/24": "one"})]
    expected = wanted | {"10.0.3.0/24": "one"}
    assert in_force(bench) == (expected, "") and applied.changes == 1
    assert applied.transaction is not None
    assert len(applied.transaction.rules.prefixes) == count and applied.transaction.rules.prefixes == expected
    with Tuning(bench.database) as journal:
        (act,) = journal.acts("kept")
        history, _ = journal.history()
    assert act.rules.prefixes == expected and act.id == applied.transaction.id
    assert [one.rules and one.rules.prefixes for one in history if one.until is None] == [expected]
    assert bench.apply().changes == 0 and bench.reads == 0 and not bench.written


def test_a_write_of_another_program_is_read_and_mended(bench: Bench) -> None:
    wanted = table(20)
    set_prefixes(bench.database, wanted)
    bench.apply()
    bench.stack.driver._rules = Rules(bench.stack.driver._rules.profiles, {"10.0.0.0/24": "one"})
    bench.stack.driver._changes += 1
    set_prefixes(bench.database, {"10.0.3.0/24": "one"})
    assert bench.apply().changes == 19 and bench.reads > 0
    assert in_force(bench) == (wanted | {"10.0.3.0/24": "one"}, "")


def test_what_was_wanted_meanwhile_is_not_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prefixes(bench.database, table(20))
    kept = MemoryDriver.apply

    def write(driver: MemoryDriver, changes: Changes) -> Rules:
        set_prefixes(bench.database, {"10.0.5.0/24": "one"})
        return kept(driver, changes)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(MemoryDriver, "apply", write)
        bench.apply()
    assert bench.apply().changes == 1 and in_force(bench)[0]["10.0.5.0/24"] == "one"


def test_nothing_is_lost_where_nothing_is_wanted_but_where_all_that_is_wanted_is_frozen(bench: Bench) -> None:
    assert bench.apply() == Applied("memory", None, 0, 0, lost=False, needs_watch=False)
    set_prefixes(bench.database, {"10.0.3.0/24": "one"})
    with Tuning(bench.database) as journal:
        here = context_of(journal)
        act = Transaction("memory", Place(), here.namespace, here.boot, UNDONE, "{}", Rules())
        journal.freeze(act, {scope: ("", "") for scope in ("10.0.3.0/24", f"{OF_PROFILE}one")})
    assert bench.apply().lost


def test_the_operators_limits_hold_for_a_few_too(bench: Bench) -> None:
    set_prefixes(bench.database, table(20))
    bench.apply(max_prefixes=20)
    set_prefixes(bench.database, {"10.0.3.0/24": "one"})
    assert bench.apply(max_prefixes=20).changes == 1 and bench.reads == 0, "as large as the limit"
    set_prefixes(bench.database, {"192.0.2.0/24": "one"})
    with pytest.raises(Refused, match="21 prefixes are more than --max-prefixes 20"):
        bench.apply(max_prefixes=20)


def test_a_profile_that_loses_its_last_prefix_goes(bench: Bench) -> None:
    set_prefixes(bench.database, {**table(20), "192.0.2.0/24": "three"})
    bench.apply()
    set_prefixes(bench.database, {"192.0.2.0/24": "one"})
    applied = bench.apply()
    assert bench.reads > 0 and applied.transaction is not None
    assert bench.stack.driver._rules.profiles.keys() == {"one", "two"} == applied.transaction.rules.profiles.keys()


@pytest.mark.parametrize("seed", range(8))
def test_any_sequence_ends_in_what_a_dictionary_says(bench: Bench, seed: int) -> None:
    random, model = Random(seed), table(12)
    set_prefixes(bench.database, model)
    for _ in range(12):
        for _ in range(random.randrange(3)):
            prefix, name = f"10.0.{random.randrange(16)}.0/24", random.choice(PROFILES).name
            if random.random() < 0.25:
                model.pop(prefix, None)
                drop_prefixes(bench.database, [prefix])
            else:
                model[prefix] = name
                set_prefixes(bench.database, {prefix: name})
        bench.apply()
        assert in_force(bench) == (model, "")
        with Tuning(bench.database) as journal:
            (act,) = journal.acts("kept")
        assert act.rules.prefixes == model and act.rules.profiles.keys() == set(model.values())
    rollback(LeaseOptions(bench.database, "memory"))
    assert in_force(bench) == ({}, "")
