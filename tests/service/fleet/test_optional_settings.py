# SPDX-License-Identifier: MIT
"""A fleet of which one agent's driver lacks Careful Resume: the others resume, and chances stay true on each."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from nacl.signing import SigningKey

from configtron.fleet.manager_session import ManagerRemark, ManagerSession
from configtron.fleet.messages import MOST_REFUSED, AgentHello, SpanForm, frame, refused_count
from configtron.intake.end_reports import EndReports, state_of
from configtron.intake.pageloads.plan_book import DrawnArm, PlanBook
from configtron.learner.window_classes import RESUME, SHARES, PathClass, mix_of
from configtron.model.draw import draw, unit_of
from configtron.model.fleet import ARM, NOT_HERE
from configtron.model.nouns import Profile
from configtron.service.fleet.agent_limits import barred_by, limits_of_hello
from configtron.service.fleet.drawing import refused_entries
from tests.support.applied_maps import NS, START_NS, Recorded, Trial
from tests.support.end_state_records import record

FAR = PathClass((0, 20, 15, 25, 20), 320, 80.0)
PREFIX, CLIENTS = "198.51.100.0/24", [f"198.51.100.{at}" for at in range(256)]
INITCWND = SpanForm("initcwnd", 1.0, 1000.0)
RESUMES = (SpanForm("resume_cwnd", 4.0, 5e5), SpanForm("resume_rtt", 1e-3))


def strategies(shares: dict[str, float] = SHARES) -> dict[str, Any]:
    """Return the changes of `MAP` that give one class these strategies."""
    mix = mix_of(FAR, shares)
    profiles = {one.name: one for one in FAR.profiles.values() if one.name in dict(mix)}
    return {"profiles": profiles, "mixes": {"far": mix}, "prefixes": {PREFIX: "far"}, "holdback": 3277}


class Lacking(Recorded):
    """A kernel without Careful Resume."""

    def barred(self, profile: Profile) -> str:
        return "resume_cwnd is out of reach" if "resume_cwnd" in dict(profile.settings) else ""


def given(kernel: Recorded) -> dict[str, DrawnArm]:
    """Return what each client's connection is described as, by a map in force: the draw is the kernel's, by the plan
    and the mixes that were loaded."""
    trial, book = Trial(kernel=kernel), PlanBook()
    trial.take(**strategies())
    trial.one.activations.pass_on(book, 0)
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
    return found


def test_the_draw_is_the_same_on_both_agents_and_what_was_not_applied_is_not_recorded() -> None:
    kernel = Lacking(draws=True)
    able, lacking = given(Recorded(draws=True)), given(kernel)
    at = [name for name, _ in strategies()["mixes"]["far"]].index("resume-320-80")
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
    # no end of a connection that drew it counts for a strategy
    ends = EndReports(lambda opened, client: lacking[min(resumed)], True)
    ends.take(record()._replace(opened=record().opened._replace(profile=NOT_HERE)), 0)
    assert [state_of(report)["strategy"] for report in ends.reports()] == ["other"]
    # the driver is asked for no profile that it lacks
    assert not any(kernel.barred(one) for one in kernel.rules.profiles.values())
    assert kernel.rules.profiles[NOT_HERE].settings == () and kernel.rules.prefixes == {PREFIX: "far"}


def test_a_class_in_which_nothing_else_is_drawn_keeps_default() -> None:
    trial = Trial(kernel=(kernel := Lacking(draws=True)))
    trial.take(**strategies({RESUME: 1.0}))
    assert kernel.rules.prefixes == {} and kernel.plans[-1][1] == {}


def test_prefixes_are_drawn_alike_where_the_kernel_does_not() -> None:
    trial = Trial(kernel=Lacking())
    prefixes = {f"198.51.{at}.0/24": "far" for at in range(100)}
    trial.take(**strategies() | {"prefixes": prefixes})
    assert trial.one.drawing is not None
    of_prefix = trial.one.drawing.dated(prefixes, 0).of_prefix
    assert of_prefix is not None
    drawn = {prefix: found for prefix in prefixes if (found := of_prefix(prefix)) is not None}
    absent = [prefix for prefix, found in drawn.items() if found.profile == NOT_HERE]
    assert absent and not any(prefix in trial.kernel.rules.prefixes for prefix in absent)


def test_it_is_named_and_no_refusal_of_the_map() -> None:
    """A share of refused entries suspends a roll-out; a driver that lacks a setting is no reason to."""
    found = Trial(kernel=Lacking(draws=True)).load(**strategies()).result
    assert found.refused == ((f"{ARM}resume-320-80", "Default here: resume_cwnd is out of reach"),)
    assert refused_count(found.refused, found.omitted) == 0 and found.entries == 1
    session = ManagerSession("m", 1, {"k": "web1"}, SigningKey(bytes(32)))
    session.receive(b"c", "k", frame(AgentHello("x", "1")), 0.0, START_NS)
    (remark,) = [one.text for one in session.receive(b"c", "k", frame(found), 1.0, START_NS)
                 if isinstance(one, ManagerRemark)]  # fmt: skip
    assert "has Default in place of 1 profiles of map 1.1" in remark and "resume-320-80" in remark
    many = {f"p{at}": Profile(f"p{at}", (("initcwnd", 99),)) for at in range(MOST_REFUSED + 5)}
    listed, omitted = refused_entries(many | {"r": FAR.profiles[RESUME]}, dict.fromkeys([*many, "r"], "no"), {})
    assert refused_count(listed, omitted) == MOST_REFUSED + 5 and not any(name.startswith(ARM) for name, _ in listed)


@pytest.mark.parametrize(("hellos", "why"), [
    ({"a": (INITCWND, *RESUMES), "b": (INITCWND,)}, ""), ({"a": (INITCWND,), "b": (INITCWND,)}, "agent a"),
    ({"a": (INITCWND, *RESUMES), "b": ()}, ""), ({"a": (), "b": (INITCWND,)}, ""),
])  # fmt: skip
def test_a_manager_bars_what_no_driver_has(hellos: dict[str, tuple[SpanForm, ...]], why: str) -> None:
    limits = {name: limits_of_hello(AgentHello("x", "1", reaches=reaches)) for name, reaches in hellos.items()}
    resumes = FAR.profiles[RESUME]
    assert barred_by(limits, resumes, True).startswith(why) and bool(barred_by(limits, resumes, True)) == bool(why)
    assert not barred_by({}, resumes), "no agent has joined"
    # what is not optional is barred by one, and so is what an operator's bound or the guard refuses
    paced = Profile("paced", (("pacing", "fq"),))
    assert bool(barred_by(limits, paced)) == any(hellos.values())
    bounded = AgentHello("x", "1", reaches=(INITCWND, *RESUMES), bounds=(SpanForm("resume_cwnd", 4.0, 100.0),))
    assert "agent c" in barred_by(limits | {"c": limits_of_hello(bounded)}, resumes)
    assert barred_by(limits, PathClass((0,) * 5, 1280, 80.0).profiles[RESUME])
