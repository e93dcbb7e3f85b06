# SPDX-License-Identifier: MIT
"""Page loads between an agent's two processes: the one with rights never waits, and no address is handed on."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from configtron.intake.pageloads.error_reports import FailedLoad
from configtron.intake.pageloads.failure_join import ANSWER_NS
from configtron.intake.pageloads.intake import Admitted, IntakeOptions, sites_of
from configtron.intake.pageloads.plan_book import ClientAsked, DatedPlan, PrefixDraw
from configtron.intake.pageloads.request_join import EndedConnection
from configtron.intake.receiving.ended_sockets import EndedSockets, boottime_ns
from configtron.model.close_records import RESET, BadEndings
from configtron.model.draw import Key, Mix, Plan
from configtron.model.errors import BadInput
from configtron.service.fleet.agent_pages import MOST_ASKED, MOST_WAITING, OF_ENDINGS, PageReading
from configtron.service.fleet.epoch_activations import EpochActivations
from configtron.service.fleet.page_intake import MOST_QUESTIONS, PageIntake, PagesOptions, pages_options
from configtron.service.fleet.spool import Spool
from configtron.service.outcomes.batch_bytes import MOST_OF_QUESTION, QUESTION_BYTES, decoded, encoded, question_of
from configtron.service.outcomes.page_outcomes import UNNAMED, PageOutcomes
from configtron.service.outcomes.root_reader import ReaderBatch
from tests.support.faults.descriptors import no_descriptors
from tests.support.pageloads import ARM, PREFIX, closed, opened

HERE = PagesOptions("127.0.0.1", 0)
CLIENT, FAILED = bytes([198, 51, 100, 9]), FailedLoad("tcp", 200.0, 100.0, 1.0, "h2")
# An applier without a map in force.
TURNS = cast(Any, SimpleNamespace(drawing=None, activations=EpochActivations()))


@pytest.fixture
def reading(tmp_path: Path) -> Any:
    enforcement = SimpleNamespace(draws=False)
    found = PageReading(PagesOptions("127.0.0.1", 0, tmp_path / "log"), cast(Any, enforcement))
    yield found
    found.close()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with closing(Spool(tmp_path / "spool.db", "")) as found:
        yield found


@pytest.fixture
def intake(reading: PageReading, spool: Spool) -> Iterator[PageIntake]:
    """The other process's side of `reading`."""
    with closing(intake_of(reading, spool)) as found:
        yield found


def intake_of(reading: PageReading, spool: Spool) -> PageIntake:
    return PageIntake(reading.connected(), HERE, spool)


def test_the_root_process_drops_and_counts_what_a_process_that_hangs_does_not_take(reading: PageReading) -> None:
    end = reading.connected()
    batch = ReaderBatch((), tuple(EndedConnection(at) for at in range(5_000)), BadEndings.of(("192.0.2.0/24", 1)))
    reading.reader.turn = lambda: batch  # type: ignore[method-assign]
    for _ in range(MOST_WAITING // 100 + 10):
        reading.turn(TURNS)
    assert reading.dropped > 0 and reading.counts()["batches dropped"] == reading.dropped
    end.setblocking(False)
    assert end.recv(1 << 20)
    end.close()
    # The other process has ended: what waits is for the next one.
    reading.turn(TURNS)
    again = reading.connected()
    reading.turn(TURNS)
    assert again.recv(1 << 20)
    again.close()


@pytest.mark.root
def test_connections_that_cannot_be_listed_for_want_of_descriptors_are_listed_later(
    reading: PageReading, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent noted the map's ports, and ended."""
    # A command that ran in this process before may have been a quiet one.
    caplog.set_level(logging.WARNING, "configtron")
    drawing = SimpleNamespace(head=SimpleNamespace(ports=(80,)))
    applier: Any = SimpleNamespace(drawing=drawing, activations=EpochActivations())
    with no_descriptors():
        reading.turn(applier)
        reading.turn(applier)
    assert ["Too many open files" in one.getMessage() for one in caplog.records] == [True]
    assert not isinstance(reading.reader.source, EndedSockets)
    reading._list_s = 0.0
    reading.turn(applier)
    assert isinstance(reading.reader.source, EndedSockets)


def test_a_port_that_is_taken_is_stated_once_and_maps_go_on(
    reading: PageReading, spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = PagesOptions("127.0.0.1", taken.getsockname()[1])
        with closing(PageIntake(reading.connected(), options, spool)) as intake:
            for _ in range(3):
                intake.turn()
                assert intake._listen_s > time.monotonic(), "not each turn"
                intake._listen_s = 0.0
    assert len([one for one in caplog.records if "cannot be received" in one.message]) == 1


def test_a_row_that_no_manager_would_take_costs_that_row_alone(intake: PageIntake, spool: Spool) -> None:
    good, bad = (intake.pages.beacons.row(ARM, 5, "a" * size, 12.0, "", "") for size in (9, 5_000))
    intake._keep([good, bad, good])
    assert spool.waiting == 2 and intake.counts()["row-refused"] == 1


def test_sites_that_no_load_names_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A slip in `--sites` counted every load as `other`, in silence."""
    pages = PageOutcomes("web1", "b", print, bool, IntakeOptions(sites_of("*.exmaple.org")))
    for at in range(2 * UNNAMED):
        pages.beacons.row(ARM, at, "www.example.org\n", 12.0, "", "")
    (line,) = [one.getMessage() for one in caplog.records]
    assert f"none of {UNNAMED} page loads" in line and "(*.exmaple.org); they named 'www.example.org\\n'" in line


def test_beacons_and_log_socket_are_checked_as_they_are_typed(tmp_path: Path) -> None:
    assert pages_options(None, None) is None
    found = pages_options("[::1]:9315", tmp_path / "log", sites="a")
    assert found == PagesOptions("::1", 9315, tmp_path / "log", sites="a") and PagesOptions.of(found.text) == found
    for wrong in ("9315", ":9315", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "a:²", "a:+80", f"a:{'9' * 4301}"):
        with pytest.raises(BadInput, match="write HOST:PORT"):
            pages_options(wrong, None)
    with pytest.raises(BadInput, match="--beacons"):
        pages_options(None, tmp_path / "log")


# ---- what a client whose load failed had been given


def in_force(reading: PageReading, arm: int = 1) -> None:
    """Let a map be in force from two minutes ago on, by which each prefix has that arm."""
    key, mixes = b"k" * 16, {"slow": Mix(("narrow", "wide"), (16_384, 49_152))}
    drawn = PrefixDraw("slow", arm, False, ("narrow", "wide")[arm])
    since_ns = max(1, boottime_ns() - 120 * 10**9)
    reading.book.add(DatedPlan(3, 7, 86_400, Plan(Key.of(key), 5, 0, 0), mixes, key, lambda prefix: drawn, since_ns))


def test_the_arm_of_a_failed_load_is_asked_of_the_process_with_rights_and_comes_without_the_address(
    reading: PageReading,
) -> None:
    end = reading.connected()
    in_force(reading)
    for _ in range(2 * OF_ENDINGS + 20):
        reading.reader.join.record(closed(opened(), 1)._replace(ending=RESET))
    now_ns = boottime_ns()
    end.send(encoded((ClientAsked(41, CLIENT, now_ns), ClientAsked(42, CLIENT, 0))))
    reading.turn(TURNS)
    batches = [end.recv(1 << 20) for _ in range(4)]
    assert [decoded(one).bad.number for one in batches] == [OF_ENDINGS, OF_ENDINGS, 20, 0], "records go before answers"
    one, before = decoded(batches[-1]).known
    number, drawn = one
    assert drawn is not None
    assert (number, drawn.class_name, drawn.arm, drawn.profile) == (41, "slow", 1, "wide")
    assert (drawn.term, drawn.map_version, drawn.prefix) == (3, 7, PREFIX)
    assert before == (42, None), "nothing is known of a time before the map"
    assert CLIENT not in batches[-1] and b"198.51.100.9" not in batches[-1]
    assert reading.counts()["clients asked for"] == 2
    end.close()


def test_questions_that_are_none_are_counted_and_take_no_more_than_a_bounded_time(reading: PageReading) -> None:
    end = reading.connected()
    in_force(reading)
    good = ClientAsked(1, CLIENT, boottime_ns())
    wrong = (b"\xc1", encoded([good._replace(client=b"1.2")]), encoded([good._replace(at_ns=-1)]),
             encoded([good] * (MOST_OF_QUESTION + 1)), encoded([good._replace(number=-1)]), b"x" * 5_000)  # fmt: skip
    for data in wrong:
        end.send(data)
        with pytest.raises(BadInput, match="no question"):
            question_of(data)
    for _ in range(2 * MOST_ASKED):
        end.send(encoded([good]))
    asked = []
    for _ in range(4):
        reading.turn(TURNS)
        asked.append(reading.counts()["clients asked for"])
    counts = reading.counts()
    assert counts["questions refused"] == len(wrong)
    assert asked == [MOST_ASKED - len(wrong), 2 * MOST_ASKED - len(wrong), 2 * MOST_ASKED, 2 * MOST_ASKED]
    longest = ClientAsked(2**63 - 1, bytes([255] * 16), 2**63 - 1)
    assert len(encoded([longest] * MOST_OF_QUESTION)) <= QUESTION_BYTES
    end.close()


def reported(intake: PageIntake, client: bytes = CLIENT, failed: tuple[FailedLoad, ...] = (FAILED,)) -> None:
    intake.pages.admit(Admitted(client, "phone", "", None, failed))


def test_a_failed_load_is_a_row_with_the_arm_that_was_in_force(reading: PageReading, intake: PageIntake) -> None:
    kept: list[Any] = []
    intake.pages._rows = kept.extend
    in_force(reading)
    reading.reader.join.record(closed(opened(), boottime_ns())._replace(ending=RESET))
    reported(intake)
    intake.turn()
    assert not kept
    reading.turn(TURNS)
    intake.turn()
    (row,) = kept
    assert (row.failure, row.plt_ms, row.prefix, row.device) == ("tcp", None, "198.51.100.0/24", "phone")
    assert (row.term, row.map_version, row.class_name, row.arm, row.profile) == (3, 7, "slow", 1, "wide")
    assert row.propensity == 0.75 and row.why_not in ("", "turn")
    # Nothing was in force then, by what this process knows.
    reported(intake, failed=(FAILED._replace(age_ms=600_000.0),))
    for _ in range(2):
        intake.turn()
        reading.turn(TURNS)
    intake.turn()
    assert len(kept) == 1 and intake.counts()["report-unknown-client"] == 1


def test_reports_without_an_answer_are_counted_and_so_are_late_answers(reading: PageReading, spool: Spool) -> None:
    intake = intake_of(reading, spool)
    in_force(reading)
    reported(intake)
    intake.turn()
    intake.pages.failures.give_up(boottime_ns() - ANSWER_NS)
    assert not intake.counts()["report-unanswered"], "it is waited for"
    intake.pages.failures.give_up(boottime_ns())
    reading.turn(TURNS)
    intake.turn()
    assert intake.counts()["report-unanswered"] == intake.counts()["late-answer"] == 1
    # The other process hangs: what waits is bounded.
    for _ in range(MOST_QUESTIONS // 10 + 200):
        reported(intake, failed=(FAILED,) * 10)
        intake._send_questions()
    assert (over := intake.counts()["report-overflow"]) > 0
    waiting = len(intake.pages.failures._reports)
    assert over + waiting == 10 * (MOST_QUESTIONS // 10 + 200)
    intake.close()
    assert intake.counts()["report-unanswered"] == 1 + waiting, "the agent ended before an answer came"


def test_an_answer_to_the_process_before_is_not_taken_for_another_report(reading: PageReading, spool: Spool) -> None:
    intake = intake_of(reading, spool)
    in_force(reading)
    reported(intake)
    intake.turn()
    reading._read_questions()
    before = reading.reader.turn()
    intake.close()
    with closing(intake_of(reading, spool)) as second:
        reported(second, client=bytes([203, 0, 113, 9]))
        second.pages.turn(before)
        assert second.counts()["late-answer"] == 1
