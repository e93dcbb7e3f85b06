# SPDX-License-Identifier: MIT
"""The measured tensor in fixtures/: whole, as well known as it says, physically possible, and what the lab measures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from configtron.cli.outermost import run
from configtron.lab.testbed.studies import STUDIES
from configtron.model.errors import DONE
from configtron.model.repeats import StoppingRule, judge
from configtron.model.tensor import Tensor, read
from tests.support import ROOT

FILE = ROOT / "fixtures" / "tensor" / "smoke.npz"
STUDY, RULE = STUDIES["smoke"], StoppingRule((6, 12, 24))
# A configuration loads a page anew in another sequence: the loss-free cells differ by the six connections' chaos alone.
AGREES = 0.05


@pytest.fixture(scope="module")
def tensor() -> Tensor:
    with FILE.open("rb") as file:
        return read(file, FILE.name)


def medians(tensor: Tensor, condition: str, site: str, **settings: str | int) -> np.ndarray:
    """The medians of all configurations that are set so."""
    rows = [at for at, profile in enumerate(tensor.grid.profiles) if settings.items() <= dict(profile.settings).items()]
    found: np.ndarray = tensor.median_ms[tensor.names.index(condition), rows, tensor.sites.index(site)]
    assert len(found)
    return found


def test_it_is_the_whole_study(tensor: Tensor) -> None:
    assert (tensor.names, tensor.sites) == (STUDY.conditions, STUDY.sites)
    assert tensor.grid.profiles == STUDY.grid.profiles
    assert tensor.source == "lab" and tensor.missing() == 0
    reported = dict(tensor.provenance)
    assert (reported["study"], reported["looks"]) == ("smoke", "6,12,24") and reported["software"].startswith("{")


def test_it_is_as_well_known_as_it_says(tensor: Tensor) -> None:
    """Judged again from its loads: the medians, and how many of them are known."""
    assert tensor.repeats_ms is not None
    known = 0
    for cell, found in zip(tensor.repeats_ms.reshape(STUDY.cells, -1), tensor.median_ms.reshape(-1), strict=True):
        # a load that failed is NaN too; loads end at a look
        count = next(look for look in RULE.looks if np.isnan(cell[look:]).all())
        loads = [math.inf if math.isnan(ms) else float(ms) for ms in cell[:count]]
        verdict = judge(loads, RULE, ["failed"] * loads.count(math.inf))
        assert verdict.median_ms == pytest.approx(found)
        known += verdict.settled
    assert dict(tensor.provenance)["known"] == f"{known} of {STUDY.cells} medians"
    assert known > STUDY.cells / 2


def test_no_page_is_faster_than_its_link(tensor: Tensor) -> None:
    """Bodies over the rate, and three round trips: to connect, to agree on keys, to ask."""
    size = np.array([page.size for page in STUDY.pages()])
    carried_ms = size[None, :] * 8 / tensor.bandwidth_kbps[:, None]
    assert tensor.repeats_ms is not None
    fastest = np.nanmin(tensor.repeats_ms, axis=(1, 3))
    assert (fastest > carried_ms).all() and (fastest > 3 * tensor.rtt_ms[:, None]).all()


def test_what_the_papers_say_comes_out(tensor: Tensor) -> None:
    """A larger window helps on a long path; bbr beats cubic where packets are lost; nothing is always best."""
    quick, slow = (medians(tensor, "hotcloud:5/250/0", "yardstick", initcwnd=n, http_version="h2") for n in (30, 10))
    assert (quick < slow).all()
    lossy = [("hotcloud:5/150/2.5", "mail", {"tcp_congestion_control": cc}) for cc in ("bbr", "cubic")]
    bbr, cubic = (medians(tensor, link, site, http_version="h2", **settings) for link, site, settings in lossy)
    assert bbr.max() < cubic.min()
    assert len(np.unique(tensor.best)) > 3


@pytest.mark.root
@pytest.mark.lab
def test_the_lab_measures_it_again(tensor: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small page over a link without loss, all configurations."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file, link, site = tmp_path / "t.npz", "hotcloud:5/150/0", "search"
    words = ["--smoke", "--looks", "6", "--condition", link, "--site", site, "--tensor", str(file)]
    assert run(["--db", str(tmp_path / "x.db"), "learn", "measure", *words]) == DONE
    with file.open("rb") as opened:
        again = read(opened)
    kept = medians(tensor, link, site)
    assert (np.abs(medians(again, link, site) - kept) <= AGREES * kept).all()
