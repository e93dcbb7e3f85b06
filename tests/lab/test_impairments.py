# SPDX-License-Identifier: MIT
"""The table of impairments: its shares hold, what it sets is right, and what it does not touch keeps its truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from configtron.lab.internet import truth
from configtron.lab.internet.draw import Internet, draw
from configtron.lab.internet.impair import impaired
from configtron.lab.internet.impairments import BY_NAME, IMPAIRMENTS, Allowance, Impairment
from configtron.lab.internet.sites import PROGRAM_OCTET, Site, SiteServer
from configtron.lab.internet.truth import KNOBS, oracle
from tests.support.rules import offenders

SITES = [f"site{n}.example" for n in range(1000)]


@pytest.fixture(scope="module")
def impaired_internet() -> Internet:
    return draw(5, SITES, impairments=True)


def impairment_of(site: Site) -> str:
    (name,) = {server.impairment for server in site.servers if server.impairment} or {""}
    return name


def test_names_are_distinct_and_some_sites_have_none() -> None:
    assert len(BY_NAME) == len(IMPAIRMENTS)
    assert sum(impairment.share for impairment in IMPAIRMENTS) <= 80


def is_known(impairment: Impairment) -> None:
    assert {name for name, _ in impairment.fields} <= {field.name for field in fields(SiteServer)}
    assert impairment.program in ("", *PROGRAM_OCTET) and set(impairment.only) <= set(PROGRAM_OCTET)
    assert impairment.note and impairment.share > 0
    for line in impairment.allowed:
        assert any(line.fits(knob) for knob in KNOBS), line
        assert line.values != () or line.reasons, "nothing to find, and no reason"


def test_a_row_sets_what_there_is_and_speaks_of_known_knobs() -> None:
    assert offenders(is_known, IMPAIRMENTS, lambda impairment: impairment.name) == {}


def test_without_impairments_there_are_none() -> None:
    assert {impairment_of(site) for site in draw(5, SITES[:200]).sites} == {""}


def test_shares_are_the_tables(impaired_internet: Internet) -> None:
    found = Counter(impairment_of(site) for site in impaired_internet.sites)
    for impairment in IMPAIRMENTS:
        assert found[impairment.name] == pytest.approx(impairment.share * 10, abs=2), impairment.name


def test_planted_sites_and_short_pages_are_left_alone(impaired_internet: Internet) -> None:
    calm = draw(5, SITES)
    assert impaired_internet.plants == calm.plants
    planted = {plant.host for plant in calm.plants}
    for before, after in zip(calm.sites, impaired_internet.sites, strict=True):
        if after.host in planted or before.servers[0].page_bytes < 1000:
            assert not impairment_of(after)


@pytest.mark.slow
def test_impairments_survive_their_file(impaired_internet: Internet) -> None:
    assert truth.from_json(truth.to_json(impaired_internet)) == impaired_internet


def test_every_knob_still_has_an_expectation(impaired_internet: Internet) -> None:
    for site in impaired_internet.sites:
        expected = oracle(impaired_internet, "na", site.host)
        assert all(e.values or e.reason for e in expected.values()), impairment_of(site)


def test_a_site_that_moves_follows_its_new_program() -> None:
    site = next(site for site in draw(5, SITES[:50]).sites if site.program == "nginx")
    moved = impaired(site, Impairment("x", 1, "moves", fields=(("icw", 3),), program="h2lib"))
    assert moved.program == "h2lib" and {s.synack_retries for s in moved.servers} == {2}
    assert {s.icw for s in moved.servers} == {3} and not any(s.nopush for s in moved.servers)


def test_an_impairment_excuses_only_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Impairment(
        "quiet", 1, "says little",
        allowed=(Allowance("icw data_rto", bound=True, reasons=("no-data", "tls-*")), Allowance("h2_*", values=())),
    )  # fmt: skip
    monkeypatch.setitem(BY_NAME, "quiet", row)
    internet = draw(5, SITES[:50])
    site = internet.sites[0]
    quiet = replace(site, servers=tuple(replace(server, impairment="quiet") for server in site.servers))
    before = oracle(internet, "na", site.host)
    after = oracle(replace(internet, sites=(quiet,)), "na", site.host)
    assert {knob for knob in KNOBS if before[knob] != after[knob]} <= {
        "icw", "data_rto", *(knob for knob in KNOBS if knob.startswith("h2_")),
    }  # fmt: skip
    icw, honest = before["icw"].values[0], after["icw"]
    assert honest.admits(icw) and honest.admits(1, lower_bound=True) and not honest.admits(None, reason="refused")
    assert honest.admits(None, reason="no-data") and honest.admits(None, reason="tls-alert:close")
    assert not before["icw"].admits(None, reason="no-data")
    assert after["h2_settings"].values == ()
