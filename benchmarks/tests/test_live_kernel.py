# SPDX-License-Identifier: MIT
"""The judgement of the loop on kernels: a run as the draw has it passes, and each thing that differs is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.live_kernel.__main__ import BEGIN, END, into, main, tables
from benchmarks.live_kernel.judged import COLUMNS, checked, kept, served
from benchmarks.live_kernel.place import way_queues
from benchmarks.live_kernel.recovery import neighbours, within
from benchmarks.live_kernel.report import differing, gains, over_time
from benchmarks.live_kernel.scenario import KernelScenario, pages
from benchmarks.live_kernel.visits import Visited
from configtron.lab.testbed.families import named
from configtron.learner.map_text import map_text
from configtron.learner.pageloads.plan_book import unit
from configtron.model.close_records import OpenRecord
from configtron.model.draw import draw, unit_of
from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap
from configtron.model.nouns import Profile
from configtron.service.learning.serve_local import dated_plan

KEY, FIRST, BOOT_S = bytes(range(16)), 10, 1_000.0
SMALL = KernelScenario(epochs=2, epoch_s=100, continents=("asia",), networks=2, clients=40, hosts=1).quiet()
MAP = FleetMap(
    1, 1, {"fast": Profile("fast", (("initcwnd", 30),)), "wide": Profile("wide", (("initcwnd", 64),))},
    {"near": (("fast", 40_000), ("wide", 25_536)), "far": (("wide", 65_536),)}, {"10.100.0.0/24": "near"}, KEY, 1,
    bands=(Band(60_000, "near"), Band(2**32 - 1, "far")), holdback=32_768, epoch_s=100,
)  # fmt: skip


def as_drawn() -> dict[str, Any]:
    """A run of one epoch in which every client of both networks loaded a page over two connections."""
    plan, loads, records, rows = dated_plan(MAP, FIRST), [], [], []
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
    return {"first": FIRST, "boot_s": BOOT_S, "key": KEY.hex(), "maps": [map_text(MAP)], "loads": loads, "rows": rows,
            "records": records,
            "applied": [["web0", 1.0, 1, 1]], "plans": [["web0", 1, 1, FIRST]], "lost_records": 0, "flows": {},
            "events": [], "restarts": [], "learned": len(rows)}  # fmt: skip


def test_a_run_as_drawn_passes() -> None:
    run = kept(SMALL, as_drawn())
    found = checked(run)
    assert (found.connections, found.drawn, found.rows, found.units) == (160, 160, 80, 80)
    assert not found.wrong and not found.unmatched and not differing(run, found).bad
    lines = gains(run)
    assert "+20.0" in lines[3] and "asia" in lines[4] and len(lines) == 6
    assert "Default" not in over_time(run)[1] and "wide" in over_time(run)[1]


COLUMN_MS = Visited._fields.index("plt_ms")
ARM, HELD, PROFILE = (OpenRecord._fields.index(name) for name in ("arm", "held", "profile"))


@pytest.mark.parametrize(("place", "value"), [(ARM, 5), (HELD, None), (PROFILE, "other")])
def test_a_connection_that_differs_is_found(place: int, value: object) -> None:
    found = as_drawn()
    found["records"][7][2][place] = value
    one = checked(run := kept(SMALL, found))
    assert one.wrong == {"connection": 1} and differing(run, one).bad


@pytest.mark.parametrize(("column", "value", "kind"), [("arm", 7, "row"), ("propensity", 0.3, "propensity"),
                                                       ("unit", "0" * 16, "row"), ("held", None, "row")])  # fmt: skip
def test_a_row_that_differs_is_found(column: str, value: object, kind: str) -> None:
    found = as_drawn()
    found["rows"][3][COLUMNS.index(column)] = value
    one = checked(run := kept(SMALL, found))
    assert one.wrong[kind] == 1 and differing(run, one).bad


def test_a_row_that_is_stored_twice_is_found() -> None:
    found = as_drawn()
    found["rows"].append(found["rows"][0])
    assert checked(kept(SMALL, found)).wrong == {"twice": 1}


@pytest.mark.parametrize(("record", "listed", "banded"), [(1, 1, 0), (90, 0, 1)])
def test_two_arms_of_a_client_are_found(record: int, listed: int, banded: int) -> None:
    found = as_drawn()
    found["records"][record][2][ARM] = 6
    one = checked(kept(SMALL, found))
    assert (one.clients_mixed, one.banded_mixed, one.loads_mixed) == (listed, banded, 1)


def test_a_connection_of_no_load_is_counted() -> None:
    found = as_drawn()
    found["loads"][0][-1] = [1, 2]
    assert checked(kept(SMALL, found)).unmatched == 2


def test_a_scenario_comes_back_from_its_text() -> None:
    scenario = replace(SMALL, driver="ebpf", seed=3)
    assert KernelScenario.of(scenario.text()) == scenario and len(pages()) == 3
    every = KernelScenario().access_networks()
    assert len(every) == 18 and len({one.prefix for one in every}) == 18


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
    gain, low, high = within(served(kept(SMALL, found)))
    assert gain == pytest.approx(0.2) and low == pytest.approx(0.2) and high == pytest.approx(0.2)


def test_every_table_is_printed() -> None:
    found = as_drawn()
    found["events"] = [[1, "change"], [1, "restart"]]
    found["restarts"] = [[2, 70, 80]]
    lines, bad = tables(replace(SMALL, continents=("asia",)), found)
    text = "\n".join(lines)
    assert not bad and lines[-1].startswith("claims: ")
    for words in (
        "by epoch",
        "by stretch",
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
    run = kept(SMALL, found)
    lines = neighbours(run, served(run))
    assert "8.00 Mbit/s alone" in lines[0] and "held back" in lines[1] + lines[2]
    size = pages()["bank"].size
    lost = [float(line.split("bytes")[0].split()[-1]) for line in lines[1:]]
    assert all(one == pytest.approx(1.1e6 / size, rel=0.1) for one in lost)


def test_tables_go_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    into(page, "new\n")
    assert page.read_text() == f"before\n{BEGIN}\n```\nnew\n```\n{END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(BadInput, match="there is no"):
        into(page, "x")


@pytest.mark.parametrize("words", [("none",), ("kmod", "x"), ("1", "2", "3"), ("--docs",)])
def test_other_words_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2 and "write kmod or ebpf" in capsys.readouterr().err
