# SPDX-License-Identifier: MIT
"""Records of the eBPF programs as the model's: what is unknown is None, an address is cut, a way to end has a name."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from ipaddress import ip_address

import pytest

from configtron.model.close_records import ABORTED, CLOSED, RESET, TIMED_OUT, CloseRecord, OpenRecord
from configtron.tune.drivers.bpf.connection_records import BEGINNING, ENDING, RecordParser, ending_of, prefix_of
from configtron.tune.drivers.bpf.layout import MAPPED

HZ = 250
PARSER = RecordParser({1: "class", 2: "arm"}, HZ)
ESTABLISHED, FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING = 1, 4, 5, 6, 8, 9, 11


@dataclass(frozen=True)
class Begun:
    """struct beginning."""

    epoch: int = 7
    start_ns: int = 10**9
    cookie: int = 99
    number: int = 1
    profile: int = 2
    version: int = 0xCAFE
    rtt_us: int = 5000
    remote: bytes = MAPPED + bytes((192, 0, 2, 77))
    local_port: int = 443
    remote_port: int = 50000
    arm: int = 3
    band: int = 0
    flags: int = 1

    def fields(self) -> tuple[int | bytes, ...]:
        return (self.epoch, self.start_ns, self.cookie, self.number, self.profile, self.version, self.rtt_us,
                self.remote, self.local_port, self.remote_port, self.arm, self.band, self.flags, 0)  # fmt: skip


def opened(begun: Begun) -> OpenRecord:
    (record,) = PARSER.all([BEGINNING.pack(*begun.fields())])
    assert isinstance(record, OpenRecord)
    return record


def closed(begun: Begun = Begun(), lasted_ns: int = 10**9, rate: int = 0, min_rtt_us: int = 4000, known: int = 1,
           busy: int = 50, rwnd: int = 25, state: int = LAST_ACK, max_rtt_us: int = 0) -> CloseRecord:  # fmt: skip
    counted = (begun.start_ns + lasted_ns, 5001, 101, rate, min_rtt_us, 44, 12, 2)
    packed = ENDING.pack(*begun.fields(), *counted, state, known, 0, busy, rwnd, max_rtt_us)
    (record,) = PARSER.all([packed])
    assert isinstance(record, CloseRecord)
    return record


def test_the_sizes_differ() -> None:
    assert (BEGINNING.size, ENDING.size) == (64, 136)


def test_the_largest_round_trip_is_that_of_the_record() -> None:
    """0: none was sampled, or an earlier program, pinned before an upgrade, wrote the record."""
    assert closed().max_rtt_us is None
    assert closed(max_rtt_us=90_000).max_rtt_us == 90_000
    # a smoothed one that was rounded down
    assert closed(min_rtt_us=4000, max_rtt_us=3999).max_rtt_us == 4000
    assert closed(min_rtt_us=0xFFFF_FFFF, max_rtt_us=50).max_rtt_us == 50


def test_an_arm() -> None:
    assert opened(Begun()) == OpenRecord(
        "192.0.2.0/24", 443, 50000, 10**9, 99, "class", 3, False, "arm", 0xCAFE, 7, None, 5000, False
    )


def test_held_back() -> None:
    record = opened(Begun(profile=0, version=0, arm=8))
    assert (record.class_name, record.arm, record.held, record.profile, record.version) == (
        "class",
        None,
        True,
        "",
        None,
    )


def test_unknown_is_none() -> None:
    record = opened(Begun(number=0, profile=5, epoch=0, cookie=0, rtt_us=0, arm=0, flags=0))
    assert (record.class_name, record.arm, record.held) == (None, None, False)
    assert (record.profile, record.epoch, record.cookie, record.rtt_us, record.band) == (None,) * 5
    record = opened(Begun(band=2, flags=3))
    assert (record.band, record.window_cut) == (2, True)


def test_shares_and_rates() -> None:
    record = closed(rate=1_000_000)
    assert (record.bytes_acked, record.bytes_received, record.segments, record.retransmits) == (5001, 101, 12, 2)
    assert (record.max_cwnd, record.min_rtt_us, record.delivery_kbps) == (44, 4000, 8000.0)
    assert (record.app_limited, record.rwnd_limited) == (0.8, 0.5), "50 of 250 ticks with data, 25 of those stalled"
    assert record.ending == CLOSED and not record.moved
    assert closed(Begun(flags=5)).moved


@pytest.mark.parametrize(
    ("record", "app", "rwnd"),
    [
        (closed(known=0), None, None),
        (closed(lasted_ns=30_000_000, busy=5), None, None),
        (closed(busy=5), 0.98, None),
        (closed(busy=300, rwnd=400), 0.0, 1.0),
    ],
)
def test_shares_that_the_tick_is_too_coarse_for(record: CloseRecord, app: float | None, rwnd: float | None) -> None:
    assert record.app_limited == (app if app is None else pytest.approx(app)) and record.rwnd_limited == rwnd


def test_no_round_trip_and_no_rate() -> None:
    record = closed(min_rtt_us=0xFFFF_FFFF)
    assert (record.min_rtt_us, record.delivery_kbps) == (None, None)


@pytest.mark.parametrize(
    ("state", "error", "ending"),
    [
        *[(state, 0, CLOSED) for state in (FIN_WAIT2, TIME_WAIT, LAST_ACK, CLOSING)],
        *[(state, None, CLOSED) for state in (FIN_WAIT2, LAST_ACK)],
        *[(state, 0, ABORTED) for state in (ESTABLISHED, FIN_WAIT1, CLOSE_WAIT)],
        *[(state, None, None) for state in (ESTABLISHED, FIN_WAIT1, CLOSE_WAIT)],
        *[(ESTABLISHED, error, RESET) for error in (errno.ECONNRESET, errno.EPIPE)],
        *[(FIN_WAIT1, error, TIMED_OUT) for error in (errno.ETIMEDOUT, errno.EHOSTUNREACH)],
        (ESTABLISHED, errno.ECONNABORTED, ABORTED),
    ],
)
def test_endings(state: int, error: int | None, ending: str | None) -> None:
    assert ending_of(state, error) == ending


@pytest.mark.parametrize(
    ("address", "prefix"),
    [("192.0.2.77", "192.0.2.0/24"), ("2001:db8:1:2::5", "2001:db8:1::/48"), ("::1", "::/48")],
)
def test_addresses_are_cut(address: str, prefix: str) -> None:
    parsed = ip_address(address)
    assert prefix_of(MAPPED + parsed.packed if parsed.version == 4 else parsed.packed) == prefix
