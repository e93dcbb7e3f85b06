# SPDX-License-Identifier: MIT
"""The table of misbehaving: each row is something the server can do, and its truth is what goes on the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configtron.lab.internet import server_pools
from configtron.lab.internet.draw import draw
from configtron.lab.internet.impairments import BY_NAME
from configtron.lab.internet.misbehaving import (
    GREASE_SETTINGS,
    MISBEHAVIOURS,
    PLAIN,
    SECOND_VALUE_MORE,
    goaway,
    later,
    named,
    names,
    row,
    settings,
    versions,
)
from configtron.lab.internet.truth import oracle
from configtron.lab.internet.world import world
from configtron.lab.servers.answers import ANSWERS
from configtron.lab.servers.sealed import VERSIONS
from tests.support.rules import offenders

SITES = [f"site{n}.example" for n in range(1000)]
PAIRS = ((3, 100), (2, 0), (4, 65536))


def is_served(name: str) -> None:
    misbehaviour = MISBEHAVIOURS[name]
    assert misbehaviour.answer in ANSWERS and set(misbehaviour.versions) <= set(VERSIONS) and ":" not in name
    assert misbehaviour.accept in ("serve", "reset", "silent", "banner")
    assert misbehaviour.at_tls in ("serve", "clear", "reset", "close", "silent")
    assert misbehaviour.leaves in ("", "greeting", "request", "mute")
    assert (misbehaviour.frames is None) or misbehaviour.http_version == "h2"
    assert misbehaviour != PLAIN and misbehaviour.note


def test_a_row_is_something_the_server_does() -> None:
    assert offenders(is_served, MISBEHAVIOURS) == {}


def test_every_answer_is_given_by_a_row() -> None:
    assert {misbehaviour.answer for misbehaviour in (*MISBEHAVIOURS.values(), PLAIN)} == set(ANSWERS)


def test_names_lead_back_to_rows_and_amounts() -> None:
    assert len(set(names())) == len(names()) == sum(len(row.amounts) for row in MISBEHAVIOURS.values())
    assert named("think:0.3") == (MISBEHAVIOURS["think"], 0.3)
    assert named("fit-less-one") == (MISBEHAVIOURS["fit-less-one"], -1)
    assert named("") == named("paced") == (PLAIN, 0.0)
    assert set(names()) <= set(BY_NAME)


def test_settings_are_changed_as_the_row_says() -> None:
    assert settings("", PAIRS) == settings("h2-later", PAIRS) == settings("h2-goaway:0", PAIRS) == PAIRS
    assert settings("h2-grease", PAIRS) == (GREASE_SETTINGS[0], *PAIRS, *GREASE_SETTINGS[1:])
    assert settings("h2-twice", PAIRS) == (*PAIRS, (3, 100 + SECOND_VALUE_MORE))
    assert settings("h2-push", PAIRS) == ((3, 100), (4, 65536), (2, 1))
    assert settings("h2-empty", PAIRS) == ()


def test_what_comes_after_the_first_settings() -> None:
    assert later("h2-later", PAIRS) == (((3, 7),),) and later("", PAIRS) == later("h2-grease", PAIRS) == ()
    assert {goaway(f"{name}:11", PAIRS) for name in ("h2-goaway", "h2-goaway-asked", "h2-goaway-first")} == {11}
    assert goaway("h2-later", PAIRS) is None
    assert versions("tls-1.0") == ("1.0",) and versions("loop") == ("1.2", "1.3")


def test_the_oracle_knows_the_frames() -> None:
    net = draw(4, SITES, impairments=True)
    by_impairment = {site.servers[0].impairment: oracle(net, "na", site.host) for site in net.sites}
    assert by_impairment["h2-goaway:11"]["h2_goaway"].values == ("enhance-your-calm",)
    assert by_impairment["h2-goaway-first:13"]["h2_goaway"].values == ("http-1-1-required",)
    assert by_impairment["h2-goaway-first:13"]["h2_settings"].values == ()
    assert by_impairment["h2-later"]["h2_later_settings"].values == ((((3, 7),),),)
    assert by_impairment["h2-push"]["h2_goaway"].values == by_impairment["h2-push"]["h2_later_settings"].values == ()
    assert by_impairment["h2-grease"]["h2_reserved"].values == (("grease", 0x4242),)
    assert by_impairment["tls-1.0"]["tls_versions"].values == (("1.0",),)


def test_a_window_update_follows_the_settings() -> None:
    greeting = row("h2-goaway:1", "h2", PAIRS, 7)["greeting"]
    assert greeting == (("settings", PAIRS), ("window-update", 7), ("goaway", 1))
    assert row("h2-no-settings", "h2", PAIRS, 7)["greeting"] == ()
    assert row("h2-goaway-asked:1", "h2", PAIRS, 7)["on_request"] == (("goaway", 1),)


def test_alpn_is_the_servers_version() -> None:
    plain = {"minimum": "1.2", "maximum": "1.3", "alpn": ["h2", "http/1.1"], "alert": 0}
    assert row("", "h2", PAIRS, 0)["tls"] == plain
    assert row("", "http/1.1", PAIRS, 0)["tls"]["alpn"] == ["http/1.1"]  # type: ignore[index]
    assert row("tls-no-alpn", "h2", PAIRS, 0)["tls"]["alpn"] == []  # type: ignore[index]


def test_the_oracle_says_what_the_server_announces() -> None:
    net = draw(4, SITES, impairments=True)
    seen = set()
    for site in net.sites:
        impairment = site.servers[0].impairment
        misbehaviour, _ = named(impairment)
        if misbehaviour is PLAIN:
            continue
        seen.add(impairment)
        expected = oracle(net, "na", site.host)
        if misbehaviour.secure or misbehaviour.unsettled or site.servers[0].http_version != "h2":
            assert expected["h2_settings"].values == () and expected["h2_enable_push"].values == ()
        else:
            assert expected["h2_settings"].values == (server_pools.settings("odd", site.servers[0]),)
        if misbehaviour.secure:
            assert expected["http_version"].values == ()
        assert expected["icw"].bound or not misbehaviour.bound
        assert expected["synack_rto"].reasons == (), "nothing that is sent later excuses the handshake"
    assert seen == set(names())


def test_its_server_has_a_row_of_its_configuration() -> None:
    raised = world(draw(4, SITES[:200], impairments=True))
    assert "odd" in {pool.program for pool in raised.server_pools}
    assert '"answer"' in dict(raised.files)["odd.json"] and '"alert"' in dict(raised.files)["odd.json"]


@pytest.mark.parametrize(
    ("impairment", "icw", "region", "windows"),
    [
        ("think:0.3", 45, "na", (22,)), ("think:0.3", 10, "na", (10,)), ("think:1", 45, "na", (10,)),
        ("think:3", 24, "eu", (10,)), ("think:0.3", 45, "au", (45,)), ("think-body:3", 45, "na", (45,)),
    ],
)  # fmt: skip
def test_a_server_that_thinks_shrinks_a_large_window(
    impairment: str, icw: int, region: str, windows: tuple[int, ...]
) -> None:
    small = draw(1, SITES[:1])
    server = replace(
        small.sites[0].servers[0], icw=icw, impairment=impairment, rto_min_ms=200, synack_rto_ms=1000,
        congestion_control="cubic",
    )  # fmt: skip
    site = replace(small.sites[0], program="odd", servers=(server,) * 5)
    assert set(oracle(replace(small, sites=(site,)), region, site.host)["icw"].values) == set(windows)
