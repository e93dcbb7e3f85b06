# SPDX-License-Identifier: MIT
"""Campaigns: crafted packets, plans, conditions of --fail-on, what is asked before the truth is compared, memory."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.db.store import Store
from configtron.model.choices import PROFILES
from configtron.model.errors import DONE, PRIVILEGE, USAGE, BadInput
from configtron.model.nouns import Observation
from configtron.probe.targets import hostname, read
from configtron.report.target_results import TargetResult, found_in
from configtron.service import campaign
from configtron.service.campaign import RunSummary, parse_conditions
from configtron.service.campaign.scoring import NOT_PROBED, TOO_FEW, is_asked, shows_window
from configtron.service.lists import bundled, list_source
from tests.support import ROOT
from tests.support.sample_results import reading, result
from tests.support.sample_results import run as sample


def dry(folder: Path, template: str) -> int:
    pytest.importorskip("scapy", reason="templates are written in Scapy's words")
    (folder / "t.txt").write_text(template)
    words = ["--db", str(folder / "c.db"), "probe", "run", "192.0.2.1", "--craft", str(folder / "t.txt"), "--dry-run"]
    return run(words)


def test_a_dry_run_counts_the_users_packets_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry(tmp_path, 'TCP(flags="S")\n') == DONE
    assert "about 2 connections each" in capsys.readouterr().err


@pytest.mark.parametrize("template", ["TCP(dst=1)\n", "TCP(\n", "", "IP(src='192.0.2.7')/TCP(flags='S')\n", "\0\n"])
def test_a_bad_template_is_one_line(tmp_path: Path, template: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry(tmp_path, template) == USAGE
    err = capsys.readouterr().err
    assert "t.txt" in err and err.count("\n") == 1


def test_without_scapy_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scapy.layers.inet", None)
    assert dry(tmp_path, 'TCP(flags="S")\n') == PRIVILEGE
    assert "pip install 'configtron[" in capsys.readouterr().err


MILLION = ("probe", "plan", "--top", "1000000", "--vantages", "20")


def plan(*words: str) -> str:
    found = CliRunner().invoke(root, [*MILLION, *words], standalone_mode=False)
    assert found.exception is None, found.output
    return found.output


def test_a_plan_names_packets_bytes_hours_disk_and_how_they_were_measured() -> None:
    lines = dict(line.split(maxsplit=1) for line in plan().splitlines())
    assert set(lines) == {"targets", "connections", "packets", "bytes", "hours", "disk", "unit"}
    assert lines["targets"].startswith("1000000 from 20 vantages")
    assert "benchmarks.probe_costs" in lines["unit"]
    assert "1000000 from 1 vantage, profile" in plan("--vantages", "1")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_has_unit_costs_near_what_its_plan_says(profile: str) -> None:
    found = campaign.campaign_cost(campaign.PlanOptions(1000, profile=profile))
    planned = campaign.calls_each(campaign.ProbeOptions(words=("127.0.0.1",), profile=profile))
    # further trials and windows over TLS come to the plan's rows; sites without a port in clear lack most of them
    assert 0.6 * planned < found.connections / 1000 < 1.6 * planned
    assert found.starts >= found.connections and found.disk_bytes > found.evidence_bytes > 0


def test_json_fits_the_schema_and_csv_has_the_same_figures() -> None:
    form = json.loads(plan("-f", "jsonl", "--rate", "50"))
    jsonschema.validate(form, json.loads((ROOT / "configtron/report/plan.schema.json").read_text()))
    (row,) = csv.DictReader(plan("-f", "csv", "--rate", "50").splitlines())
    assert {name: str(form[name]) for name in row} == row
    assert json.loads(plan("-f", "jsonl", "--rate", "100"))["hours"] == pytest.approx(form["hours"] / 2, rel=1e-4)
    assert json.loads(plan("-f", "jsonl", "--rate", "0"))["limit"] == "concurrency"


@pytest.mark.root
@pytest.mark.lab
def test_a_lab_run_makes_about_the_connections_of_its_plan(tmp_path: Path) -> None:
    sites = 12
    options = campaign.ProbeOptions(words=("alexa-top1k",), lab=True, sites=sites, seed=7, profile="quick", region="na")
    done = campaign.run(options, tmp_path / "r.db")
    planned = campaign.campaign_cost(campaign.PlanOptions(sites, profile="quick"))
    with campaign.open_runs(tmp_path / "r.db") as store:
        assert store.run(done.number).traces == pytest.approx(planned.connections, rel=0.25)


def holding(texts: list[str], records: Iterable[TargetResult]) -> list[str]:
    summary = RunSummary(parse_conditions(texts))
    assert list(summary.counting(records))
    return summary.true_conditions()


@pytest.mark.parametrize(
    ("text", "holds"),
    [("icw<10", True), ("icw<3", False), ("icw = 10", True), ("icw!=10", True), ("icw>10", False),
     ("http_version=h2", False), ("failed>5%", False), ("failed>=0%", True), ("failed>0", False)],
)  # fmt: skip
def test_conditions(text: str, holds: bool) -> None:
    assert holding([text], found_in(sample())) == ([text] if holds else [])


def test_a_lower_bound_is_no_value() -> None:
    bound = list(found_in([result("a.example", "na", 1, reading("icw", 3, "L"))]))
    assert holding(["icw<10", "icw=3"], bound) == []
    assert holding(["icw>2"], bound) == ["icw>2"]


def test_a_list_is_asked_for_what_is_in_it() -> None:
    verdict = reading("tls_versions", ("1.0", "1.2"), "B", "")
    (empty,) = found_in([result("a.example", "na", 1)])
    old = [empty._replace(fingerprint=replace(empty.fingerprint, observations={"tls_versions": verdict}))]
    assert holding(["tls_versions=1.0", "tls_versions=1.3", "tls_versions!=1.1", "tls_versions!=1.2"], old) == [
        "tls_versions=1.0", "tls_versions!=1.1",
    ]  # fmt: skip
    assert holding(["tls_versions<1.1"], old) == []
    known = {"tls_versions": replace(verdict, grade="L")}
    some = [empty._replace(fingerprint=replace(empty.fingerprint, observations=known))]
    assert holding(["tls_versions=1.0", "tls_versions!=1.1"], some) == ["tls_versions=1.0"]


def test_failures_are_counted() -> None:
    silent = list(found_in([result("a.example", "na", 1, reading("icw", "!no-synack"))]))
    assert holding(["failed>50%"], silent) == ["failed>50%"]


@pytest.mark.parametrize("text", ["icw", "icw<", "icw<x", "failed>x", "icw<=>5", ""])
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--fail-on"):
        parse_conditions([text])


@given(st.text(max_size=20))
def test_any_text_is_a_condition_or_bad_input(text: str) -> None:
    with suppress(BadInput):
        parse_conditions([text])


@pytest.mark.parametrize("profile", ["quick", "standard", "paper"])
def test_who_answers_is_asked_by_one_profile(profile: str) -> None:
    for reason in (TOO_FEW, NOT_PROBED):
        silent = Observation("load_balancing", reason=reason)
        assert is_asked(silent, "full") and not is_asked(silent, profile)
        assert is_asked(Observation("icw", reason=reason), profile)


def test_results_are_judged_for_every_caller_and_a_window_in_clear_makes_asking_over_tls_needless() -> None:
    assert is_asked(Observation("load_balancing", "one", grade="B"), "standard")
    assert is_asked(Observation("load_balancing", reason="no-data"), "standard")
    assert shows_window(Observation("icw", 10, grade="C")) and not shows_window(Observation("icw", 10, grade="L"))
    assert not shows_window(Observation("icw", reason="closed")) and not shows_window(None)


def test_the_bundled_list_has_a_thousand_names_and_says_what_it_is_not() -> None:
    text = list_source("alexa-top1k").text
    names = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(names) == len(set(names)) == 1000 and all("." in name for name in names)
    assert [hostname(name) for name in names] == [target.host for target in read([list_source("alexa-top1k")])] == names
    assert "2026-11-21" in text and "not the Alexa list" in text and "alexa-top1k" in bundled()


SMALL, LARGE = 50, 2000
# ru_maxrss is in kilobytes. What Python and SQLite take more for a while, and a tenth of what the rows would take.
GROWTH_KB = 6_000
SCRIPT = """
import resource, sys
from configtron.cli.outermost import run
code = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak_kb(db: Path, sites: int, form: str) -> int:
    with Store(db) as store:
        number = store.begin_run("{}")
        for n in range(sites):
            results = []
            for result in sample():
                vantage, site, probe = result.trace_id.split("/")
                trace = f"{vantage}/{site}{n}/{probe}"
                results.append(result._replace(trace_id=trace, target=replace(result.target, host=f"{site}{n}")))
            store.record(number, results)
        store.finish_run(number, "done")
    command = [sys.executable, "-c", SCRIPT, "--db", str(db), "probe", "show", "1", "-f", form]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) >= 4 * sites
    return int(done.stderr.splitlines()[-1])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    for form in ("csv", "jsonl"):
        small, large = (peak_kb(tmp_path / f"{form}{n}.db", n, form) for n in (SMALL, LARGE))
        assert large - small < GROWTH_KB, f"{form}: {small} kB for {SMALL} sites, {large} kB for {LARGE}"
