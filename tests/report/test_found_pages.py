# SPDX-License-Identifier: MIT
"""Pages and ports of one host that were named apart are found apart."""

from __future__ import annotations

from dataclasses import replace

from configtron.model.nouns import Observation, Target
from configtron.model.records import Result
from configtron.probe.target_session import name_of
from configtron.report.target_results import found_in

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


def test_nine_urls_of_one_host_are_nine_rows() -> None:
    found = list(found_in(results(TARGETS, "eu") + results(TARGETS, "na")))
    assert len(found) == 2 * len(TARGETS)
    asked = [(item, item.fingerprint.target) for item in found if item.vantage == "eu"]
    ours = {(item.site, item.verdicts["icw"].value, target.port, target.path) for item, target in asked}
    assert ours == {(name_of(target), 10 + n, target.port, target.path) for n, target in enumerate(TARGETS)}


def test_one_url_goes_by_its_host() -> None:
    (item,) = found_in(results([Target("a.example", port=8080, path="/x")], "eu"))
    assert (item.site, item.fingerprint.target.host) == ("a.example", "a.example")
