# SPDX-License-Identifier: MIT
"""The tensors that ship with the package are whole, say how they were measured, and are read by default."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.db.replays import Replays
from configtron.lab.testbed.studies import STUDIES
from configtron.model.errors import BadInput
from configtron.model.tensor import read
from configtron.service.shipped_tensors import shipped_names, tensor_file
from configtron.studies.registry import sessions_run
from configtron.studies.registry.claims_run import ClaimsOptions, evaluate
from configtron.studies.registry.sessions_run import SessionsOptions
from configtron.studies.sim.session_job import Job, JobResult

# Of all medians, at most so many may be missing: what a network does not carry in half an hour.
MOST_MISSING = 0.01


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_tensor_is_its_study_whole_and_says_how_it_was_measured(name: str) -> None:
    tensor, study = read(BytesIO(tensor_file(name)), name), STUDIES[name]
    assert (tensor.names, tensor.sites) == (study.conditions, study.sites)
    assert tensor.grid.profiles == study.grid.profiles
    assert tensor.missing() <= MOST_MISSING * tensor.median_ms.size
    assert not np.isnan(tensor.median_ms[:, tensor.grid.default]).any()
    about = dict(tensor.provenance)
    assert {"study", "seed", "server", "looks", "loads", "virtual_s", "software"} <= set(about)
    assert about["study"] == name and int(about["loads"]) > 0
    for software in about["software"].split(" | "):
        assert {"kernel", "sources", "client"} <= set(json.loads(software))


def test_studies_run_on_the_formula_and_on_all_that_was_measured() -> None:
    assert shipped_names() == ("configtron", "hotcloud", "realism")
    job = sessions_run.job_of(("knobs",), SessionsOptions(), lambda _: None)
    assert {part[3] for part in job.config["parts"]} == {"analytic", *shipped_names()}
    assert set(job.config["files"]) == set(shipped_names())


def test_the_smallest_run_and_a_named_tensor_are_alone() -> None:
    assert sessions_run.options_of(None, None, 1, None, smoke=True).tensors == ("analytic",)
    assert sessions_run.options_of("hotcloud", None, 1, None).tensors == ("hotcloud",)


def test_a_job_of_before_had_one_tensor() -> None:
    """Its parts, as an earlier version stored them, have no tensor of their own."""
    config = {"parts": [["knobs", "", 1], ["knobs", "", 2]], "tensor": "analytic", "files": {}, "seeds": [1, 2],
              "sessions": None}  # fmt: skip
    points = [[["row", "column", 0.5, None, None]], [["row", "column", 0.7, None, None]]]
    found = sessions_run.summaries(JobResult(Job("study", config, 2), points, cancelled=False))
    assert [(one.study.name, one.tensor, one.analytic) for one in found] == [("knobs", "analytic", True)]
    assert found[0].found[0].measured.value == pytest.approx(0.6)
    assert sessions_run.described(Job("study", config, 2)).startswith("Tensor: analytic;")


@pytest.mark.slow
def test_each_tensor_has_its_own_numbers(tmp_path: Path) -> None:
    job = sessions_run.job_of(("knobs",), SessionsOptions(("analytic", "hotcloud"), 50, 1, 2), lambda _: None)
    done = sessions_run.run(tmp_path / "c.db", job, "", lambda event: None, lambda: False)
    rows = sessions_run.rows(sessions_run.summaries(done), curves=False)
    by_tensor = {
        name: {row["row"]: row["value"] for row in rows if row["tensor"] == name} for name in job.config["tensors"]
    }
    assert all(by_tensor.values()) and by_tensor["analytic"] != by_tensor["hotcloud"]
    with Replays(tmp_path / "c.db") as book:
        assert len(book.found(1)) == job.parts


@pytest.mark.slow
@pytest.mark.parametrize(("study", "tensor"), [("hotcloud", "hotcloud"), ("heterogeneity", "realism")])
def test_a_study_reads_what_ships_where_nothing_was_measured(study: str, tensor: str, tmp_path: Path) -> None:
    found = evaluate((study,), ClaimsOptions(tmp_path / "none.db"), lambda name, step: None, lambda line: None)
    assert found[0].facts
    assert any(f"{tensor}, shipped with configtron" in str(line) for line in found[0].ground)
    options = ClaimsOptions(tmp_path / "none.db", tensor=Path(tensor))
    assert evaluate((study,), options, lambda *_: None, lambda _: None) == found


@pytest.mark.parametrize(
    ("named", "reason"),
    [({"measurement": 3}, "no measurement"), ({"tensor": ""}, "'': Is a directory"),
     ({"tensor": "analytic"}, "a formula, for studies of simulated sessions")],
)  # fmt: skip
def test_what_is_named_must_be_there_and_be_a_tensor(named: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=reason):
        evaluate(("hotcloud",), ClaimsOptions(tmp_path / "none.db", **named), lambda *_: None, lambda _: None)


def test_an_empty_name_of_a_tensor_is_not_the_default() -> None:
    with pytest.raises(BadInput, match="'': Is a directory; name a file, or one of: .*analytic"):
        sessions_run.job_of(("gains",), sessions_run.options_of("", 1, 1, 2), lambda _: None)
