# SPDX-License-Identifier: MIT
"""The table of troubles: its shares hold, what it sets is right, and what it does not touch keeps its truth."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields, replace

import pytest

from configtron.lab import truth
from configtron.lab.afflict import troubled
from configtron.lab.internet import Internet, draw
from configtron.lab.sites import PROGRAM_OCTET, Server, Site
from configtron.lab.stacks import NAMED
from configtron.lab.troubles import BY_NAME, TROUBLES, Honest, Trouble
from configtron.lab.truth import KNOBS, oracle
from rigs import ROOT

SITES = [f"site{n}.example" for n in range(1000)]


@pytest.fixture(scope="module")
def troublesome() -> Internet:
    return draw(5, SITES, troubles=True)


def trouble_of(site: Site) -> str:
    (name,) = {server.trouble for server in site.servers if server.trouble} or {""}
    return name


def test_names_are_distinct_and_some_sites_have_none() -> None:
    assert len(BY_NAME) == len(TROUBLES)
    assert sum(trouble.share for trouble in TROUBLES) <= 80


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_a_row_sets_what_there_is_and_speaks_of_known_knobs(trouble: Trouble) -> None:
    assert {name for name, _ in trouble.fields} <= {field.name for field in fields(Server)}
    assert trouble.program in ("", *PROGRAM_OCTET) and set(trouble.only) <= set(PROGRAM_OCTET)
    assert trouble.note and trouble.share > 0
    for line in trouble.honest:
        assert any(line.fits(knob) for knob in KNOBS), line
        assert line.values != () or line.reasons, "nothing to find, and no reason"


def test_the_page_names_every_trouble_and_stack() -> None:
    """docs/troubles.md: a row each, with the same words; amounts stand together."""
    rows = dict(re.findall(r"^\| `([\w.-]+)` \|.*?\| ([^|]*) \|$", (ROOT / "docs" / "troubles.md").read_text(), re.M))
    notes = {trouble.name.partition(":")[0]: trouble.note for trouble in TROUBLES}
    assert {name: rows.get(name) for name in notes} == notes
    assert set(rows) == set(notes) | {stack.name for stack in NAMED}


def test_without_troubles_there_are_none() -> None:
    assert {trouble_of(site) for site in draw(5, SITES[:200]).sites} == {""}


def test_shares_are_the_tables(troublesome: Internet) -> None:
    found = Counter(trouble_of(site) for site in troublesome.sites)
    for trouble in TROUBLES:
        assert found[trouble.name] == pytest.approx(trouble.share * 10, abs=2), trouble.name


def test_planted_sites_and_short_pages_are_left_alone(troublesome: Internet) -> None:
    calm = draw(5, SITES)
    assert troublesome.plants == calm.plants
    planted = {plant.host for plant in calm.plants}
    for before, after in zip(calm.sites, troublesome.sites, strict=True):
        if after.host in planted or before.servers[0].page_bytes < 1000:
            assert not trouble_of(after)


def test_troubles_survive_their_file(troublesome: Internet) -> None:
    assert truth.from_json(truth.to_json(troublesome)) == troublesome


def test_every_knob_still_has_an_expectation(troublesome: Internet) -> None:
    for site in troublesome.sites:
        expected = oracle(troublesome, "na", site.host)
        assert all(e.values or e.reason for e in expected.values()), trouble_of(site)


def test_a_site_that_moves_follows_its_new_program() -> None:
    site = next(site for site in draw(5, SITES[:50]).sites if site.program == "nginx")
    moved = troubled(site, Trouble("x", 1, "moves", fields=(("icw", 3),), program="h2lib"))
    assert moved.program == "h2lib" and {s.synack_retries for s in moved.servers} == {2}
    assert {s.icw for s in moved.servers} == {3} and not any(s.nopush for s in moved.servers)


def test_a_trouble_excuses_only_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Trouble(
        "quiet", 1, "says little",
        honest=(Honest("icw data_rto", bound=True, reasons=("no-data", "tls-*")), Honest("h2_*", values=())),
    )  # fmt: skip
    monkeypatch.setitem(BY_NAME, "quiet", row)
    internet = draw(5, SITES[:50])
    site = internet.sites[0]
    quiet = replace(site, servers=tuple(replace(server, trouble="quiet") for server in site.servers))
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
