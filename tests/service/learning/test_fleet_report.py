# SPDX-License-Identifier: MIT
"""`learn report`: from a manager's database to a page that a telephone shows, and claims that data allow."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.learner.rollout import Rollout, RolloutBegun, RolloutPlan, ShadowUnseen, advance
from configtron.learner.sequential.switchback import SwitchbackEffect, SwitchPlan
from configtron.learner.staged_mixes import StagedVersion
from configtron.learner.state import encode
from configtron.model.fleet import OutcomeRow
from configtron.model.nouns import Profile
from configtron.report.fleet_inputs import ReportInputs
from configtron.report.fleet_metrics import manager_metrics
from configtron.report.page.loop_page import render, verdict
from configtron.service.fleet.stages import Stages
from configtron.service.learning.fleet_report import ROLLOUT, ReportOptions, report
from configtron.service.learning.loop_pages import loop_texts
from configtron.service.text_listener import ListenerPlace, TextListener
from tests.support.fleet_rows import fleet_rows
from tests.support.headless import HeadlessPage, looked_at
from tests.support.learn_command import Typed, typed

__all__ = ["typed"]
NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
PROFILES = {name: Profile(name, (("initcwnd", size),)) for name, size in (("plain", 10), ("wide", 30))}
AGENT = '{"heard_s":1795186000,"held":"1.%d","reason":"%s","rejected":"%s","refused":%d,"waiting":4,"dropped":7}'
HOSTILE = "<script>alert(1)</script>"


def filled(path: Path, rows: list[OutcomeRow]) -> Path:
    """A manager's database after three maps."""
    rollout = advance(advance(Rollout((1, 3), (1, 2)), RolloutBegun(1)), ShadowUnseen(2))
    with FleetStore(path) as store:
        for name in ("ams", "fra", "old"):
            store.enroll(name, f"key of {name}")
        store.revoke("old")
        for version, why in ((1, "first map"), (2, "300 new prefixes"), (3, HOSTILE)):
            store.put_map(1, version, why, PROFILES, 60, b"document")
        for agent in ("ams", "fra"):
            mine = [row for row in rows if row.agent == agent]
            store.add_rows(agent, "b1", 1, mine[:50], 9)
            store.add_rows(agent, "b1", 56, mine[50:], 9)
        store.put_facts({"agent ams": AGENT % (3, "", "", 0), "agent fra": AGENT % (2, "above the bound", "1.3", 3)})
        store.put_facts({ROLLOUT: encode({"rollout": rollout})})
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> ReportInputs:
    path = filled(tmp_path_factory.mktemp("fleet") / "m.db", fleet_rows(1, 15_000, 0.3))
    return report(ReportOptions(path), NOW)


@pytest.mark.slow
def test_the_report_says_what_the_database_has(inputs: ReportInputs) -> None:
    assert sorted(one.name for one in inputs.effects) == ["", "ams", "cellular", "far", "fra", "near"]
    assert inputs.quality.lost == 10 and inputs.quality.rows == 15_000 and inputs.quality.aside["turn"] > 100
    agents = {one.name: one for one in inputs.agents}
    assert (agents["ams"].holds, agents["fra"].rejected, agents["fra"].reason) == ("1.3", "1.3", "above the bound")
    assert agents["old"].revoked and agents["old"].holds == ""
    assert [one.place for one in inputs.decisions] == ["1.1", "1.2", "1.3"]
    words = inputs.decisions[0].rollback.split()
    assert words[:2] + words[3:] == "configtron --db learn manager rollback 1.1".split()
    assert Path(words[2]).is_absolute() and Path(words[2]).is_file()
    line = inputs.prefixes[0]
    assert dict(line.arms) == pytest.approx({"": 0.2, "plain": 0.4, "wide": 0.4}) and "map 1.3" in line.why
    assert sum(sum(span.units.values()) for span in inputs.shares) > 5000
    assert inputs.rollout is not None and inputs.rollout.stage == "canary"


@pytest.mark.slow
def test_a_gain_is_claimed_and_nothing_where_the_ratio_is_broken_or_unknown(inputs: ReportInputs) -> None:
    """The number above all others, and the marks of what is worse, stood there all the same."""
    assert "Median page load time: lower than in the control group, -1" in verdict(inputs)
    assert ">-1" in render(inputs).split("p95 against the control group")[1][:60]
    broken, unknown = (replace(inputs, quality=replace(inputs.quality, ratio=replace(inputs.quality.ratio, **change)))
                       for change in ({"p": 1e-9}, {"units": 0}))  # fmt: skip
    for found in (broken, unknown):
        page = render(found)
        assert "not claimed" in page.split("p95 against the control group")[1][:60] and 'class="t-hit"' not in page
        assert "lower than in the control group" not in verdict(found)
    assert verdict(broken).startswith("Nothing is claimed: the sample ratio is broken")
    assert "broken: nothing is claimed" in render(broken)
    assert "but no claim: the sample ratio is unknown" in verdict(unknown)


@pytest.mark.slow
def test_what_data_do_not_allow_is_a_reason(tmp_path: Path) -> None:
    few = report(ReportOptions(filled(tmp_path / "few.db", fleet_rows(3, 40))), NOW)
    assert verdict(few).count("fewer than 30 clients") == render(few).count("fewer than 30 clients") == 1
    assert "at least some" in verdict(few) and "the rate is not known" in verdict(few), "NOW is days later"
    soon = report(ReportOptions(tmp_path / "few.db"), datetime(2026, 11, 20, 15, 0, tzinfo=UTC))
    assert soon.loads_an_hour == pytest.approx(40 / 3, rel=0.1) and "days at the present rate" in verdict(soon)
    nothing = report(ReportOptions(filled(tmp_path / "none.db", [])), NOW)
    assert verdict(nothing).startswith("Nothing is claimed: no load counts yet. This report is of the live loop")
    assert "No load of a prefix yet." in render(nothing)
    same = report(ReportOptions(filled(tmp_path / "same.db", fleet_rows(4, 6000, 0.0))), NOW)
    assert "Median page load time: no difference is shown" in verdict(same)
    prefixes = report(ReportOptions(filled(tmp_path / "p.db", fleet_rows(5, 6000, 0.3, prefixes=4))), NOW)
    assert "no claim: the clients of 4 prefixes are too few" in verdict(prefixes)


def test_every_difference_stands_with_its_interval_and_loads(inputs: ReportInputs) -> None:
    page = render(inputs)
    assert page == render(inputs), "the same inputs give the same bytes"
    for place in inputs.effects:
        for one in place.goals:
            for arm in (0, 1):
                assert f"{one.found.loads[arm]} ({one.found.units[arm]})" in page
    assert page.count("[") >= 3 * 18, "two levels and a difference of 18 rows"


def test_all_sections_are_there_and_words_stay_words(inputs: ReportInputs) -> None:
    page = render(replace(inputs, switchback=SwitchbackEffect(-0.1, -0.2, -0.01, 9, 4000), notes=("Cut.",)))
    for section in "effect rollout prefixes shares drift quality decisions agents reading sees".split():
        assert f'id="{section}"' in page
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "").replace("https", "http").split("<body>")[1]
    assert "-9.5 % [-18.1 %, -1.0 %]" in page and "+00:00" not in page and re.search(r'class="num"[^>]*>Prefixes', page)


def test_one_host_has_no_agents_and_its_stages_are_on(tmp_path: Path) -> None:
    """One client in one epoch, as the first visitor of `learn serve --local`."""
    at = fleet_rows(1, 4)[0].at_ns
    rows = [row._replace(agent="local", sequence=n + 1, at_ns=at + n * 10**9, unit="one", profile=str(n), arm=n)
            for n, row in enumerate(fleet_rows(1, 4))]  # fmt: skip
    with FleetStore(tmp_path / "l.db") as store:
        store.put_map(1, 1, "made", PROFILES, 60, b"document", Stages(RolloutPlan()).facts())
        store.add_rows("local", "b1", 1, rows, 9)
    found = report(ReportOptions(tmp_path / "l.db"), NOW)
    assert [dict(span.units) for span in found.shares] == [{"0": 1}], "counted once, by the profile that it had first"
    tiles = re.findall(r"<dt>(.*?)</dt>", render(found))
    assert tiles == ["p95 against the control group", "loads that count", "latest map", "roll-out"]
    assert "stages are on" in render(found) and "for all clients at once" not in render(found)
    assert "for all clients at once" in render(replace(found, staged=False))


def test_dark_hours_alone_are_no_stages(tmp_path: Path) -> None:
    stages = Stages(None, SwitchPlan(3600, 24, 2))
    stages.state = replace(stages.state, base=StagedVersion((1, 1), {}, {}))
    with FleetStore(tmp_path / "l.db") as store:
        store.put_map(1, 1, "made", PROFILES, 60, b"document", stages.facts())
    assert not report(ReportOptions(tmp_path / "l.db"), NOW).staged


@pytest.mark.parametrize("days", [0.001, 0.9, 1.5, 40.0])
def test_stretches_of_time_have_names_of_their_own(tmp_path: Path, days: float) -> None:
    rows = fleet_rows(2, 300)
    spread = [row._replace(agent="ams", sequence=n + 1, at_ns=rows[0].at_ns + int(n * days * 86_400 * 1e9 / 300))
              for n, row in enumerate(rows)]  # fmt: skip
    with FleetStore(tmp_path / "l.db") as store:
        store.add_rows("ams", "b1", 1, spread, 9)
    found = report(ReportOptions(tmp_path / "l.db"), NOW).shares
    names = [span.label for span in found]
    assert names and len(set(names)) == len(names)
    assert sum(sum(span.units.values()) for span in found) == len({row.unit for row in rows})


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_a_telephone_shows_it(inputs: ReportInputs, tmp_path: Path, width: int) -> None:
    (tmp_path / "r.html").write_text(render(inputs))
    with HeadlessPage(tmp_path / "r.html", width) as page:
        assert looked_at(page, width) == []
        assert page.value("document.querySelectorAll('h2').length") == 10
        assert page.value("document.querySelectorAll('svg text').length") > 30
        assert page.value("getComputedStyle(document.querySelector('.card')).borderRadius") == "10px", "style applies"
        assert [url for url in page.requested if not url.startswith("file:")] == []


def test_the_live_page_is_the_report_s(tmp_path: Path) -> None:
    filled(tmp_path / "l.db", fleet_rows(6, 2000, 0.3))
    texts = loop_texts(tmp_path / "l.db")
    listener = TextListener(ListenerPlace("127.0.0.1", 0), texts, "--page")
    try:
        with HeadlessPage(f"http://127.0.0.1:{listener.port}/", 360, tmp_path) as page:
            assert looked_at(page, 360) == []
            assert page.value("document.querySelectorAll('section h2').length") > 6
            assert page.value("document.querySelector('meta[http-equiv=refresh]').content") == "30"
            own = f"http://127.0.0.1:{listener.port}/"
            assert [url for url in page.requested if url not in (own, own + "favicon.ico")] == []
    finally:
        listener.close()
    assert render(report(ReportOptions(tmp_path / "l.db"))).count('http-equiv="refresh"') == 0


def test_the_command_writes_the_page(typed: Typed, tmp_path: Path) -> None:
    code, _, err = typed("learn", "report")
    assert code == 2 and "no database here" in err
    filled(tmp_path / "l.db", fleet_rows(6, 2000, 0.3))
    code, _, err = typed("learn", "report", "-o", tmp_path / "r.html")
    assert code == 0 and f"written: {tmp_path / 'r.html'}\n" in err and "page load time" in err
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert "live plt of visitors" in typed("learn", "status")[1]


def test_the_managers_metrics_are_the_reports_figures(inputs: ReportInputs) -> None:
    text = manager_metrics(inputs)
    for line in (
        'configtron_manager_agents{state="current"} 1', 'configtron_manager_agents{state="revoked"} 1',
        "configtron_manager_rows_total 15000", "configtron_manager_rows_lost_total 10",
        "configtron_manager_map_version 3", 'configtron_manager_rollout_stage{stage="canary"} 1',
        f'configtron_manager_rows_aside{{reason="turn"}} {inputs.quality.aside["turn"]}',
        f'configtron_manager_effect{{goal="p95",bound="low"}} {inputs.effects[0].goals[1].low!r}',
    ):  # fmt: skip
        assert f"\n{line}\n" in text
    nothing = manager_metrics(replace(inputs, effects=(), decisions=(), rollout=None))
    assert "manager_effect" not in nothing and 'stage="none"' in nothing
