# SPDX-License-Identifier: MIT
"""The guard refuses what it should, says why, and lets the rest pass."""

from __future__ import annotations

import pytest

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach, Rules
from configtron.tune.guard import UNFAIR, Bound, DriverReach, Limits, refusals, unasked

REACH = {
    "initcwnd": Reach("initcwnd", least=1, most=1000),
    "tcp_congestion_control": Reach(
        "tcp_congestion_control", values=("cubic", "reno", "vegas", "bbr", "htcp", "dctcp")
    ),
    "resume_cwnd": Reach("resume_cwnd", least=4, most=65535),
    "resume_rtt": Reach("resume_rtt", least=1e-6, most=120),
    "min_rto": Reach("min_rto", least=0.001, most=120),
    "pacing": Reach("pacing", values=("pfifo_fast", "fq")),
    "max_pacing_rate": Reach("max_pacing_rate", least=1),
}


NO_LIMITS = Limits()


def reasons(limits: Limits = NO_LIMITS, refused: dict[str, str] | None = None, **settings: Value) -> list[str]:
    rules = Rules({"p": Profile("p", tuple(settings.items()))}, {"10.0.0.0/8": "p"})
    return list(refusals(rules, limits, DriverReach("route", REACH, refused or {})))


def test_a_value_refused_by_name_is_refused_with_its_reason() -> None:
    reach = Reach("tcp_congestion_control", values=("cubic", "dctcp"), refused=(("dctcp", "it needs ECN"),))
    assert reach.takes("cubic") and not reach.takes("dctcp")
    rules = Rules({"p": Profile("p", (("tcp_congestion_control", "dctcp"),))}, {"10.0.0.0/8": "p"})
    allowed = Limits(allow_unfair=True)
    (words,) = refusals(rules, allowed, DriverReach("kmod", {"tcp_congestion_control": reach}, {}))
    assert words == "profile p: tcp_congestion_control=dctcp is out of reach of the driver kmod: it needs ECN"


@pytest.mark.parametrize(
    "settings",
    [
        {"initcwnd": 30},
        {"initcwnd": 60, "pacing": "fq"},
        {"initcwnd": 60, "max_pacing_rate": 10**6},
        {"min_rto": 0.2},
        {"resume_cwnd": 640, "resume_rtt": 0.1},
        {"resume_cwnd": 100, "resume_rtt": 0.1, "initcwnd": 10},
        {"tcp_congestion_control": "vegas"},
        {"tcp_congestion_control": "reno", "initcwnd": 1},
        {},
    ],
)
def test_what_is_fair_passes(settings: dict[str, Value]) -> None:
    assert reasons(**settings) == []


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({"tcp_congestion_control": "bbr"}, "Ware"),
        ({"resume_cwnd": 641, "resume_rtt": 0.1}, "RFC 9959"),
        ({"resume_cwnd": 100, "resume_rtt": 0.1, "initcwnd": 11}, "RFC 9959"),
        ({"tcp_congestion_control": "dctcp"}, "RFC 8257"),
        ({"tcp_congestion_control": "htcp"}, "RFC 5033"),
        ({"initcwnd": 31}, "RFC 6928"),
        ({"initcwnd": 31, "pacing": "pfifo_fast"}, "RFC 6928"),
        ({"initcwnd": 101, "pacing": "fq"}, "1902.08937"),
        ({"min_rto": 0.02}, "RFC 6298"),
    ],
)
def test_what_is_unfair_is_refused_with_its_source_unless_allowed(settings: dict[str, Value], source: str) -> None:
    (line,) = reasons(**settings)
    assert "unfair to cubic" in line and source in line and "--allow-unfair" in line and "profile p" in line
    assert reasons(Limits(allow_unfair=True), **settings) == []


def test_every_rule_of_fairness_has_a_source_and_is_broken_by_something() -> None:
    tried: list[dict[str, Value]] = [
        {"tcp_congestion_control": "bbr"},
        {"tcp_congestion_control": "dctcp"},
        {"initcwnd": 31},
        {"initcwnd": 101, "pacing": "fq"},
        {"data_rto": 0.01},
        {"resume_cwnd": 641},
        {"resume_cwnd": 640, "initcwnd": 11},
    ]
    for rule in UNFAIR:
        assert rule.source and [settings for settings in tried if rule.broken(settings)], rule.name
        assert not rule.broken({}), rule.name


def test_reach_and_bounds() -> None:
    assert "out of reach of the driver route, which takes 1..1000" in reasons(initcwnd=1001)[0]
    assert "out of reach of the driver route: global" in reasons(refused={"priority": "global"}, priority=1)[0]
    tight = Limits({"initcwnd": Bound(4, 20), "tcp_congestion_control": Bound(values=("cubic",))})
    assert reasons(tight, initcwnd=20, tcp_congestion_control="cubic") == []
    assert "beyond your bound, 4..20" in reasons(tight, initcwnd=21)[0]
    assert "beyond your bound, 4..20" in reasons(tight, initcwnd=3)[0]
    assert "beyond your bound, cubic" in reasons(tight, tcp_congestion_control="reno")[0]
    assert reasons(Limits({"initcwnd": Bound(None, 20)}), initcwnd=1) == []


def test_size() -> None:
    assert reasons(Limits(max_prefixes=1)) == []
    assert "1 prefixes are more than --max-prefixes 0" in reasons(Limits(max_prefixes=0))[0]


@pytest.mark.parametrize(("lost", "refused"), [(1.1, False), (1.25, False), (1.6, True)])
@pytest.mark.parametrize("settings", [{"tcp_congestion_control": "bbr"}, {"initcwnd": 60}, {"initcwnd": 10}])
def test_measured_damage_decides_in_place_of_names(settings: dict[str, Value], lost: float, *, refused: bool) -> None:
    lines = reasons(Limits(damage={"p": lost}), **settings)
    assert bool(lines) == refused and all("1.60 bytes" in line and "--allow-unfair" in line for line in lines)
    assert reasons(Limits(damage={"p": lost}, allow_unfair=True), **settings) == []
    assert reasons(Limits(damage={"other": 1.0}), tcp_congestion_control="bbr"), "another profile's says nothing"


@pytest.mark.parametrize("settings", [{"initcwnd": 64, "pacing": "fq"}, {"initcwnd": 33, "max_pacing_rate": 10**6}])
def test_a_learner_tries_no_wide_window_unasked_and_a_person_may(settings: dict[str, Value]) -> None:
    profile = Profile("p", tuple(settings.items()))
    why = unasked(profile, NO_LIMITS)
    assert f"initcwnd={settings['initcwnd']} is more than a learner may try unasked, 32" in why
    assert f"--bound initcwnd=1..{settings['initcwnd']}" in why and reasons(**settings) == []


@pytest.mark.parametrize(
    ("limits", "may"),
    [
        (Limits({"initcwnd": Bound(1, 64)}), True),
        (Limits({"initcwnd": Bound(1, 40)}), False),
        (Limits({"pacing": Bound(values=("fq",))}), False),
        (Limits(allow_unfair=True), True),
        (Limits(damage={"p": 1.25}), True),
        (Limits(damage={"p": 3.3}), False),
        (Limits(damage={"other": 1.0}), False),
    ],
)
def test_what_the_operator_named_or_measured_may_be_tried(limits: Limits, *, may: bool) -> None:
    assert (unasked(Profile("p", (("initcwnd", 64), ("pacing", "fq"))), limits) == "") == may


@pytest.mark.parametrize("settings", [{}, {"initcwnd": 32}, {"initcwnd": 30, "pacing": "fq"}, {"resume_cwnd": 400}])
def test_a_learner_may_try_usual_windows(settings: dict[str, Value]) -> None:
    assert unasked(Profile("p", tuple(settings.items())), NO_LIMITS) == ""
