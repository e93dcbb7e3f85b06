# SPDX-License-Identifier: MIT
"""Outcomes come back as they were added; a policy and what it has read are one; `kill -9` leaves both whole."""

from __future__ import annotations

import sqlite3
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner.logged import Logged, logged_of, taught
from configtron.learner.saved import Recipe, recipe_of
from configtron.model.errors import BadInput
from configtron.model.nouns import Context, Decision, Outcome, Profile
from tests.learner.test_logged import logged
from tests.support import ROOT
from tests.support.logged_outcomes import outcomes_of
from tests.support.worlds import small_classes, small_tensor

TENSOR = small_tensor()
BBR = Profile("bbr", (("tcp_congestion_control", "bbr"), ("initcwnd", 30)))
ALL = Context(5000.0, 80.0, 0.01, "news", "192.0.2.0/24", 64500, "NL", "phone", 70.0, 4.5, 4000.0)
OUTCOMES = [
    Outcome(Decision(ALL, "nc3", BBR, "gp", 1200.5, 0.25), 1300.25, 1_700_000_000_123_456_789, "live"),
    Outcome(Decision(Context(rtt_ms=9.0, region="SE"), "", Profile("default"), "default"), 0.5, 0, "live"),
]


@pytest.fixture
def store(tmp_path: Path) -> Outcomes:
    return Outcomes(tmp_path / "o.db")


def test_outcomes_come_back(store: Outcomes) -> None:
    log = store.begin_log("live", '{"by":"hand"}')
    store.add(log, logged_of(OUTCOMES))
    store.add(log, logged_of(OUTCOMES[:1]))
    (back,) = store.batches(log)
    assert outcomes_of(back, "live") == [*OUTCOMES, OUTCOMES[0]] and list(back.number) == [1, 2, 3]
    assert [(found.source, found.about, found.outcomes) for found in store.logs()] == [("live", '{"by":"hand"}', 3)]
    row = store._connection.execute("SELECT site, class, arm, settings FROM told_outcome WHERE id = 1").fetchone()
    assert row == ("news", "nc3", "gp", '{"initcwnd":30,"tcp_congestion_control":"bbr"}')


def test_what_the_kernel_knows_of_a_path_comes_back(store: Outcomes) -> None:
    path = {"queue_ms": 120.5, "loss_run": 6.0, "window_bytes": 65535.0, "delivery_share": 0.4, "ack_gap_ms": 20.0}
    known = replace(ALL, **path, reordering=3.0, browser="Firefox")  # type: ignore[arg-type]
    reported = [replace(one, decision=replace(one.decision, context=known)) for one in OUTCOMES[:1]] + OUTCOMES
    log = store.begin_log("live", "{}")
    store.add(log, logged_of(reported))
    (back,) = store.batches(log)
    assert outcomes_of(back, "live") == reported and outcomes_of(back[1:], "live") == reported[1:]
    assert np.array_equal(back.contexts.number("loss_run"), [6.0, np.nan, np.nan], equal_nan=True)
    codes, words = back.contexts.named("asn")
    assert [words[code] if code >= 0 else "" for code in codes] == ["64500", "64500", ""]


def test_columns_come_back_in_batches_of_any_size(store: Outcomes) -> None:
    reported = logged(300)
    other, log = store.begin_log("sim", "{}"), store.begin_log("sim", "{}")
    store.add(other, logged(7))
    store.add(log, reported)
    for size in (1, 100, 299, 1000):
        parts = list(store.batches(log, size=size))
        assert max(map(len, parts)) == min(size, 300)
        assert [one for part in parts for one in outcomes_of(part, "sim")] == outcomes_of(reported, "sim")
    assert store.count(log) == 300 and store.count() == 307 and store.count(log, after=107) == 200
    last = store.last(10, log)
    assert last is not None and outcomes_of(last, "sim") == outcomes_of(reported, "sim")[-10:]
    assert store.last(5, 99) is None and store.of_prefixes(("10.9.9.0/24",), 5) is None
    prefix = reported.contexts.row(4).prefix
    found = store.of_prefixes((prefix,), 1000)
    assert found is not None
    mine = [one for one in outcomes_of(logged(7), "sim") + outcomes_of(reported, "sim")
            if one.decision.context.prefix == prefix]  # fmt: skip
    assert outcomes_of(found, "sim") == mine
    prefix = logged(7).contexts.row(4).prefix
    mine = [one for one in outcomes_of(reported, "sim") if one.decision.context.prefix == prefix]
    found, both = store.of_prefixes((prefix,), 1000, log), store.of_prefixes((prefix,), 1000)
    assert found is not None and both is not None and outcomes_of(found, "sim") == mine and len(found) < len(both)
    assert set(store.prefixes(other)) == {logged(7).contexts.row(at).prefix for at in range(7)} < set(store.prefixes())


def test_a_log_made_again_takes_the_place_of_the_old_one(store: Outcomes) -> None:
    one, two = store.begin_log("sim", '{"a":1}'), store.begin_log("sim", '{"a":2}')
    store.add(one, logged(5))
    store.add(two, logged(6))
    assert store.drop_logs('{"a":1}') == 1 and store.drop_logs('{"a":1}') == 0
    assert store.count() == 6 and [log.id for log in store.logs()] == [two]


def test_numbers_are_not_given_twice(store: Outcomes) -> None:
    """A log in place of a dropped one is new to a policy that read the dropped one; so is a policy of the same name."""
    one = store.begin_log("sim", '{"a":1}')
    store.add(one, logged(5))
    lessons(store, "p", list(store.batches()))
    found = store.learner("p")
    assert found is not None and store.drop_logs('{"a":1}') == 1
    two = store.begin_log("sim", '{"a":2}')
    store.add(two, logged(5))
    assert two > one and store.count(after=found.position) == 5
    assert store.drop_learner("p")
    again = store.begin_learner("p", "mab_nc", 0, found.recipe, None, found.state)
    assert again.id > found.id and again == store.learner("p")
    with pytest.raises(BadInput, match="^p: another `learn run` has just made it"):
        store.begin_learner("p", "mab_nc", 0, found.recipe, None, found.state)
    anew = store.begin_learner("p", "mab_nc", 0, found.recipe, None, found.state, fresh=True)
    assert anew.id > again.id and [anew] == [store.learner(one.name) for one in store.learners()]


def test_two_that_teach_one_policy(store: Outcomes) -> None:
    """The second to save gets an error, whatever the first did; what the first kept stays."""
    store.add(store.begin_log("sim", "{}"), logged(100))
    lessons(store, "p", [])
    part, stood = next(store.batches(size=50)), store.learner("p")
    assert stood is not None
    made = recipe_of(stood.recipe).make()
    chosen = taught(made, part)
    how = (made.save(), part, chosen, made.grid.profiles, made.class_ids_)
    first = store.save_learner(stood, *how)
    assert first == store.learner("p") and (first.position, first.outcomes) == (50, 50)
    with pytest.raises(BadInput, match="p changed meanwhile: another `learn run` .*; wait for it to end, then run"):
        store.save_learner(stood, *how)
    with pytest.raises(BadInput, match="^p: another `learn run` has just made it; wait for it to end, then run this"):
        store.begin_learner("p", "default", 0, stood.recipe, None, stood.state)
    assert store.learner("p") == first and len(list(store.decisions("p"))) == 50
    store.drop_learner("p")
    for _ in range(2):
        with pytest.raises(BadInput, match="p changed meanwhile"):
            store.save_learner(stood, *how)
        lessons(store, "p", [])  # made anew: of the same name, read as far, and another


def test_all_or_none(store: Outcomes) -> None:
    log, reported = store.begin_log("sim", "{}"), logged(20)
    assert store.count(store.begin_log("sim", "{}", reported)) == 20
    reported.plt_ms[13] = -1.0
    for begun in (lambda: store.add(log, reported), lambda: store.begin_log("sim", "{}", reported)):
        with pytest.raises(BadInput, match="CHECK"):
            begun()
    with pytest.raises(BadInput):
        store.begin_log("elsewhere", "{}")
    assert [log.outcomes for log in store.logs()] == [0, 20]


def test_strange_outcomes_are_refused_and_damage_is_reported(store: Outcomes) -> None:
    with pytest.raises(BadInput, match="no arm is called 'guess'"):
        logged_of([replace(OUTCOMES[0], decision=replace(OUTCOMES[0].decision, arm="guess"))])
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(BadInput, match="above 0"):
            logged_of([replace(OUTCOMES[0], plt_ms=wrong)])
    with pytest.raises(BadInput, match="is no text"):
        store.of_prefixes(("\udcff",), 5)
    store.begin_log("sim", "{}", logged(20))
    store._connection.execute("DELETE FROM configuration WHERE id = 3")
    with pytest.raises(BadInput, match="a configuration that is not there"):
        next(store.batches())


def lessons(store: Outcomes, name: str, parts: list[Logged], policy: str = "mab_nc") -> None:
    """A policy that learns from these, saved after each; taken up where it stands."""
    recipe = Recipe(policy, TENSOR.grid, TENSOR.sites, small_classes(TENSOR), 5, 70)
    made = recipe.make()
    if (found := store.learner(name)) is None:
        found = store.begin_learner(name, policy, 0, recipe.text(), None, made.save())
    else:
        assert recipe_of(found.recipe).text() == recipe.text()
        made = recipe_of(found.recipe).make()
        made.restore(found.state)
    for part in parts:
        chosen = taught(made, part)
        found = store.save_learner(found, made.save(), part, chosen, made.grid.profiles, made.class_ids_)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mab_nc", "configtron", "thompson"])
def test_a_policy_goes_on_as_if_nothing_had_happened(store: Outcomes, policy: str) -> None:
    store.add(store.begin_log("sim", "{}"), logged(600))
    lessons(store, "whole", list(store.batches()), policy)
    parts = list(store.batches(size=110))
    lessons(store, "halved", parts[:2], policy)
    assert [(one.position, one.outcomes) for one in store.learners()] == [(600, 600), (220, 220)]
    lessons(store, "halved", parts[2:], policy)
    whole, halved = store.learner("whole"), store.learner("halved")
    assert whole is not None and halved is not None and whole.state == halved.state
    assert list(store.decisions("whole")) == list(store.decisions("halved"))
    assert len(list(store.decisions("whole"))) == 600
    with pytest.raises(BadInput, match="has just made it"):
        store.begin_learner("whole", policy, 0, "", None, "")
    assert store.drop_learner("whole") and not store.drop_learner("whole")
    assert len(list(store.decisions("halved"))) == 600 and list(store.decisions("whole")) == []


@pytest.mark.slow
def test_memory_is_flat(store: Outcomes) -> None:
    """Ten times the outcomes take nothing like ten times the memory."""
    log, reported = store.begin_log("sim", "{}"), logged(2000)
    peaks = []
    # The first look pays for what Python keeps for good.
    for rounds in (2, 0, 18):
        for _ in range(rounds):
            store.add(log, reported)
        tracemalloc.start()
        assert sum(len(part) for part in store.batches(log, size=1000)) == store.count(log)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 2 * peaks[1]


def test_an_older_database_is_brought_up(tmp_path: Path) -> None:
    with Outcomes(tmp_path / "o.db") as store:
        tables = ("outcome", "log", "decision", "learner", "configuration", "word", "replay_part", "replay",
                  "deployment", "learned", "learned_damage", "gain_test", "neighbour_loss", "path_view",
                  "fleet_term", "fleet_agent", "fleet_map", "fleet_stream", "fleet_outcome", "fleet_fact",
                  "fleet_applied", "act_change", "retuned", "end_state", "initial_model")  # fmt: skip
        under_load = ("queue_ms", "loss_run", "window_bytes", "delivery_share", "ack_gap_ms", "reordering")
        store._connection.execute("DROP VIEW told_outcome")
        for table in tables:
            store._connection.execute(f"DROP TABLE {table}")
        for column in under_load:
            store._connection.execute(f"ALTER TABLE context DROP COLUMN {column}")
        store._connection.execute("PRAGMA user_version = 4")
    with Outcomes(tmp_path / "o.db") as store:
        store.add(store.begin_log("live", "{}"), logged_of(OUTCOMES))
        assert store.count() == 2
    fresh = sqlite3.connect(":memory:")
    fresh.executescript((ROOT / "db" / "schema.sql").read_text())
    made, brought_up = fresh, sqlite3.connect(store.path)
    # a table whose columns came one by one has another text
    query = "SELECT name, sql FROM sqlite_master WHERE name != 'context'"
    assert set(made.execute(query)) == set(brought_up.execute(query))
    columns = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('context')"
    assert set(made.execute(columns)) == set(brought_up.execute(columns))
