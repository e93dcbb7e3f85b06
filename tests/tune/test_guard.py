# SPDX-License-Identifier: MIT
"""The guard refuses what it should, says why, and lets the rest pass."""

from __future__ import annotations

import pytest

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach, Rules
from configtron.tune.guard import UNFAIR, Bound, DriverReach, Limits, reach_text, refusals, unasked

CONTROLS = ("cubic", "reno", "vegas", "bbr", "htcp", "dctcp")
REACH = {
    "initcwnd": Reach("initcwnd", least=1, most=1000),
    "tcp_congestion_control": Reach("tcp_congestion_control", values=CONTROLS, refused=(("lp", "it needs ECN"),)),
    "resume_cwnd": Reach("resume_cwnd", least=4, most=65535),
    "resume_rtt": Reach("resume_rtt", least=1e-6, most=120), "min_rto": Reach("min_rto", least=0.001, most=120),
    "pacing": Reach("pacing", values=("pfifo_fast", "fq")), "max_pacing_rate": Reach("max_pacing_rate", least=1),
}  # fmt: skip
NO_LIMITS = Limits()


def reasons(limits: Limits = NO_LIMITS, refused: dict[str, str] | None = None, **settings: Value) -> list[str]:
    rules = Rules({"p": Profile("p", tuple(settings.items()))}, {"10.0.0.0/8": "p"})
    return list(refusals(rules, limits, DriverReach("route", REACH, refused or {})))


def test_a_driver_may_refuse_a_whole_profile_of_settings_that_it_takes() -> None:
    rules = Rules({"p": Profile("p", (("initcwnd", 30),)), "q": Profile("q")}, {"10.0.0.0/8": "p"})

    def unfit(profile: Profile) -> str:
        return f"profile {profile.name}: the kernel does not carry it" if profile.settings else ""

    reach = DriverReach("ebpf", REACH, {}, unfit)
    assert [*refusals(rules, NO_LIMITS, reach)] == ["profile p: the kernel does not carry it"]


@pytest.mark.parametrize(
    "settings",
    [
        {"initcwnd": 30}, {"initcwnd": 60, "pacing": "fq"}, {"initcwnd": 60, "max_pacing_rate": 10**6},
        {"min_rto": 0.2}, {"resume_cwnd": 640, "resume_rtt": 0.1},
        {"resume_cwnd": 100, "resume_rtt": 0.1, "initcwnd": 10}, {"tcp_congestion_control": "vegas"},
        {"tcp_congestion_control": "reno", "initcwnd": 1}, {},
    ],
)  # fmt: skip
def test_what_is_fair_passes(settings: dict[str, Value]) -> None:
    assert reasons(**settings) == []


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({"tcp_congestion_control": "bbr"}, "Ware"), ({"resume_cwnd": 641, "resume_rtt": 0.1}, "RFC 9959"),
        ({"resume_cwnd": 100, "resume_rtt": 0.1, "initcwnd": 11}, "RFC 9959"),
        ({"tcp_congestion_control": "dctcp"}, "RFC 8257"), ({"tcp_congestion_control": "htcp"}, "RFC 5033"),
        ({"initcwnd": 31}, "RFC 6928"), ({"initcwnd": 31, "pacing": "pfifo_fast"}, "RFC 6928"),
        ({"initcwnd": 101, "pacing": "fq"}, "1902.08937"), ({"min_rto": 0.02}, "RFC 6298"),
    ],
)  # fmt: skip
def test_what_is_unfair_is_refused_with_its_source_unless_allowed(settings: dict[str, Value], source: str) -> None:
    (line,) = reasons(**settings)
    assert "unfair to cubic" in line and source in line and "--allow-unfair" in line and "profile p" in line
    assert reasons(Limits(allow_unfair=True), **settings) == []


def test_every_rule_of_fairness_has_a_source_and_is_broken_by_something() -> None:
    tried: list[dict[str, Value]] = [
        {"tcp_congestion_control": "bbr"}, {"tcp_congestion_control": "dctcp"}, {"initcwnd": 31}, {"data_rto": 0.01},
        {"initcwnd": 101, "pacing": "fq"}, {"resume_cwnd": 641}, {"resume_cwnd": 640, "initcwnd": 11},
    ]  # fmt: skip
    for rule in UNFAIR:
        assert rule.source and any(rule.broken(settings) for settings in tried) and not rule.broken({}), rule.name


TIGHT = Limits({"initcwnd": Bound(4, 20), "tcp_congestion_control": Bound(values=("cubic",))})


@pytest.mark.parametrize(
    ("limits", "settings", "stated"),
    [
        (NO_LIMITS, {"initcwnd": 1001}, "out of reach of the driver route, which takes 1..1000"),
        (NO_LIMITS, {"priority": 1}, "out of reach of the driver route: global"),
        (Limits(allow_unfair=True), {"tcp_congestion_control": "lp"},
         "profile p: tcp_congestion_control=lp is out of reach of the driver route: it needs ECN"),
        (TIGHT, {"initcwnd": 21}, "beyond your bound, 4..20"),
        (TIGHT, {"initcwnd": 3}, "beyond your bound, 4..20"),
        (TIGHT, {"tcp_congestion_control": "reno"}, "beyond your bound, cubic"),
        (TIGHT, {"initcwnd": 20, "tcp_congestion_control": "cubic"}, ""),
        (Limits({"initcwnd": Bound(None, 20)}), {"initcwnd": 1}, ""),
        (Limits(max_prefixes=1), {}, ""),
        (Limits(max_prefixes=0), {}, "1 prefixes are more than --max-prefixes 0"),
    ],
)  # fmt: skip
def test_reach_bounds_and_size(limits: Limits, settings: dict[str, Value], stated: str) -> None:
    found = reasons(limits, {"priority": "global"}, **settings)
    assert stated in found[0] if stated else found == []


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (Reach("initcwnd", least=1, most=1000), "1..1000"), (Reach("min_rto", least=0.001), "0.001.."),
        (Reach("min_rto", most=120), "..120"), (Reach("pacing", values=("pfifo_fast", "fq")), "pfifo_fast, fq"),
        (Reach("mark"), "any number"),
    ],
)  # fmt: skip
def test_a_reach_in_words(reach: Reach, words: str) -> None:
    assert reach_text(reach) == words


@pytest.mark.parametrize(("lost", "refused"), [(1.1, False), (1.25, False), (1.6, True)])
@pytest.mark.parametrize("settings", [{"tcp_congestion_control": "bbr"}, {"initcwnd": 60}, {"initcwnd": 10}])
def test_measured_damage_decides_in_place_of_names(settings: dict[str, Value], lost: float, *, refused: bool) -> None:
    lines = reasons(Limits(damage={"p": lost}), **settings)
    assert bool(lines) == refused and all("1.60 bytes" in line and "--allow-unfair" in line for line in lines)
    assert reasons(Limits(damage={"p": lost}, allow_unfair=True), **settings) == []
    assert reasons(Limits(damage={"other": 1.0}), tcp_congestion_control="bbr"), "another profile's says nothing"


WIDE: dict[str, Value] = {"initcwnd": 64, "pacing": "fq"}


@pytest.mark.parametrize(
    ("limits", "settings", "stated"),
    [
        # a learner tries no wide window unasked, though a person may
        (NO_LIMITS, WIDE, "initcwnd=64 is outside what a learner may try unasked, 10..32; --bound initcwnd=10..64"),
        (NO_LIMITS, {"initcwnd": 33, "max_pacing_rate": 10**6}, "--bound initcwnd=10..33"),
        (Limits(allow_unfair=True, damage={"p": 1.0}), {"initcwnd": 9}, "--bound initcwnd=9..32"),
        (Limits({"initcwnd": Bound(2, 30)}), {"initcwnd": 1}, "unasked"),
        (Limits(allow_unfair=True), {"initcwnd": 10, "cwnd_clamp": 9}, "cwnd_clamp=9 is outside what a learner may"),
        (Limits(allow_unfair=True), {"initrwnd": 44}, "--bound initrwnd=44..2147483647"),
        (Limits({"cwnd_clamp": Bound(5, 99)}), {"cwnd_clamp": 5}, ""),
        (Limits({"initcwnd": Bound(1, 30)}), {"initcwnd": 1}, ""),
        (Limits({"initcwnd": Bound(1, 64)}), WIDE, ""),
        (Limits({"initcwnd": Bound(1, 40)}), WIDE, "unasked"),
        (Limits({"pacing": Bound(values=("fq",))}), WIDE, "unasked"),
        (Limits(allow_unfair=True), WIDE, ""),
        (Limits(damage={"p": 1.25}), WIDE, ""),
        (Limits(damage={"p": 3.3}), WIDE, "unasked"),
        (Limits(damage={"other": 1.0}), WIDE, "unasked"),
        # usual windows
        (NO_LIMITS, {}, ""),
        (NO_LIMITS, {"initcwnd": 32}, ""),
        (NO_LIMITS, {"initcwnd": 30, "pacing": "fq"}, ""),
        (NO_LIMITS, {"resume_cwnd": 400}, ""),
    ],
)
def test_what_a_learner_may_try(limits: Limits, settings: dict[str, Value], stated: str) -> None:
    why = unasked(Profile("p", tuple(settings.items())), limits)
    assert stated in why and bool(why) == bool(stated)
    assert not (stated and limits is NO_LIMITS and reasons(**settings))
