# SPDX-License-Identifier: MIT
"""A fleet of which one agent's driver lacks Careful Resume: the others resume, and chances stay true on each."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest

from configtron.fleet.manager_session import ManagerRemark, ManagerSession
from configtron.fleet.messages import MOST_REFUSED, AgentHello, BoundForm, ReachForm, frame, refused_count
from configtron.intake.end_reports import EndReports, state_of
from configtron.intake.pageloads.plan_book import DrawnArm, PlanBook
from configtron.learner.window_classes import RESUME, SHARES, PathClass, mix_of
from configtron.model.draw import draw, unit_of
from configtron.model.fleet import ARM, NOT_HERE, FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.agent_limits import barred_by, limits_of_hello
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.drawing import refused_entries
from tests.support.applied_maps import KEY, MAP, NS, START_NS, Recorded, loaded, made
from tests.support.end_state_records import record

FAR = PathClass((0, 20, 15, 25, 20), 320, 80.0)
PREFIX, CLIENTS = "198.51.100.0/24", [f"198.51.100.{at}" for at in range(256)]
INITCWND = ReachForm("initcwnd", 1.0, 1000.0)
RESUMES = (ReachForm("resume_cwnd", 4.0, 5e5), ReachForm("resume_rtt", 1e-3))


def strategies(shares: dict[str, float], kind: PathClass = FAR) -> FleetMap:
    mix = mix_of(kind, shares)
    profiles = {one.name: one for one in kind.profiles.values() if one.name in dict(mix)}
    return replace(MAP, profiles=profiles, mixes={"far": mix}, prefixes={PREFIX: "far"}, holdback=3277)


class Lacking(Recorded):
    """A kernel without Careful Resume."""

    def barred(self, profile: Profile) -> str:
        return "resume_cwnd is out of reach" if "resume_cwnd" in dict(profile.settings) else ""


def given(kernel: Recorded, fleet_map: FleetMap) -> tuple[Applier, dict[str, DrawnArm]]:
    """Return an applier with a map in force, and what each client's connection is described as: the draw is the
    kernel's, by the plan and the mixes that were loaded."""
    one, book = Applier(kernel, KEY.verify_key, Rules()), PlanBook()
    assert loaded(one, made(fleet_map)).result.error == ""
    one.activations.pass_on(book, 0)
    book.clocks(50 * NS, START_NS + 50 * NS)
    found = {}
    ((plan, mixes),) = kernel.plans
    for client in CLIENTS:
        drawn, opened = draw(plan, mixes["far"], unit_of(client)), record().opened
        profile = "" if drawn.arm is None else mixes["far"].profiles[drawn.arm]
        assert profile == "" or profile in kernel.rules.profiles
        opened = opened._replace(class_name="far", arm=drawn.arm, held=drawn.held, profile=profile,
                                 epoch=plan.epoch, start_ns=50 * NS)  # fmt: skip
        found[client] = book.describe(opened, ip_address(client).packed)
    return one, found


def test_the_draw_is_the_same_on_both_agents_and_what_was_not_applied_is_not_recorded() -> None:
    fleet_map = strategies(SHARES)
    (_, able), (_, lacking) = given(Recorded(draws=True), fleet_map), given(Lacking(draws=True), fleet_map)
    at = [name for name, _ in fleet_map.mixes["far"]].index("resume-320-80")
    resumed = {client for client, one in able.items() if one.arm == at}
    assert 10 < len(resumed) < 50 and all(able[one].profile == "resume-320-80" for one in resumed)
    for client in CLIENTS:
        mine, theirs = able[client], lacking[client]
        assert (mine.arm, mine.held, mine.propensity) == (theirs.arm, theirs.held, theirs.propensity)
        if client in resumed:
            assert (theirs.profile, theirs.doubt, mine.doubt) == (NOT_HERE, NOT_HERE, "")
        else:
            assert theirs == mine and not theirs.doubt
    # the arms that teach have their chances; together with the one that does not they are all clients
    chances = {one.arm: one.propensity for one in lacking.values()}
    assert sum(chance or 0.0 for chance in chances.values()) == pytest.approx(1.0)


def test_no_end_of_a_connection_that_drew_it_counts_for_a_strategy() -> None:
    _, lacking = given(Lacking(draws=True), strategies(SHARES))
    one = next(one for one in lacking.values() if one.profile == NOT_HERE)
    ends = EndReports(lambda opened, client: one, True)
    ends.take(record()._replace(opened=record().opened._replace(profile=NOT_HERE)), 0)
    (report,) = ends.reports()
    assert state_of(report)["strategy"] == "other"


def test_the_driver_is_asked_for_no_profile_that_it_lacks() -> None:
    kernel = Lacking(draws=True)
    given(kernel, strategies(SHARES))
    assert not any(kernel.barred(one) for one in kernel.rules.profiles.values())
    assert kernel.rules.profiles[NOT_HERE].settings == () and kernel.rules.prefixes == {PREFIX: "far"}


def test_a_class_in_which_nothing_else_is_drawn_keeps_default() -> None:
    kernel = Lacking(draws=True)
    one = Applier(kernel, KEY.verify_key, Rules())
    loaded(one, made(strategies({RESUME: 1.0})))
    assert kernel.rules.prefixes == {} and kernel.plans[-1][1] == {}


def test_prefixes_are_drawn_alike_where_the_kernel_does_not() -> None:
    kernel = Lacking()
    one = Applier(kernel, KEY.verify_key, Rules())
    prefixes = {f"198.51.{at}.0/24": "far" for at in range(100)}
    loaded(one, made(replace(strategies(SHARES), prefixes=prefixes)))
    assert one.drawing is not None
    named = {
        prefix: one.drawing.mixes["far"].profiles[arm]
        for prefix in prefixes
        if (arm := one.drawing.dated(prefixes, 0).of_prefix(prefix).arm) is not None
    }  # type: ignore[misc, union-attr]
    absent = [prefix for prefix, name in named.items() if name == NOT_HERE]
    assert absent and not any(prefix in kernel.rules.prefixes for prefix in absent)


def test_it_is_named_and_no_refusal_of_the_map() -> None:
    """A share of refused entries suspends a roll-out; a driver that lacks a setting is no reason to."""
    found = loaded(Applier(Lacking(draws=True), KEY.verify_key, Rules()), made(strategies(SHARES))).result
    assert found.refused == ((f"{ARM}resume-320-80", "Default here: resume_cwnd is out of reach"),)
    assert refused_count(found.refused, found.omitted) == 0 and found.entries == 1
    session = ManagerSession("m", 1, {"k": "web1"})
    session.receive(b"c", "k", frame(AgentHello("x", "1")), 0.0, START_NS)
    remarks = [one.text for one in session.receive(b"c", "k", frame(found), 1.0, START_NS)
               if isinstance(one, ManagerRemark)]  # fmt: skip
    assert remarks == ["agent web1 has Default in place of 1 profiles of map 1.1, which its driver lacks, e.g."
                       " resume-320-80"]  # fmt: skip
    many = {f"p{at}": Profile(f"p{at}", (("initcwnd", 99),)) for at in range(MOST_REFUSED + 5)}
    listed, omitted = refused_entries(many | {"r": FAR.profiles[RESUME]}, dict.fromkeys([*many, "r"], "no"), {})
    assert refused_count(listed, omitted) == MOST_REFUSED + 5 and not any(name.startswith(ARM) for name, _ in listed)


@pytest.mark.parametrize(
    ("hellos", "why"),
    [
        ({"a": (INITCWND, *RESUMES), "b": (INITCWND,)}, ""),
        ({"a": (INITCWND,), "b": (INITCWND,)}, "agent a"),
        ({"a": (INITCWND, *RESUMES), "b": ()}, ""),
        ({"a": (), "b": (INITCWND,)}, ""),
    ],
)
def test_a_manager_bars_what_no_driver_has(hellos: dict[str, tuple[ReachForm, ...]], why: str) -> None:
    limits = {name: limits_of_hello(AgentHello("x", "1", reaches=reaches)) for name, reaches in hellos.items()}
    resumes = FAR.profiles[RESUME]
    assert barred_by(limits, resumes, True).startswith(why) and bool(barred_by(limits, resumes, True)) == bool(why)
    assert not barred_by({}, resumes), "no agent has joined"
    # what is not optional is barred by one, and so is what an operator's bound or the guard refuses
    paced = Profile("paced", (("pacing", "fq"),))
    assert bool(barred_by(limits, paced)) == any(hellos.values())
    bounded = AgentHello("x", "1", reaches=(INITCWND, *RESUMES), bounds=(BoundForm("resume_cwnd", 4.0, 100.0),))
    assert "agent c" in barred_by(limits | {"c": limits_of_hello(bounded)}, resumes)
    assert barred_by(limits, PathClass((0,) * 5, 1280, 80.0).profiles[RESUME])
