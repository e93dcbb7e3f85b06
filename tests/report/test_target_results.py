# SPDX-License-Identifier: MIT
"""Readings become results by site and vantage, and rows of a summary."""

from __future__ import annotations

from dataclasses import replace

from configtron.model.nouns import Observation, Target
from configtron.model.records import Result
from configtron.probe.target_session import name_of
from configtron.report.target_results import found_in
from tests.support.sample_results import reading, result, run


def test_results_are_merged_by_site_and_vantage() -> None:
    found = list(found_in(run()))
    assert [(item.site, item.vantage) for item in found] == [
        ("a.example", "eu"), ("a.example", "na"), ("b.example", "eu"), ("b.example", "na"),
    ]  # fmt: skip
    assert found[0].verdicts["icw"].value == 4 and found[0].verdicts["icw"].grade == "B"
    assert found[2].verdicts["icw"].reason == "too-short" and not found[2].empty
    assert found[3].verdicts["icw"].text == ">= 3"
    assert len(found[0].evidence) == 2
    (item,) = found_in([result("a.example", "na", 1, reading("icw", "!no-synack"))])
    assert item.empty


def test_the_target_is_the_one_that_was_named_and_the_certificate_names_the_provider() -> None:
    elsewhere = Target("www.a.example", "192.0.2.9", 443, provider="A")
    led = result("a.example", "na", 1)._replace(target=elsewhere)
    (item,) = found_in([led, result("a.example", "na", 2)])
    assert item.fingerprint.target == Target("a.example", "192.0.2.1", 80, provider="A")
    seen = Observation("provider", "Some CDN", None, "", "certificate organisation", "C")
    (found,) = found_in([result("a.example", "na", 1, reading("icw", 10)), result("a.example", "na", 2, seen)])
    assert found.fingerprint.target.provider == "Some CDN"


TARGETS = [Target("a.example"), *(Target("a.example", path=f"/{n}") for n in range(7)), Target("a.example", port=8080)]


def results(targets: list[Target], vantage: str) -> list[Result]:
    found = []
    for n, target in enumerate(targets):
        for probe, knob, value in (("dns", "address", "192.0.2.1"), ("icw", "icw", 10 + n)):
            trace = f"{vantage}/{name_of(target)}/{probe}.1"
            seen = Observation(knob, value, None, "", "", "C", trace)
            known = replace(target, address="192.0.2.1")
            found.append(Result(trace, vantage, known, probe, (), 1, "done", observations=(seen,)))
    return sorted(found, key=lambda result: (result.site, result.vantage, result.trace_id))


def test_nine_urls_of_one_host_are_nine_rows_and_one_goes_by_its_host() -> None:
    found = list(found_in(results(TARGETS, "eu") + results(TARGETS, "na")))
    assert len(found) == 2 * len(TARGETS)
    asked = [(item, item.fingerprint.target) for item in found if item.vantage == "eu"]
    ours = {(item.site, item.verdicts["icw"].value, target.port, target.path) for item, target in asked}
    assert ours == {(name_of(target), 10 + n, target.port, target.path) for n, target in enumerate(TARGETS)}
    (item,) = found_in(results([Target("a.example", port=8080, path="/x")], "eu"))
    assert (item.site, item.fingerprint.target.host) == ("a.example", "a.example")
