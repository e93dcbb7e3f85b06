# SPDX-License-Identifier: MIT
"""The drawn internet: right marginals, planted differences, same seed same bytes, an oracle for every knob."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest

from configtron.lab.internet import server_pools, truth
from configtron.lab.internet import shares as cards
from configtron.lab.internet.draw import REGIONS, Internet, SiteServer, draw
from configtron.lab.internet.plants import CHANGES
from configtron.lab.internet.sites import BASELINE, prefix
from configtron.lab.internet.truth import KNOBS, Expectation, oracle
from configtron.lab.internet.world import shards, world
from configtron.model.errors import BadInput

SITES = [f"site{n}.example" for n in range(1000)]
NA = [region.name for region in REGIONS].index(BASELINE)


@pytest.fixture(scope="module", params=[1, 77])
def internet(request: pytest.FixtureRequest) -> Internet:
    return draw(request.param, SITES)


def shares(values: list[object]) -> dict[object, float]:
    return {value: 100 * n / len(values) for value, n in Counter(values).items()}


def at_baseline(internet: Internet) -> list[SiteServer]:
    return [site.servers[NA] for site in internet.sites]


@pytest.mark.parametrize(
    ("read", "table"),
    [
        (lambda s: s.http_version, {"http/1.1": 44.3, "h2": 55.7}),
        (lambda s: s.icw, {10: 62, 4: 20.5, 24: 5.3}),
        (lambda s: s.synack_rto_ms, {300: 9.2, 1000: 82.6, 3000: 8.2}),
        (lambda s: s.rwin_packets * s.advmss, {29200: 57.4, 14600: 8.2, 42780: 6.8}),
    ],
)
def test_marginals_of_all_sites_are_table_2(
    internet: Internet, read: Callable[[SiteServer], object], table: dict[object, float]
) -> None:
    found = shares([read(server) for server in at_baseline(internet)])
    assert {value: found[value] for value in table} == pytest.approx(table, abs=1.0)


@pytest.mark.parametrize(
    ("read", "table"),
    [
        (lambda p, s: s.max_concurrent_streams, {100: 44, 128: 56}),
        (lambda p, s: s.initial_window_size, {65536: 71, 65535: 15, 1048576: 14}),
        (lambda p, s: cards.FRAME_SIZE[p], {16777215: 81, 16384: 19}),
    ],
)
def test_marginals_of_h2_sites_are_table_2(
    internet: Internet, read: Callable[[str, SiteServer], object], table: dict[object, float]
) -> None:
    h2 = [(site.program, site.servers[NA]) for site in internet.sites if site.servers[NA].http_version == "h2"]
    assert shares([read(program, server) for program, server in h2]) == pytest.approx(table, abs=1.0)


def test_planted_sites_are_the_papers_share(internet: Internet) -> None:
    h2_count = sum(server.http_version == "h2" for server in at_baseline(internet))
    for knob, percent in cards.HETEROGENEITY.items():
        hosts = {plant.host for plant in internet.plants if plant.knob == knob}
        of = h2_count if knob.startswith("h2_") else len(SITES)
        assert len(hosts) == round(of * percent / 100), knob


def test_every_difference_is_planted_and_every_plant_differs(internet: Internet) -> None:
    differing = {
        (site.host, knob, region.name)
        for site in internet.sites
        for region, server in zip(internet.regions, site.servers, strict=True)
        for knob, change in CHANGES.items()
        if change.read(server) != change.read(site.servers[NA])
    }
    assert differing == {(plant.host, plant.knob, plant.region) for plant in internet.plants}
    assert all(plant.region != BASELINE and plant.value != plant.baseline for plant in internet.plants)


def test_a_planted_h2_difference_is_visible(internet: Internet) -> None:
    for plant in internet.plants:
        if plant.knob.startswith("h2_"):
            assert internet.server(plant.region, plant.host).http_version == "h2"


def test_no_address_twice_and_each_in_the_prefix_of_its_route(internet: Internet) -> None:
    addresses = [server.address for site in internet.sites for server in site.servers]
    assert len(addresses) == len(set(addresses)) == len(SITES) * len(REGIONS)
    for site in internet.sites:
        for server in site.servers:
            first, length = prefix(site.program, server.rto_min_ms, server.advmss, server.stack)
            assert ip_address(server.address) in ip_network(f"{first}/{length}")


def test_few_pages_are_short_and_the_others_outlast_any_window(internet: Internet) -> None:
    short = [site for site in internet.sites if site.servers[NA].page_bytes == cards.SHORT_PAGE_BYTES]
    assert 20 <= len(short) <= 30
    for site in internet.sites:
        for server in site.servers:
            assert (site in short and server.icw >= 10) or server.page_bytes > 100 * 1460


def test_only_nginx_announces_large_frames_and_no_program_is_missing(internet: Internet) -> None:
    assert {site.program for site in internet.sites} == {"nginx", "apache", "h2lib", "node"}
    for site in internet.sites:
        large = 16777215 in dict(server_pools.settings(site.program, site.servers[NA])).values()
        assert large == (site.program == "nginx")


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    one, again, other = draw(9, SITES[:60]), draw(9, SITES[:60]), draw(10, SITES[:60])
    assert draw(9, SITES[:60], REGIONS[:1]).plants == () != one.plants
    assert truth.to_json(one) == truth.to_json(again) != truth.to_json(other)
    assert world(one) == world(again)
    assert world(one).files != world(other).files


@pytest.mark.slow
def test_truth_survives_its_file(internet: Internet) -> None:
    assert truth.from_json(truth.to_json(internet)) == internet


def test_every_knob_has_an_expectation_everywhere(internet: Internet) -> None:
    for site in internet.sites[:100]:
        for region in internet.regions:
            expected = oracle(internet, region.name, site.host)
            assert tuple(sorted(expected)) == tuple(sorted(KNOBS))
            assert all(e.values or e.reason for e in expected.values())


@pytest.mark.parametrize(
    ("region", "synack_rto_ms", "rto_min_ms", "data_rto_s"),
    [
        ("na", 1000, 200, 0.22), ("eu", 1000, 200, 0.28), ("au", 1000, 200, 1.2), ("na", 1000, 50, 0.07),
        ("as", 300, 200, 0.75), ("au", 300, 200, 1.2), ("au", 1000, 1000, 1.4),
    ],
)  # fmt: skip
def test_data_rto_follows_the_kernel(region: str, synack_rto_ms: int, rto_min_ms: int, data_rto_s: float) -> None:
    small = draw(1, SITES[:1])
    server = replace(small.sites[0].servers[0], synack_rto_ms=synack_rto_ms, rto_min_ms=rto_min_ms)
    site = replace(small.sites[0], servers=(server,) * len(REGIONS))
    expected = oracle(replace(small, sites=(site,)), region, site.host)["data_rto"]
    assert expected.values == pytest.approx((data_rto_s,))


def test_table_2_windows_come_out_of_segments_and_mss() -> None:
    assert {20 * 1460, 10 * 1460, 31 * 1380, 9 * 1440} <= {n * mss for (n, mss), _ in cards.RWINS}


def test_expectations_admit_late_timers_and_lower_bounds_only_where_due() -> None:
    timer = Expectation((1.0,), tolerance=0.125, slack=0.02)
    assert timer.admits(1.0) and timer.admits(1.14) and not timer.admits(1.2) and not timer.admits(0.9)
    exact, bounded = Expectation((10,)), Expectation((10,), bound=True)
    assert not exact.admits(4, lower_bound=True) and not exact.admits(9)
    assert bounded.admits(4, lower_bound=True) and not bounded.admits(11, lower_bound=True) and bounded.admits(10)
    nothing = Expectation(reasons=("not-h2",))
    assert nothing.admits(None, reason="not-h2") and not exact.admits(None, reason="not-h2")
    assert not nothing.admits(None) and not nothing.admits(None, reason="no-h2")
    assert not Expectation(("h2",)).admits("http/1.1")


def test_shards_hold_every_site_once(internet: Internet) -> None:
    first, second = shards(internet, 2)
    assert sorted(first + second) == sorted(SITES) and abs(len(first) - len(second)) <= 1


def test_a_shard_has_its_own_addresses_and_shares_certificates(internet: Internet) -> None:
    whole, (first, _) = world(internet), shards(internet, 2)
    part = world(internet, first)
    assert set(part.settings) < set(whole.settings)
    certificates = {name: text for name, text in whole.files if name.startswith("tls/")}
    assert all(certificates[name] == text for name, text in part.files if name.startswith("tls/"))


def test_a_site_named_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="twice"):
        draw(1, ["a.example", "a.example"])
