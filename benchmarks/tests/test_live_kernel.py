# SPDX-License-Identifier: MIT
"""The judgement of the loop on kernels: a run as the draw has it passes, and each thing that differs is found."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.live.scenario import guarded, initial_window, measured, settings_at
from benchmarks.live_kernel.__main__ import BEGIN, END, main, tables
from benchmarks.live_kernel.draw_checks import COLUMNS, check_draws, parse_run, served_loads
from benchmarks.live_kernel.fixed_arms import AlikeArms, FixedArms
from benchmarks.live_kernel.place import way_queues
from benchmarks.live_kernel.recorded_runs import digest, load_or_play, play_timed
from benchmarks.live_kernel.recovery import neighbours, recovery_times, within
from benchmarks.live_kernel.report import claims, difference_lines, gains, profile_shares
from benchmarks.live_kernel.rival_runs import best_of, best_rows, compared_runs, gains_over_default, settings_by_name
from benchmarks.live_kernel.scenario import CHANGED, EVERY, FIXED, UNIFORM, KernelScenario, pages
from benchmarks.live_kernel.visits import Visited
from benchmarks.page_marks import into
from configtron.intake.pageloads.plan_book import unit
from configtron.lab.testbed.families import named
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.map_making import MapOptions
from configtron.learner.map_text import map_text
from configtron.model.close_records import OpenRecord
from configtron.model.draw import draw, unit_of
from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.map_maker import MapMaker
from tests.support.dated_plan import dated_plan

KEY, FIRST, BOOT_S = bytes(range(16)), 10, 1_000.0
SMALL = KernelScenario(epochs=2, epoch_s=100, continents=("asia",), networks=2, clients=40, hosts=1).quiet()
MAP = FleetMap(
    1, 1, {"fast": Profile("fast", (("initcwnd", 30),)), "wide": Profile("wide", (("initcwnd", 64),))},
    {"near": (("fast", 40_000), ("wide", 25_536)), "far": (("wide", 65_536),)}, {"10.100.0.0/24": "near"}, KEY, 1,
    bands=(Band(60_000, "near"), Band(2**32 - 1, "far")), holdback=32_768, epoch_s=100,
)  # fmt: skip


def as_drawn() -> dict[str, Any]:
    """A run of one epoch in which every client of both networks loaded a page over two connections."""
    plan = dated_plan(MAP, FIRST)
    loads, records, rows = list[Any](), list[Any](), list[Any]()
    for number, network in enumerate(SMALL.access_networks()):
        rtt_us = (20_000, 100_000)[number]
        name = ("near", "far")[number]
        for client in range(network.clients):
            address = network.address(client)
            found = draw(plan.plan, plan.mixes[name], unit_of(address))
            profile = "" if found.arm is None else plan.mixes[name].profiles[found.arm]
            at_s, ports = 5.0 + client, (4000 + 2 * client, 4001 + 2 * client)
            ms = 500.0 if found.held else 400.0
            loads.append([number, client, "bank", "h2", 0, at_s, at_s + 1.0, ms, "", "t", list(ports)])
            for port in ports:
                band = None if number == 0 else 2
                one = OpenRecord(network.prefix, 443, port, int((at_s + 0.1) * 1e9), 1, name, found.arm, found.held,
                                 profile, 1, FIRST, band, rtt_us, False)  # fmt: skip
                records.append(["web0", "open", list(one)])
            row = dict.fromkeys(COLUMNS)
            row |= {"agent": "web0", "sequence": len(rows) + 1, "at_ns": int(at_s * 1e9), "prefix": network.prefix,
                    "unit": unit(KEY, bytes(map(int, address.split("."))), FIRST), "term": 1, "version": 1,
                    "epoch": FIRST, "class_name": name, "arm": found.arm, "profile": profile,
                    "propensity": found.propensity, "held": found.held}  # fmt: skip
            rows.append(list(row.values()))
    return {"first": FIRST, "boot_s": BOOT_S, "maps": [[map_text(MAP), KEY.hex()]], "loads": loads, "rows": rows,
            "records": records,
            "applied": [["web0", 1.0, 1, 1]], "plans": [["web0", 1, 1, FIRST]], "lost_records": 0, "flows": {},
            "events": [], "event_s": {}, "restarts": [], "staged": [], "learned": len(rows)}  # fmt: skip


@pytest.mark.slow
def test_a_run_as_drawn_passes() -> None:
    run = parse_run(SMALL, as_drawn())
    found = check_draws(run)
    assert (found.connections, found.drawn, found.rows, found.units) == (160, 160, 80, 80)
    assert not found.wrong and not found.unmatched and not difference_lines(run, found).bad
    lines = gains(run)
    assert "+20.0" in lines[3] and "asia" in lines[4] and len(lines) == 6
    assert "Default" not in profile_shares(run)[1] and "wide" in profile_shares(run)[1]


COLUMN_MS = Visited._fields.index("plt_ms")
ARM, HELD, PROFILE = (OpenRecord._fields.index(name) for name in ("arm", "held", "profile"))


@pytest.mark.slow
@pytest.mark.parametrize(("place", "value"), [(ARM, 5), (HELD, None), (PROFILE, "other")])
def test_a_connection_that_differs_is_found(place: int, value: object) -> None:
    found = as_drawn()
    found["records"][7][2][place] = value
    one = check_draws(run := parse_run(SMALL, found))
    assert one.wrong == {"connection": 1} and difference_lines(run, one).bad


@pytest.mark.slow
@pytest.mark.parametrize(("column", "value", "kind"), [("arm", 7, "row"), ("propensity", 0.3, "propensity"),
                                                       ("unit", "0" * 16, "row"), ("held", None, "row")])  # fmt: skip
def test_a_row_that_differs_is_found(column: str, value: object, kind: str) -> None:
    found = as_drawn()
    found["rows"][3][COLUMNS.index(column)] = value
    one = check_draws(run := parse_run(SMALL, found))
    assert one.wrong[kind] == 1 and difference_lines(run, one).bad


def test_a_row_that_is_stored_twice_is_found() -> None:
    found = as_drawn()
    found["rows"].append(found["rows"][0])
    assert check_draws(parse_run(SMALL, found)).wrong == {"twice": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("record", "listed", "banded"), [(1, 1, 0), (90, 0, 1)])
def test_two_arms_of_a_client_are_found(record: int, listed: int, banded: int) -> None:
    found = as_drawn()
    found["records"][record][2][ARM] = 6
    one = check_draws(parse_run(SMALL, found))
    assert (one.clients_mixed, one.banded_mixed, one.loads_mixed) == (listed, banded, 1)
    one.wrong.clear()
    assert difference_lines(parse_run(SMALL, found), one).bad, "two arms alone are an error, too"


def test_a_connection_of_no_load_is_counted() -> None:
    found = as_drawn()
    found["loads"][0][-1] = [1, 2]
    assert check_draws(parse_run(SMALL, found)).unmatched == 2


def test_a_scenario_comes_back_from_its_text() -> None:
    scenario = replace(SMALL, driver="ebpf", seed=3, policy=FIXED, arms=((EVERY, 1, "cubic/30"),))
    assert KernelScenario.of(scenario.text()) == scenario and len(pages()) == 3
    every = KernelScenario().access_networks()
    assert len(every) == 12 and len({one.prefix for one in every}) == 12


def test_a_policer_is_a_bucket_without_a_queue() -> None:
    delay, bucket, leaf = way_queues(named("policer:5/50/16000").down, 1)
    assert (delay.kind, bucket.kind, bucket.knobs["burst"]) == ("netem", "tbf", 16_000)
    assert leaf.knobs["limit"] == 1514 == bucket.knobs["limit"]
    assert [one.kind for one in way_queues(named("link:20/60/1").down, 1)] == ["netem", "tbf", "bfifo"]


def test_arms_are_compared_within_network_page_and_version() -> None:
    """One network is ten times slower and has other shares of arms: only what differs within a network counts."""
    found = as_drawn()
    for load in found["loads"]:
        load[COLUMN_MS] *= 10 if load[0] else 1
    gain, low, high = within(served_loads(parse_run(SMALL, found)))
    assert gain == pytest.approx(0.2) and low == pytest.approx(0.2) and high == pytest.approx(0.2)


@pytest.mark.slow
def test_classes_are_those_of_the_plans_map() -> None:
    """A map that came within the epoch waits for the next one, whatever the class that it has for a prefix."""
    found = as_drawn()
    later = replace(MAP, version=2, prefixes={"10.100.0.0/24": "far"})
    found["maps"].append([map_text(later), KEY.hex()])
    found["applied"].append(["web0", 20.0, 1, 2])
    assert not check_draws(parse_run(SMALL, found)).wrong
    found["plans"] = [["web0", 1, 2, FIRST]]
    assert check_draws(parse_run(SMALL, found)).wrong["connection"] == 80, (
        "of the network whose class that plan changes"
    )


def slower_in(epochs: dict[int, float]) -> dict[str, Any]:
    """A run whose epochs have the same loads; tuned clients' take so many times as long in each."""
    found = as_drawn()
    loads, found["loads"] = found["loads"], []
    tuned_ms = min(load[COLUMN_MS] for load in loads)
    for epoch, factor in epochs.items():
        for load in loads:
            again = list(load)
            again[BEGIN_S] += epoch * SMALL.epoch_s
            again[COLUMN_MS] = load[COLUMN_MS] * factor if load[COLUMN_MS] == tuned_ms else load[COLUMN_MS]
            found["loads"].append(again)
    return found


BEGIN_S = Visited._fields.index("begin_s")


@pytest.mark.slow
def test_what_is_planted_is_felt_until_tuned_clients_are_no_slower() -> None:
    found = slower_in({0: 1.0, 1: 3.0, 2: 2.0, 3: 1.0, 4: 3.0})
    scenario = replace(SMALL, epochs=5, change=1, harmful=4)
    found["events"] = [[1, "change"], [4, "harmful"]]
    run = parse_run(scenario, found)
    changed, harmful = recovery_times(run, served_loads(run))
    assert (changed.name, changed.span_s) == ("change", 2 * SMALL.epoch_s)
    assert harmful.span_s is None and "until the end" in harmful.words
    assert "tuned clients are still slower after 'pacing becomes slow' of epoch 4" in claims(
        run, served_loads(run), check_draws(run)
    )


GRID = guarded(measured())
MAPS = MapOptions(holdback=0.5, epoch_s=10)


def test_windows_that_are_tried_end_where_a_learners_default_does() -> None:
    few = guarded(measured(), KernelScenario().windows)
    windows = [{initial_window(profile) for profile in grid.profiles} for grid in (few, GRID)]
    assert windows == [{4, 10, 30}, {4, 10, 30, 64}]
    assert few.profiles[few.default] == GRID.profiles[GRID.default]


def free(profile: Profile) -> str:
    return ""


def test_a_run_that_tries_every_configuration_draws_all_of_them_in_two_epochs() -> None:
    maker = FixedArms(replace(SMALL, policy=UNIFORM), GRID, MAPS, 100)
    seen = [maker.arms("", epoch) for epoch in range(2)]
    assert {at for arms in seen for at in arms} == set(range(len(GRID))) and max(map(len, seen)) == 8
    made = maker.make(99 * 10**10 + 8 * 10**9, free)
    assert made is not None and maker.make(100 * 10**10, free) is None, "one map an epoch, before it begins"
    assert all(sum(parts for _, parts in mix) == 65_536 for mix in made.mixes.values())
    again = FixedArms(replace(SMALL, policy=UNIFORM), GRID, MAPS, 100)
    again.restore(maker.save())
    assert again.make(100 * 10**10, free) is None and again.make(101 * 10**10, free) is not None


@pytest.mark.parametrize("maker", [FixedArms, AlikeArms])
def test_makers_have_every_method_that_the_manager_calls(maker: type) -> None:
    asked = {name for name in vars(MapMaker) if not name.startswith("_")}
    assert {"observe", "make", "classes", "save", "restore"} <= asked and asked <= set(dir(maker))


def test_fixed_arms_follow_conditions_and_epochs() -> None:
    arms = ((EVERY, 0, "cubic/30"), ("far", 0, "reno/4"), ("far", 3, "vegas/10"))
    maker = FixedArms(replace(SMALL, policy=FIXED, arms=arms), GRID, MAPS, 100)
    words = [settings_at(GRID, maker.arms(name, epoch)[0]) for name, epoch in (("near", 5), ("far", 2), ("far", 3))]
    assert words == ["cubic/30", "reno/4", "vegas/10"]
    unknown = FixedArms(replace(SMALL, policy=FIXED, arms=((EVERY, 0, "cubic/5"),)), GRID, MAPS, 100)
    with pytest.raises(BadInput, match="no configuration has the settings cubic/5"):
        unknown.make(100 * 10**10, free)


@pytest.mark.slow
def test_arms_that_are_alike_have_no_settings() -> None:
    maker = AlikeArms(LoopOptions(GRID, "thompson", replace(MAPS, least_clients=1), 20, budget=0.9), KEY)
    maker.observe([outcome(at) for at in range(60)])
    made = maker.make(2 * 10**10, free)
    assert made is not None and len(made.profiles) > 1
    assert all(not profile.settings for profile in made.profiles.values())
    assert any(profile.settings for profile in (maker.learner.map or made).profiles.values()), "the learner draws"


def outcome(at: int) -> OutcomeRow:
    return OutcomeRow(
        agent="a", boot="b", sequence=at + 1, at_ns=10**9 + at, site="s", prefix="10.100.0.0/24", unit=f"{at:016x}",
        plt_ms=400.0 + at, failure="", device="", protocol="h2", term=0, map_version=0, epoch=0, class_name="",
        arm=None, profile="", propensity=1.0, held=False, teaches=True, why_not="", rtt_ms=20.0 + at % 7,
        bandwidth_kbps=9_000.0, loss=0.0,
    )  # fmt: skip


def test_a_changed_continent_has_its_conditions_from_the_epoch_on() -> None:
    scenario = KernelScenario(change=3)
    before, after = scenario.networks_in(2), scenario.networks_in(3)
    assert [one.condition for one in before] == [one.condition for one in scenario.access_networks()]
    moved = {one.continent for one, now in zip(before, after, strict=True) if one.condition != now.condition}
    assert moved == {CHANGED}


def tried(best: str, gain: float) -> Any:
    """A run in which every configuration was tried, and one is better than all others."""
    found, settings = as_drawn(), settings_by_name()
    prefixes = [network.prefix for network in SMALL.access_networks()]
    records = {(record[0], record[2]): record for _, _, record in found["records"]}
    loads, found["loads"], found["records"] = found["loads"][::2], [], []
    for number, name in enumerate(sorted(settings), 1):
        for load in loads:
            again = list(load)
            again[-1] = [port + 1000 * number for port in load[-1]]
            again[COLUMN_MS] = 500.0 * (1.0 - gain if settings[name] == best else 1.0)
            found["loads"].append(again)
            fields = list(records[prefixes[load[0]], load[-1][0]])
            fields[2], fields[PROFILE] = again[-1][0], name
            found["records"].append(["web0", "open", fields])
    return parse_run(replace(SMALL, squeeze=1), found)


@pytest.mark.slow
def test_the_best_configuration_of_a_run_that_tried_all_is_found() -> None:
    run = tried("reno/30", 0.3)
    loads = served_loads(run)
    assert best_of(loads) == "reno/30"
    gains = gains_over_default(loads)
    assert 1.0 - np.exp(-gains["reno/30"][0]) == pytest.approx(0.3) and gains["vegas/4"][0] == pytest.approx(0.0)
    rows = best_rows(run, loads)
    assert {words for _, since, words in rows if since == 0} == {"reno/30"} and len(rows) == 2


@pytest.mark.slow
def test_runs_are_compared_by_tuned_clients_and_held_back_ones_show_chance() -> None:
    one, other = (parse_run(SMALL, slower_in({0: factor})) for factor in (1.0, 1.25))
    gain, low, high = compared_runs(served_loads(one), served_loads(other), False)
    assert gain == pytest.approx(0.2) and low == pytest.approx(0.2) and high == pytest.approx(0.2)
    assert compared_runs(served_loads(one), served_loads(other), True)[0] == pytest.approx(0.0)


def test_a_kept_run_is_not_played_again_and_no_other_scenarios(tmp_path: Path) -> None:
    text = json.dumps([SMALL.text(), as_drawn()])
    (tmp_path / "one.json.gz").write_bytes(gzip.compress(text.encode()))
    run = load_or_play(tmp_path, "one", SMALL)
    assert len(run.loads) == 80 and digest(run.raw) == digest(json.loads(text)[1])
    with pytest.raises(BadInput, match="another scenario"):
        load_or_play(tmp_path, "one", replace(SMALL, seed=9))


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.lab
def test_a_short_world_runs_from_end_to_end() -> None:
    """One network, one server with the module, two epochs: pages, beacons, joins, rows, and every arm as drawn."""
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    scenario = KernelScenario(seed=906, epochs=2, epoch_s=12, continents=("europe",), networks=1, clients=12, hosts=1,
                              policy=UNIFORM, holdback=0.3).quiet()  # fmt: skip
    run = parse_run(scenario, play_timed(scenario))
    found = check_draws(run)
    assert not difference_lines(run, found).bad, found.examples
    assert found.drawn == found.connections > 30 and not found.unmatched
    assert len(run.rows) >= 10 and len({one.profile for one in served_loads(run)}) > 3
    assert any(one.held for one in served_loads(run)) and not all(one.held for one in served_loads(run))


@pytest.mark.slow
def test_every_table_is_printed() -> None:
    found = as_drawn()
    found["events"] = [[1, "change"], [1, "restart"]]
    found["restarts"] = [[2, 70, 80]]
    lines, bad = tables(parse_run(replace(SMALL, continents=("asia",)), found))
    text = "\n".join(lines)
    assert not bad and lines[-1].startswith("claims: ")
    for words in (
        "by epoch",
        "by phase",
        "asia",
        "in term 2, it knows the 70 outcomes it had learned, and 10",
        "initcwnd=30",
    ):
        assert words in text, words


def test_what_a_neighbour_loses_is_counted() -> None:
    """A flow of 1 MB/s that stands still while each page loads, one page each ten seconds."""
    found = as_drawn()
    found["loads"] = [load for load in found["loads"] if load[0] == 1]
    for at, load in enumerate(found["loads"]):
        begin_s = 30.0 + 10.0 * at
        load[5:8] = [begin_s, begin_s + 1.0, 1000.0]
    ends = [load[6] for load in found["loads"]]
    still = {bin_ for end in ends for bin_ in range(round(end * 10) - 10, round(end * 10) + 1)}
    found["flows"] = {"1": [[at, 100_000] for at in range(5000) if at not in still]}
    run = parse_run(SMALL, found)
    lines = neighbours(run, served_loads(run))
    assert "8.00 Mbit/s alone" in lines[0] and "held back" in lines[1] + lines[2]
    size = pages()["bank"].size
    lost = [float(line.split("bytes")[0].split()[-1]) for line in lines[1:]]
    assert all(one == pytest.approx(1.1e6 / size, rel=0.1) for one in lost)


def test_tables_go_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    into(page, "new\n", BEGIN, END)
    assert page.read_text() == f"before\n{BEGIN}\n```\nnew\n```\n{END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(BadInput, match="there is no"):
        into(page, "x", BEGIN, END)


@pytest.mark.parametrize("words", [("none",), ("kmod", "x"), ("1", "2", "3"), ("--docs",)])
def test_other_words_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2 and "write kmod or ebpf" in capsys.readouterr().err
