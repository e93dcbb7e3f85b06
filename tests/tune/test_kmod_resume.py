# SPDX-License-Identifier: MIT
"""Careful Resume in the module, in a guest of the lab: scripted paths, and the model's phases beside the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.support.careful_resume import RETREAT, UNVALIDATED, Acknowledged, ResumeChange, Resumption, SavedPath
from tests.support.tune.kmod_resume import PATHS, RIGHT, SEGMENT

pytestmark = pytest.mark.lab

Findings = dict[str, Any]
# A sample is a millisecond of acknowledgements; the wire gives one in a quarter of that.
LATE_S, SEGMENTS = 0.006, 6
# A jiffy of the guest, in which the module counts a round trip.
JIFFY_S = 0.01
RESUMED = {name: path for name, path in PATHS.items() if name not in ("never", "nearer", "farther", "small")}
NORMAL_STATES = (0, 1)
# TCP_CA_Loss; and s from the timeout on, with two more of them and eight round trips that double the window.
LOSS, RECOVERED_S = 4, 2.5


class Row(NamedTuple):
    """A sample of `kmod_resume`."""

    at: float
    state: int
    unacked: int
    sacked: int
    lost: int
    retrans: int
    rtt: int
    ssthresh: int
    cwnd: int
    total_retrans: int
    max_rate: int
    acked: int
    notsent: int
    min_rtt: int
    delivered: int

    @property
    def jumping(self) -> bool:
        return self.max_rate < 1 << 62


@pytest.fixture(scope="module")
def found(guest: Callable[..., Findings]) -> Findings:
    reported = guest("kmod_resume paths")
    assert tuple(reported["names"]) == Row._fields
    return reported


def rows(found: Findings, name: str) -> list[Row]:
    return [Row(*row) for row in found["runs"][name]["rows"]]


def in_flight(row: Row) -> int:
    return row.unacked - row.sacked - row.lost + row.retrans


def seen(row: Row, before: Row, clamp: int) -> Acknowledged:
    """Return a sample as the module saw it, on the acknowledgement and before what was sent for it."""
    una, left = row.acked // SEGMENT, in_flight(before) - (row.delivered - before.delivered)
    return Acknowledged(
        now_s=row.at, delivered=row.delivered, una=una, highest=una + row.sacked + row.lost, nxt=una + row.unacked,
        in_flight=max(min(in_flight(row), left), 0), window=before.cwnd,
        slow_start=before.cwnd < before.ssthresh, unsent=row.notsent > 0, min_rtt_s=row.min_rtt / 1e6,
        rtt_s=row.rtt / 1e6, clamp=clamp,
    )  # fmt: skip


def modelled(name: str, samples: list[Row]) -> tuple[Resumption, list[tuple[float, str, ResumeChange]]]:
    """Return the model after the kernel's samples, and its changes: when, the phase that it came to, what changed."""
    settings = PATHS[name].settings
    saved = SavedPath(int(settings["resume_cwnd"]), int(settings["resume_rtt"]) / 1e6)
    model, changes = Resumption(saved, delivered=samples[0].delivered), []
    for before, row in zip(samples, samples[1:], strict=False):
        congested = row.state not in NORMAL_STATES and before.state in NORMAL_STATES
        if row.delivered == before.delivered and not congested:
            # Sent, without an acknowledgement: neither the module nor the model is asked.
            continue
        now = seen(row, before, int(settings.get("cwnd_clamp", 1 << 31)))
        change = model.congested(now) if congested else model.acked(now)
        if change != ResumeChange():
            changes.append((row.at, model.phase, change))
        if row.state == LOSS != before.state:
            model.timed_out()
    return model, changes


@pytest.mark.parametrize("name", [name for name in PATHS if name != "never"])
def test_the_model_comes_to_the_kernels_end(found: Findings, name: str) -> None:
    model, _ = modelled(name, rows(found, name))
    record = found["runs"][name]["record"]
    flags = (record["resumed"], record["validated"], record["retreated"])
    assert (model.jumped, model.validated, model.retreated) == tuple(map(bool, flags))


@pytest.mark.parametrize("name", RESUMED)
def test_the_model_jumps_when_and_as_far_as_the_kernel(found: Findings, name: str) -> None:
    """Half of the saved window, at its pace over the round trip."""
    samples = rows(found, name)
    kernel = next(row for row in samples if row.jumping)
    at, phase, change = modelled(name, samples)[1][0]
    assert phase == UNVALIDATED and at == pytest.approx(kernel.at, abs=LATE_S)
    assert change.window == kernel.cwnd == (60 if name == "clamped" else int(PATHS[name].settings["resume_cwnd"]) // 2)
    assert change.rate is not None and change.rate * SEGMENT == pytest.approx(kernel.max_rate, rel=0.03)


@pytest.mark.parametrize("name", [name for name in RESUMED if name != "little"])
def test_the_jump_ends_when_the_model_says_with_what_is_in_flight(found: Findings, name: str) -> None:
    samples = rows(found, name)
    last = max(at for at, row in enumerate(samples) if row.jumping)
    at, _, change = modelled(name, samples)[1][1]
    assert at - LATE_S <= samples[last + 1].at <= at + LATE_S + JIFFY_S
    # a loss is a second event within the same sample
    assert change.window == pytest.approx(samples[last + 1].cwnd, abs=2 * SEGMENTS)


@pytest.mark.parametrize("name", RESUMED)
def test_the_window_does_not_grow_in_the_jump_and_the_pace_is_kept(found: Findings, name: str) -> None:
    jumping = [row for row in rows(found, name) if row.jumping]
    wire = found["runs"][name]["wire"]
    assert {row.cwnd for row in jumping} == {jumping[0].cwnd}
    # a tenth of a round trip: its share of the jump, and some segments of one burst
    assert wire["packets"] > 0 and wire["most in 10 ms"] <= jumping[0].cwnd * 0.1 + SEGMENTS


@pytest.mark.parametrize("name", ["ten times", "lossy"])
def test_a_loss_retreats_to_half_of_the_pipe(found: Findings, name: str) -> None:
    samples = rows(found, name)
    retreat = next(row for row in samples if row.state not in NORMAL_STATES)
    back = next(row for row in samples if row.at > retreat.at and row.state in NORMAL_STATES)
    after = next(row for row in samples if row.at > back.at and row.ssthresh != back.ssthresh)
    changes = modelled(name, samples)[1]
    half = next(change.threshold for _, phase, change in changes if phase == RETREAT)
    assert half == pytest.approx(retreat.ssthresh, abs=SEGMENTS)
    assert back.cwnd == pytest.approx(retreat.ssthresh, abs=SEGMENTS), "the window goes to half of the pipe, and stays"
    if name == "ten times":  # 5 Mbit/s over 0.1 s and a buffer of 43 segments: path and buffer hold 86 in all
        assert all(row.ssthresh < 86 for row in samples if row.at > 1.05)
    whole = changes[-1][2].threshold
    assert whole is not None and after.ssthresh == pytest.approx(whole, rel=0.15)


@pytest.mark.parametrize("control", ["", " reno", " vegas"])
def test_the_right_window_saves_two_round_trips(found: Findings, control: str) -> None:
    plain, resumed = (rows(found, name)[-1].at for name in ("never", f"right{control}"))
    assert plain - resumed > 0.2
    assert found["runs"][f"right{control}"]["record"]["retrans"] == 0


@pytest.mark.parametrize("name", ["nearer", "farther", "small", "never"])
def test_another_path_or_too_little_data_does_not_jump(found: Findings, name: str) -> None:
    """Of another path: less than half of the saved round trip, or more than ten times it."""
    assert not any(row.jumping for row in rows(found, name))
    assert found["runs"][name]["record"]["resumed"] == 0


def test_one_connection_of_a_client_resumes_at_a_time(found: Findings) -> None:
    """One that outlasts its claim gives back no other's."""
    assert found["together"] == {"first": True, "second": False, "other": True, "afterwards": True}
    assert found["outlasted"] == {"first": True, "second": True, "third": False}


def test_a_timeout_in_the_jump_is_recovered_from_as_after_any(found: Findings) -> None:
    """All is lost for 0.4 s, so the timer runs out twice; then the window doubles with each round trip."""
    samples, record = rows(found, "silent"), found["runs"]["silent"]["record"]
    assert max(row.state for row in samples) == LOSS and record["retreated"]
    out = next(row for row in samples if row.state == LOSS)
    assert samples[-1].at - out.at < RECOVERED_S


def test_a_connection_has_its_own_rate_after_the_jump(found: Findings) -> None:
    """One that a program set in the jump, and that of a connection that leaves in the jump."""
    assert found["own rate"]["after"] == 30_000_000 > found["own rate"]["within"]
    moved = found["moved"]
    assert moved["before"] == moved["after"] == 40_000_000 > moved["within"]


def test_the_largest_window_is_in_the_record(found: Findings) -> None:
    for name, run in found["runs"].items():
        samples = rows(found, name)
        assert run["record"]["max_cwnd"] >= max(row.cwnd for row in samples if not row.jumping), name
    assert found["runs"]["clamped"]["record"]["max_cwnd"] == 60


# On connections that begin or go on in other ways than most.
JUMP = int(RIGHT.settings["resume_cwnd"]) // 2


@pytest.fixture(scope="module")
def other(guest: Callable[..., Findings]) -> Findings:
    return guest("kmod_resume ways")


def outcome(one: Findings) -> tuple[int, int, int]:
    return one["resumed"], one["validated"], one["retreated"]


@pytest.mark.parametrize("name", ["IPv4", "IPv6", "mapped", "cookie", "fast open"])
def test_a_connection_resumes_however_it_began(other: Findings, name: str) -> None:
    one = other["ways"][name]
    assert outcome(one) == (1, 1, 0) and one["window"] == JUMP and not one["paced at the end"]
    assert one["retrans"] == 0 and (one["data in SYN"] if name == "fast open" else True)


def test_a_client_whose_window_the_cookie_forgot_does_not_fill_the_jump(other: Findings) -> None:
    """Without timestamps a SYN cookie loses the window's scale: 64 kB is all that the client offers."""
    one = other["ways"]["cookie without timestamps"]
    assert outcome(one) == (1, 0, 0) and one["max_cwnd"] < JUMP and not one["paced at the end"]


def test_a_mark_within_the_jump_retreats_though_nothing_was_lost(other: Findings) -> None:
    marked = other["marked"]["ECN marked"]
    assert outcome(other["marked"]["ECN"]) == (1, 1, 0)
    assert outcome(marked) == (1, 0, 1) and marked["reduced"] and marked["retrans"] == 0
    assert marked["max_cwnd"] < JUMP + 1 and not marked["paced at the end"]


def test_an_idle_application_leaves_the_jump_and_goes_on_as_any_other(other: Findings) -> None:
    """It comes back to a smaller window, without the jump's pace, and what it did not use is no evidence."""
    idle = other["idle"]
    assert idle["jumped"] and outcome(idle) == (1, 0, 0)
    assert idle["paced when idle"] and not idle["paced after"] and not idle["paced at the end"]
    assert idle["window after"] < JUMP
