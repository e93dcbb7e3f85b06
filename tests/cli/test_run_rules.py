# SPDX-License-Identifier: MIT
"""Rules of a run: conditions of --fail-on, what is asked before the truth is compared, the bundled list."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import Observation
from configtron.probe.targets import hostname, read
from configtron.report.target_results import TargetResult, found_in
from configtron.service.campaign import RunSummary, parse_conditions
from configtron.service.campaign.scoring import NOT_PROBED, TOO_FEW, is_asked, shows_window
from configtron.service.lists import bundled, list_source
from tests.support.sample_results import reading, result, run


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
    assert holding([text], found_in(run())) == ([text] if holds else [])


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


@pytest.mark.slow
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
