# SPDX-License-Identifier: MIT
"""Runs from Python: results and events without a command line, and a clean end when the caller cancels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from configtron.model.errors import BadInput, Missing
from configtron.service import campaign
from configtron.service.progress import Event

LAB = campaign.ProbeOptions(words=("alexa-top1k",), lab=True, sites=3, profile="quick")


@pytest.mark.lab
@pytest.mark.root
def test_a_cancelled_run_keeps_what_it_has_and_is_resumed_whole(tmp_path: Path) -> None:
    events: list[Event] = []
    done = campaign.run(LAB, tmp_path / "r.db", progress=events.append, cancelled=lambda: _calls(events) > 3)
    assert done.cancelled and done.status == "interrupted" and _calls(events) > 3
    assert events[-1].what.endswith("go on with: configtron probe --resume 1")
    again = campaign.run(campaign.ProbeOptions(resume=done.number), tmp_path / "r.db")
    assert not again.cancelled and again.number == done.number
    with campaign.open_runs(tmp_path / "r.db") as store:
        results = list(store.results(done.number))
        assert len(list(campaign.records_of(store, store.run(done.number)))) == 3 * 5
        assert campaign.score_run(store).score.overclaims == 0
    assert len({result.trace_id for result in results}) == len(results)


def _calls(events: list[Event]) -> int:
    return max((event.calls for event in events if isinstance(event, campaign.RunProgress)), default=0)


def test_a_plan_sends_and_stores_nothing(tmp_path: Path) -> None:
    events: list[Event] = []
    options = campaign.ProbeOptions(words=("127.0.0.1", "192.0.2.0/30"), allow=("127.0.0.1",))
    with campaign.planned(options, events.append) as layout:
        assert layout.size == 5 and {target.host for target in layout.targets()} >= {"127.0.0.1", "192.0.2.1"}
    assert [event.total for event in events] == [0] and "--contact" in events[0].what


def test_a_bad_target_is_one_line_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such list"):
        campaign.run(campaign.ProbeOptions(words=("@nowhere",)), tmp_path / "r.db")
    with campaign.open_runs(tmp_path / "r.db") as store:
        assert store.runs() == ()


def test_a_lab_without_its_package_ends_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel was built for ten minutes first, and then no server started."""
    monkeypatch.setitem(sys.modules, "h2", None)  # as where it is not installed
    with pytest.raises(Missing, match=r"this needs h2: pip install 'configtron\[lab\]'"):
        campaign.run(LAB, tmp_path / "r.db")
    with campaign.open_runs(tmp_path / "r.db") as store:
        assert store.runs() == ()


def test_a_name_that_is_none_is_an_error_of_the_package() -> None:
    with pytest.raises(AttributeError, match=r"configtron\.service\.campaign"):
        campaign.nothing  # type: ignore[attr-defined]  # noqa: B018
