# SPDX-License-Identifier: MIT
"""`configtron probe plan`: costs by the measured unit costs of the package."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from configtron.cli.root import root
from configtron.model.choices import PROFILES
from configtron.service import campaign
from tests.support import ROOT

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


def test_one_vantage_is_counted_in_the_singular() -> None:
    assert "1000000 from 1 vantage, profile" in plan("--vantages", "1")
