# SPDX-License-Identifier: MIT
"""What a client was given, from records and plans; and failures of reports joined with it."""

from __future__ import annotations

from dataclasses import replace

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


def dated(epoch: int, holdback: int = 6_554, draws: PrefixDraw | None = None) -> DatedPlan:
    plan = Plan(Key.of(KEY), epoch, 2**62, holdback)
    return DatedPlan(3, 9, EPOCH_S, plan, {"slow": MIX}, KEY, (lambda prefix: draws) if draws else None)


def book(kernel_draws: bool = True, draws: PrefixDraw | None = None) -> PlanBook:
    found = PlanBook(kernel_draws)
    found.add(dated(MIDDLE // S // EPOCH_S, draws=draws))
    return found


def test_the_records_arm_has_the_plans_propensity() -> None:
    epoch = MIDDLE // S // EPOCH_S
    drawn = draw(dated(epoch).plan, MIX, unit_of("198.51.100.9"))
    record = opened(MIDDLE)._replace(epoch=epoch, arm=drawn.arm, held=drawn.held)
    found = book().describe(record, CLIENT)
    assert (found.arm, found.propensity, found.held) == (drawn.arm, pytest.approx(drawn.propensity), drawn.held)
    assert (found.term, found.map_version, found.epoch, found.class_name, found.doubt) == (3, 9, epoch, "slow", "")
    assert found.prefix == PREFIX and found.unit == unit(KEY, CLIENT, epoch)


def test_default_is_certain_and_a_held_client_has_the_holdbacks_share() -> None:
    record = opened(MIDDLE)._replace(epoch=MIDDLE // S // EPOCH_S)
    default = book().describe(record._replace(class_name=None, arm=None, profile=""), CLIENT)
    assert (default.propensity, default.doubt) == (1.0, "")
    held = book().describe(record._replace(arm=None, held=True, profile=""), CLIENT)
    assert (held.propensity, held.held) == (pytest.approx(0.1, abs=1e-4), True)


@pytest.mark.parametrize(("into_s", "doubt"), [(0, "turn"), (2.9, "turn"), (3.1, ""), (596.9, ""), (597.1, "turn")])
def test_connections_within_three_seconds_of_a_turn_are_in_doubt(into_s: float, doubt: str) -> None:
    start_ns = MIDDLE - EPOCH_S * S // 2 + round(into_s * S)
    record = opened(start_ns)._replace(epoch=MIDDLE // S // EPOCH_S)
    assert book().describe(record, CLIENT).doubt == doubt
    assert near_turn(start_ns, EPOCH_S) == bool(doubt)


def test_a_window_that_the_kernel_cut_is_in_doubt() -> None:
    record = opened(MIDDLE)._replace(epoch=MIDDLE // S // EPOCH_S, window_cut=True)
    assert book().describe(record, CLIENT).doubt == "window-cut"


def test_an_unknown_plan_is_undrawn() -> None:
    record = opened(MIDDLE)
    for given in (record._replace(epoch=1), record._replace(epoch=None, start_ns=0)):
        assert book().describe(given, CLIENT).doubt == "undrawn"
    known = record._replace(epoch=MIDDLE // S // EPOCH_S)
    assert book().describe(known._replace(class_name="gone"), CLIENT).doubt == "undrawn"
    more_arms = book().describe(known._replace(arm=len(MIX.weights)), CLIENT)
    assert (more_arms.doubt, more_arms.propensity) == ("undrawn", None)


def test_a_driver_without_a_draw_gives_the_prefix_its_arm_and_its_unit() -> None:
    draws = PrefixDraw("slow", 1, False, "wide")
    found = book(kernel_draws=False, draws=draws).describe(opened(MIDDLE)._replace(epoch=None), CLIENT)
    assert (found.class_name, found.arm, found.profile, found.doubt) == ("slow", 1, "wide", "")
    assert found.propensity == pytest.approx(0.75 * 0.9, abs=1e-4)
    neighbour = bytes([198, 51, 100, 77])
    assert book(False, draws).describe(opened(MIDDLE)._replace(epoch=None), neighbour).unit == found.unit


def test_each_prefix_has_a_unit_of_its_own() -> None:
    """Prefixes of 16 characters are not packed IPv6 addresses."""
    found, draws = set(), PrefixDraw("slow", 1, False, "wide")
    for third in range(100, 120):
        client = bytes([198, 151, third, 9])
        record = opened(MIDDLE, prefix=f"198.151.{third}.0/24")._replace(epoch=None)
        found.add(book(kernel_draws=False, draws=draws).describe(record, client).unit)
    assert len(found) == 20


def test_units_are_of_an_epoch_and_of_a_client() -> None:
    six = bytes.fromhex("20010db8000000010000000000000007")
    assert unit(KEY, six, 1) == unit(KEY, six[:8] + bytes(8), 1), "a /64 is one client"
    assert unit(KEY, bytes(10) + b"\xff\xff" + CLIENT, 1) == unit(KEY, CLIENT, 1)
    assert len({unit(KEY, CLIENT, 1), unit(KEY, CLIENT, 2), unit(b"x" * 16, CLIENT, 1), unit(KEY, six, 1)}) == 4


def test_old_plans_are_forgotten() -> None:
    found = book()
    for epoch in range(PLANS):
        found.add(dated(epoch))
    assert found.describe(opened(MIDDLE)._replace(epoch=MIDDLE // S // EPOCH_S), CLIENT).doubt == "undrawn"


# ---- reports

FAILED = FailedLoad("tcp", 1_000.0, 500.0, 4.0, "h2")
NOW = MIDDLE + 10 * S


REPORTED = book(draws=PrefixDraw("slow", 1, False, "wide"))


class Failures(FailureJoin):
    """Asks and is answered at once, from a book of plans."""

    def __init__(self, plans: PlanBook = REPORTED) -> None:
        super().__init__(BeaconJoin("web1", "b"), self._asked, 0)
        self.plans = plans
        self.found: tuple[int, DrawnArm | None] = (0, None)

    def _asked(self, asked: ClientAsked) -> bool:
        self.found = (asked.number, self.plans.of_client(asked.client, asked.at_ns))
        return True

    def row(self, client: bytes = CLIENT, load: FailedLoad = FAILED, at_ns: int = NOW) -> OutcomeRow | None:
        self.failed(client, load, at_ns, "phone", "www.example.org")
        return next(iter(self.answered([self.found])), None)


def test_a_report_has_the_arm_that_the_kernel_draws_for_its_client() -> None:
    """Not what its prefix would have been given: clients of a prefix have different arms."""
    plans, arms = book(draws=PrefixDraw("slow", 0, False, "narrow")), set()
    for host in range(40):
        found = plans.of_client(bytes([198, 51, 100, host]), NOW)
        drawn = draw(dated(MIDDLE // S // EPOCH_S).plan, MIX, unit_of(f"198.51.100.{host}"))
        assert found is not None
        assert (found.arm, found.held, found.propensity) == (drawn.arm, drawn.held, pytest.approx(drawn.propensity))
        assert found.profile == ("" if drawn.arm is None else MIX.profiles[drawn.arm])
        arms.add(found.arm)
    assert arms == {0, 1, None}


def test_a_client_whose_class_came_of_its_round_trip_is_unknown_to_reports() -> None:
    plans, plan = PlanBook(), dated(MIDDLE // S // EPOCH_S, draws=PrefixDraw("", None, False, ""))
    plans.add(plan)
    assert (known := plans.of_client(CLIENT, NOW)) and known.propensity == 1.0
    plans.add(replace(plan, plan=replace(plan.plan, bands=((50_000, "slow"),))))
    assert plans.of_client(CLIENT, NOW) is None


def test_a_failure_that_a_record_confirms_teaches_once() -> None:
    join = Failures()
    join.ended_badly(BadEndings.of((PREFIX, NOW - 2 * S)))
    first, second = join.row(), join.row()
    assert first is not None and second is not None
    assert (first.failure, first.plt_ms, first.more, first.arm, first.teaches) == (
        "tcp",
        None,
        {"weight": 4.0},
        1,
        True,
    )
    assert (second.teaches, second.why_not) == (False, "uncorroborated"), "each record confirms one report"
    assert (first.sequence, second.sequence) == (1, 2)


def test_of_endings_that_no_report_asked_for_the_latest_are_remembered() -> None:
    for others, teaches in ((MOST_ENDINGS - 10, True), (MOST_ENDINGS + 10, False)):
        join = Failures()
        join.ended_badly(BadEndings.of((PREFIX, NOW)))
        more = BadEndings.of(*[("192.0.2.0/24", NOW)] * 10)
        for _ in range(others // 10):
            join.ended_badly(more)
        row = join.row()
        assert row is not None and row.teaches == teaches


def test_an_ending_confirms_no_failure_of_a_wider_prefix_that_begins_with_its_own() -> None:
    """Where the draw is by prefix, a unit may be a wider one than records name."""
    join = Failures()
    join.ended_badly(BadEndings.of((PREFIX, NOW)))
    drawn = REPORTED.of_client(CLIENT, NOW)
    assert drawn is not None
    for number, given in enumerate((drawn._replace(prefix="198.51.100.0/22"), drawn), 1):
        join.failed(CLIENT, FAILED, NOW)
        (row,) = join.answered([(number, given)])
        assert row.why_not == ("uncorroborated" if number == 1 else "")


def test_a_page_of_the_same_client_confirms_too() -> None:
    join = Failures()
    page = joined()._pages["0" * 32].request
    mine = page.drawn._replace(unit=unit(KEY, CLIENT, MIDDLE // S // EPOCH_S))
    join.requests([page._replace(drawn=mine, end_ns=NOW - 30 * S)])
    row = join.row()
    assert row is not None and row.teaches
    assert (stranger := join.row(bytes([198, 51, 100, 10]))) and not stranger.teaches


def test_names_fail_before_any_transport() -> None:
    join = Failures()
    join.ended_badly(BadEndings.of((PREFIX, NOW)))
    row = join.row(load=FAILED._replace(failure="dns"))
    assert row is not None and (row.teaches, row.why_not) == (False, "not-by-transport")


def test_reports_of_unknown_clients_are_counted() -> None:
    join = Failures(book())
    assert join.row() is None and join.counts["report-unknown-client"] == 1


def test_forged_reports_cannot_outweigh_a_client() -> None:
    join = Failures()
    page = joined()._pages["0" * 32].request
    mine = page.drawn._replace(unit=unit(KEY, CLIENT, MIDDLE // S // EPOCH_S))
    join.requests([page._replace(drawn=mine, end_ns=NOW)])
    rows = [join.row(at_ns=NOW + number * MS) for number in range(200)]
    assert sum(row.teaches for row in rows if row) == 20


def test_of_two_plans_of_an_epoch_a_connection_has_the_one_that_it_began_under() -> None:
    found, epoch = book(), MIDDLE // S // EPOCH_S
    found.add(replace(dated(epoch, holdback=0), map_version=10, since_ns=MIDDLE))
    record = opened(MIDDLE)._replace(epoch=epoch)
    seen = [found.describe(record._replace(start_ns=MIDDLE + at * S), CLIENT) for at in (-10, -1, 1, 10)]
    assert [one.map_version for one in seen] == [9, 9, 10, 10]
    assert [one.doubt for one in seen] == ["", "turn", "turn", ""]
    assert seen[0].propensity == pytest.approx(0.75 * 0.9, abs=1e-4) and seen[3].propensity == 0.75


def test_intervals_cluster_by_the_prefix_that_was_drawn_for() -> None:
    draws = PrefixDraw("slow", 1, False, "wide", "198.51.0.0/16")
    book_of_prefixes, records = book(kernel_draws=False, draws=draws), [opened(MIDDLE), opened(MIDDLE)]
    records[1] = records[1]._replace(prefix="198.51.7.0/24")
    units = {book_of_prefixes.describe(one._replace(epoch=None), CLIENT).unit for one in records}
    assert len(units) == 1


def test_where_no_record_shows_a_draw_nothing_is_drawn_after_the_end_of_what_was_in_force() -> None:
    draws, boot = PrefixDraw("slow", 1, False, "wide"), 10_000 * S
    plans, plan = PlanBook(False), dated(MIDDLE // S // EPOCH_S, draws=draws)
    plans.clocks(boot, MIDDLE)
    plans.add(replace(plan, since_ns=boot - 60 * S))
    record = opened(boot)._replace(class_name=None, arm=None, epoch=None, profile=None)
    assert plans.describe(record, CLIENT).class_name == "slow"
    plans.end(boot + S)
    assert plans.describe(record, CLIENT).class_name == "slow"
    later = record._replace(start_ns=boot + 2 * S)
    assert plans.describe(later, CLIENT).doubt == "undrawn" and plans.of_client(CLIENT, boot + 2 * S) is None
    plans.add(replace(plan, since_ns=boot + 5 * S))
    # It ended before its first renewal.
    plans.end(boot + 4 * S)
    assert plans.describe(record._replace(start_ns=boot + 6 * S), CLIENT).doubt == "undrawn"
    plans.add(replace(plan, since_ns=boot + 6 * S))
    assert plans.describe(later, CLIENT).doubt == "undrawn"
    found = plans.describe(record._replace(start_ns=boot + 10 * S), CLIENT)
    assert (found.class_name, found.doubt) == ("slow", "")
