# SPDX-License-Identifier: MIT
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.report.target_results import TargetResult, found_in
from configtron.service.campaign import RunSummary, parse_conditions
from tests.support.sample_results import reading, result, run


def holding(texts: list[str], records: Iterable[TargetResult]) -> list[str]:
    summary = RunSummary(parse_conditions(texts))
    assert list(summary.counting(records))
    return summary.true_conditions()


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("icw<10", True),
        ("icw<3", False),
        ("icw = 10", True),
        ("icw!=10", True),
        ("icw>10", False),
        ("http_version=h2", False),
        ("failed>5%", False),
        ("failed>=0%", True),
        ("failed>0", False),
    ],
)
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
    try:
        parse_conditions([text])
    except BadInput:
        pass
