# SPDX-License-Identifier: MIT
"""What a client was given, from records and plans; and failures of reports joined with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.error_reports import FailedLoad
from configtron.intake.pageloads.failure_join import MOST_ENDINGS, FailureJoin
from configtron.intake.pageloads.plan_book import (
    PLANS,
    ClientAsked,
    DatedPlan,
    DrawnArm,
    PlanBook,
    PrefixDraw,
    hashed,
    near_turn,
    unit,
)
from configtron.model.close_records import BadEndings
from configtron.model.draw import Key, Mix, Plan, draw, unit_of
from configtron.model.fleet import OutcomeRow
from tests.support.pageloads import MS, PREFIX, T0, S, joined, opened

EPOCH_S = 600
KEY = bytes(range(16))
MIX = Mix(("narrow", "wide"), (16_384, 49_152))
CLIENT = bytes([198, 51, 100, 9])
# The middle of an epoch.
MIDDLE = T0 - T0 % (EPOCH_S * S) + EPOCH_S * S // 2
EPOCH = MIDDLE // S // EPOCH_S
WIDE = PrefixDraw("slow", 1, False, "wide")
RECORD, BY_PREFIX = opened(MIDDLE)._replace(epoch=EPOCH), opened(MIDDLE)._replace(epoch=None)


def dated(epoch: int = EPOCH, holdback: int = 6_554, draws: PrefixDraw | None = None) -> DatedPlan:
    plan = Plan(Key.of(KEY), epoch, 2**62, holdback)
    return DatedPlan(3, 9, EPOCH_S, plan, {"slow": MIX}, KEY, (lambda prefix: draws) if draws else None)


def book(kernel_draws: bool = True, draws: PrefixDraw | None = None) -> PlanBook:
    found = PlanBook(kernel_draws)
    found.add(dated(draws=draws))
    return found


def test_the_records_arm_has_the_plans_propensity() -> None:
    drawn = draw(dated().plan, MIX, unit_of("198.51.100.9"))
    found = book().describe(RECORD._replace(arm=drawn.arm, held=drawn.held), CLIENT)
    assert (found.arm, found.propensity, found.held) == (drawn.arm, pytest.approx(drawn.propensity), drawn.held)
    assert (found.term, found.map_version, found.epoch, found.class_name, found.doubt) == (3, 9, EPOCH, "slow", "")
    assert found.prefix == PREFIX and found.unit == unit(KEY, CLIENT, EPOCH)


@pytest.mark.parametrize(
    ("given", "doubt", "more"),
    [
        ({"class_name": None, "arm": None, "profile": ""}, "", {"propensity": 1.0}),
        ({"arm": None, "held": True, "profile": ""}, "", {"propensity": pytest.approx(0.1, abs=1e-4), "held": True}),
        ({"window_cut": True}, "window-cut", {}), ({"epoch": 1}, "undrawn", {}),
        ({"epoch": None, "start_ns": 0}, "undrawn", {}), ({"class_name": "gone"}, "undrawn", {}),
        ({"arm": len(MIX.weights)}, "undrawn", {"propensity": None}),
    ],
)  # fmt: skip
def test_default_is_certain_a_held_client_has_the_holdbacks_share_and_doubts_are_named(
    given: dict[str, Any], doubt: str, more: dict[str, Any]
) -> None:
    found = book().describe(RECORD._replace(**given), CLIENT)
    assert found.doubt == doubt and {name: getattr(found, name) for name in more} == more


@pytest.mark.parametrize(("into_s", "doubt"), [(0, "turn"), (2.9, "turn"), (3.1, ""), (596.9, ""), (597.1, "turn")])
def test_connections_within_three_seconds_of_a_turn_are_in_doubt(into_s: float, doubt: str) -> None:
    start_ns = MIDDLE - EPOCH_S * S // 2 + round(into_s * S)
    assert book().describe(RECORD._replace(start_ns=start_ns), CLIENT).doubt == doubt
    assert near_turn(start_ns, EPOCH_S) == bool(doubt)


def test_intervals_cluster_by_the_prefix_that_was_drawn_for() -> None:
    plans = book(kernel_draws=False, draws=WIDE._replace(prefix="198.51.0.0/16"))
    records = BY_PREFIX, BY_PREFIX._replace(prefix="198.51.7.0/24")
    assert len({plans.describe(one, CLIENT).unit for one in records}) == 1


def test_units_are_of_an_epoch_and_of_a_client() -> None:
    six = bytes.fromhex("20010db8000000010000000000000007")
    assert unit(KEY, six, 1) == unit(KEY, six[:8] + bytes(8), 1) == hashed(KEY, six[:8], 1), "a /64 is one client"
    assert unit(KEY, bytes(10) + b"\xff\xff" + CLIENT, 1) == unit(KEY, CLIENT, 1)
    assert len({unit(KEY, CLIENT, 1), unit(KEY, CLIENT, 2), unit(b"x" * 16, CLIENT, 1), unit(KEY, six, 1)}) == 4


def test_old_plans_are_forgotten() -> None:
    found = book()
    for epoch in range(PLANS):
        found.add(dated(epoch))
    assert found.describe(RECORD, CLIENT).doubt == "undrawn"


def test_of_two_plans_of_an_epoch_a_connection_has_the_one_that_it_began_under() -> None:
    found = book()
    found.add(replace(dated(holdback=0), map_version=10, since_ns=MIDDLE))
    seen = [found.describe(RECORD._replace(start_ns=MIDDLE + at * S), CLIENT) for at in (-10, -1, 1, 10)]
    assert [(one.map_version, one.doubt) for one in seen] == [(9, ""), (9, "turn"), (10, "turn"), (10, "")]
    assert seen[0].propensity == pytest.approx(0.75 * 0.9, abs=1e-4) and seen[3].propensity == 0.75


def test_where_no_record_shows_a_draw_nothing_is_drawn_after_the_end_of_what_was_in_force() -> None:
    boot = 10_000 * S
    plans, plan = PlanBook(False), dated(draws=WIDE)

    def described(at_s: int) -> tuple[str, str]:
        record = opened(boot + at_s * S)._replace(class_name=None, arm=None, epoch=None, profile=None)
        found = plans.describe(record, CLIENT)
        return found.class_name, found.doubt

    plans.clocks(boot, MIDDLE)
    plans.add(replace(plan, since_ns=boot - 60 * S))
    assert described(0) == ("slow", "")
    plans.end(boot + S)
    assert described(0) == ("slow", "")
    assert described(2)[1] == "undrawn" and plans.of_client(CLIENT, boot + 2 * S) is None
    plans.add(replace(plan, since_ns=boot + 5 * S))
    # It ended before its first renewal.
    plans.end(boot + 4 * S)
    assert described(6)[1] == "undrawn"
    plans.add(replace(plan, since_ns=boot + 6 * S))
    assert described(2)[1] == "undrawn" and described(10) == ("slow", "")


# ---- reports

FAILED = FailedLoad("tcp", 1_000.0, 500.0, 4.0, "h2")
NOW = MIDDLE + 10 * S
REPORTED = book(draws=WIDE)


class Failures(FailureJoin):
    """Asks and is answered at once, from a book of plans. ended: a connection of the prefix ended badly then."""

    def __init__(self, plans: PlanBook = REPORTED, ended: int | None = None) -> None:
        super().__init__(BeaconJoin("web1", "b"), self._asked, 0)
        self.plans = plans
        self.found: tuple[int, DrawnArm | None] = (0, None)
        if ended is not None:
            self.ended_badly(BadEndings.of((PREFIX, ended)))

    def _asked(self, asked: ClientAsked) -> bool:
        self.found = (asked.number, self.plans.of_client(asked.client, asked.at_ns))
        return True

    def row(self, client: bytes = CLIENT, load: FailedLoad = FAILED, at_ns: int = NOW) -> OutcomeRow:
        (row,) = self.rows(client, load, at_ns)
        return row

    def rows(self, client: bytes = CLIENT, load: FailedLoad = FAILED, at_ns: int = NOW) -> list[OutcomeRow]:
        self.failed(client, load, at_ns, "phone", "www.example.org")
        return self.answered([self.found])

    def page(self, end_ns: int) -> None:
        """Take a page of the client."""
        page = joined()._pages["0" * 32].request
        self.requests([page._replace(drawn=page.drawn._replace(unit=unit(KEY, CLIENT, EPOCH)), end_ns=end_ns)])


def test_a_report_has_the_arm_that_the_kernel_draws_for_its_client() -> None:
    """Not what its prefix would have been given: clients of a prefix have different arms."""
    plans, arms = book(draws=PrefixDraw("slow", 0, False, "narrow")), set()
    for host in range(40):
        found = plans.of_client(bytes([198, 51, 100, host]), NOW)
        drawn = draw(dated().plan, MIX, unit_of(f"198.51.100.{host}"))
        assert found is not None
        assert (found.arm, found.held, found.propensity) == (drawn.arm, drawn.held, pytest.approx(drawn.propensity))
        assert found.profile == ("" if drawn.arm is None else MIX.profiles[drawn.arm])
        arms.add(found.arm)
    assert arms == {0, 1, None}


def test_a_client_whose_class_came_of_its_round_trip_is_unknown_to_reports() -> None:
    plans, plan = PlanBook(), dated(draws=PrefixDraw("", None, False, ""))
    plans.add(plan)
    assert (known := plans.of_client(CLIENT, NOW)) and known.propensity == 1.0
    plans.add(replace(plan, plan=replace(plan.plan, bands=((50_000, "slow"),))))
    assert plans.of_client(CLIENT, NOW) is None


def test_a_failure_that_a_record_confirms_teaches_once() -> None:
    join = Failures(ended=NOW - 2 * S)
    first, second = join.row(), join.row()
    assert (first.failure, first.plt_ms, first.more, first.arm) == ("tcp", None, {"weight": 4.0}, 1)
    assert first.teaches
    assert (second.teaches, second.why_not) == (False, "uncorroborated"), "each record confirms one report"
    assert (first.sequence, second.sequence) == (1, 2)


@pytest.mark.parametrize(("others", "teaches"), [(MOST_ENDINGS - 1, True), (MOST_ENDINGS, False)])
def test_of_endings_that_no_report_asked_for_the_latest_are_remembered(others: int, teaches: bool) -> None:
    join = Failures(ended=NOW)
    for count in [10] * (others // 10) + [others % 10]:
        join.ended_badly(BadEndings.of(*[("192.0.2.0/24", NOW)] * count))
    assert join.row().teaches == teaches


def test_an_ending_confirms_no_failure_of_a_wider_prefix_that_begins_with_its_own() -> None:
    """Where the draw is by prefix, a unit may be a wider one than records name."""
    join, drawn = Failures(ended=NOW), REPORTED.of_client(CLIENT, NOW)
    assert drawn is not None
    for number, given in enumerate((drawn._replace(prefix="198.51.100.0/22"), drawn), 1):
        join.failed(CLIENT, FAILED, NOW)
        (row,) = join.answered([(number, given)])
        assert row.why_not == ("uncorroborated" if number == 1 else "")


def test_names_fail_before_any_transport() -> None:
    row = Failures(ended=NOW).row(load=FAILED._replace(failure="dns"))
    assert (row.teaches, row.why_not) == (False, "not-by-transport")


def test_reports_of_unknown_clients_are_counted() -> None:
    join = Failures(book())
    assert join.rows() == [] and join.counts["report-unknown-client"] == 1


def test_forged_reports_cannot_outweigh_a_client() -> None:
    join = Failures()
    join.page(NOW)
    assert sum(row.teaches for number in range(200) for row in join.rows(at_ns=NOW + number * MS)) == 20
