# SPDX-License-Identifier: MIT
"""Flows in a guest: what is known of a path comes out, schemes are what was asked, the same seed repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import named
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.model.nouns import Profile
from configtron.studies.flows.flows import REFUSED, SCHEMES, Flow, FlowOutcome, Ran, Trial, TrialOutcome, run
from configtron.studies.registry.kinds import Arguments

pytestmark = [pytest.mark.root, pytest.mark.lab]
WORKER = "configtron.studies.guests.worker"

# 25 ms to the client and no queue that fills: vegas leaves it empty.
EMPTY = Condition("empty", LinkDirection(5e3, 25.0, queue_packets=500), LinkDirection(delay_ms=5))
# One packet in fifty is lost, played, and in steps of one packet each 2 ms.
LOSSY = Condition("lossy", LinkDirection(6e3, 10.0, loss=0.02, kind="bursts"), LinkDirection(delay_ms=10))
TUNED = Profile("tuned", (("initcwnd", 30), ("pacing", "fq"), ("tcp_congestion_control", "vegas")))

TRIALS = [
    Trial(EMPTY, (Flow("vegas"),), 6, counted_from_s=2),
    Trial(LOSSY, (Flow("bbr"),), 6),
    # a buffer of a tenth of the path: what one scheme fills and loses
    Trial(named("pantheon:15"), (Flow("cubic"), Flow("reno", 1.0), Flow("none-such")), 5),
    Trial(named("access:cable"), (Flow(), Flow("cubic", rival=True), Flow("reno", rival=True)), 5, 1, 1, TUNED),
    Trial(EMPTY, tuple(Flow(scheme) for scheme in SCHEMES), 1),
    Trial(EMPTY, (Flow("copa"),), 6, counted_from_s=2),
    Trial(LOSSY, (Flow("copa"), Flow("ledbat", 1.0)), 4),
    Trial(EMPTY, (Flow("ledbat"), Flow("cubic", 1.0, rival=True)), 4),
]


def ran(folder: Path) -> Ran:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    return run(Arguments(folder, worker=WORKER), {"one": TRIALS, "two": TRIALS[:2]})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("flows"))


@pytest.fixture(scope="module")
def outcomes_of(found: Ran) -> list[TrialOutcome]:
    assert not found.missing
    return list(found.outcomes["one"])


def only(outcomes_of: TrialOutcome) -> FlowOutcome:
    assert not outcomes_of.reason and len(outcomes_of.flows) == 1 and not outcomes_of.flows[0].reason
    return outcomes_of.flows[0]


def test_an_empty_path_is_as_late_as_it_is_long(outcomes_of: list[TrialOutcome]) -> None:
    flow = only(outcomes_of[0])
    # a full packet takes 2.4 ms to leave; vegas keeps two to four of them waiting
    assert 25.0 < flow.late_ms < 25.0 + 6 * 2.4 and flow.loss == 0.0
    assert flow.mbit == pytest.approx(5.0, rel=0.02)


def test_what_chance_takes_is_the_loss(outcomes_of: list[TrialOutcome]) -> None:
    flow = only(outcomes_of[1])
    assert flow.loss == pytest.approx(0.02, abs=3 * (0.02 / flow.sent) ** 0.5) and flow.sent > 2000
    assert flow.mbit == pytest.approx(6.0 * 0.98, rel=0.1) and flow.late_ms > 10.0


def test_a_scheme_that_the_kernel_lacks_is_refused_and_no_other(outcomes_of: list[TrialOutcome]) -> None:
    cubic, reno, none = outcomes_of[2].flows
    assert (cubic.scheme, reno.scheme) == ("cubic", "reno") and not cubic.reason and not reno.reason
    assert (none.reason, none.sent) == (REFUSED, 0)
    # nine kilobytes wait for 6 ms at 12 Mbit/s, after 30 ms of way
    assert all(30.0 < flow.late_ms < 38.0 and flow.loss > 0 for flow in (cubic, reno))


def test_a_configuration_is_the_servers_and_not_their_rivals(outcomes_of: list[TrialOutcome]) -> None:
    assert not outcomes_of[3].reason
    assert [flow.scheme for flow in outcomes_of[3].flows] == ["vegas", "cubic", "reno"]
    assert sum(flow.mbit for flow in outcomes_of[3].flows) == pytest.approx(5.0, rel=0.05)
    # all wait in the one queue
    assert all(flow.late_ms > 14.0 + 20 for flow in outcomes_of[3].flows)


def test_every_scheme_sends(outcomes_of: list[TrialOutcome]) -> None:
    assert [(flow.scheme, flow.reason) for flow in outcomes_of[4].flows] == [(scheme, "") for scheme in SCHEMES]


def test_a_scheme_of_user_space_is_as_late_as_its_paper_has_it(outcomes_of: list[TrialOutcome]) -> None:
    flow = only(outcomes_of[5])
    # a full packet takes 2.4 ms to leave; copa keeps none to five of them waiting
    assert 25.0 < flow.late_ms < 25.0 + 6 * 2.4 and flow.loss == 0.0 and flow.scheme == "copa"
    assert flow.mbit == pytest.approx(5.0, rel=0.02)


def test_schemes_of_user_space_share_a_played_path(outcomes_of: list[TrialOutcome]) -> None:
    flows = outcomes_of[6].flows
    assert [(flow.scheme, flow.reason) for flow in flows] == [("copa", ""), ("ledbat", "")]
    # chance takes one packet in fifty; what copa makes of it is the path's rate, less what the other has
    sent = sum(flow.sent for flow in flows)
    assert sum(flow.loss * flow.sent for flow in flows) / sent == pytest.approx(0.02, abs=3 * (0.02 / sent) ** 0.5)
    assert sum(flow.mbit for flow in flows) > 0.85 * 6.0


def test_datagrams_and_a_connection_share_a_queue(outcomes_of: list[TrialOutcome]) -> None:
    flows = outcomes_of[7].flows
    assert [(flow.scheme, flow.reason) for flow in flows] == [("ledbat", ""), ("cubic", "")]
    assert sum(flow.mbit for flow in flows) > 0.9 * 5.0 and all(flow.mbit > 0.2 for flow in flows)


def test_the_same_seed_gives_the_same_figures(found: Ran, tmp_path: Path) -> None:
    again = ran(tmp_path)
    assert again == found
    assert found.outcomes["two"] == found.outcomes["one"][:2]
