# SPDX-License-Identifier: MIT
"""Contexts of sockets: numbers, bounds and reasons; tcp_info of any length; netlink of any bytes."""

from __future__ import annotations

import re
import struct
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint import tcp_info
from configtron.fingerprint.features import FEATURES, AddressFacts, free_rate, of_socket, plain_text, prefix_of, wanted
from configtron.fingerprint.tcp_info import UNPACED, Socket, TcpInfo, info_of, socket_of
from configtron.linux.netlink import messages
from configtron.linux.sock_diag import MESSAGE, parse
from tests.support import ROOT

SENDER = TcpInfo(
    50_000, 4_000, 3, 1_000, 48_000, 200, 1_250_000, 204_000, 4_000, 1, False, reordering=3, snd_wnd=65_536
)  # fmt: skip
# tcp_info has neither runs nor times of ACKs.
PACKETS = dict.fromkeys(("loss_run", "delivery_share", "ack_gap_ms"), "packets-only")
KNOWN = AddressFacts(64500, "DE", "phone", ())


def socket(info: TcpInfo = SENDER, *, bbr: int = 0, remote: str = "198.51.100.77", closed: bool = False) -> Socket:
    return Socket(ip_address("192.0.2.1").packed, 80, ip_address(remote).packed, 40_000, closed, info, bbr)


def test_a_sender() -> None:
    seen = of_socket(socket(), 17, KNOWN)
    context = seen.context
    assert (context.rtt_ms, context.jitter_ms, context.min_rtt_ms) == (50, 4, 48)
    assert context.bandwidth_kbps == context.delivery_kbps == 10_000 and not seen.bounded
    assert context.loss == 0.01, "three repeats, one of them needless, of 200 segments"
    assert (context.prefix, context.asn, context.region, context.device) == ("198.51.100.0/24", 64500, "DE", "phone")
    assert (seen.way, seen.ended, seen.bytes_out, seen.bytes_in) == ("out", "open", 200_000, 1_000)
    assert (context.queue_ms, context.window_bytes, context.reordering) == (2, 65_536, 3)
    assert dict(seen.unknown) == PACKETS and (seen.source, seen.at_ns, seen.remote) == ("socket", 17, "198.51.100.77")


def changed(**more: Any) -> Socket:
    return socket(SENDER._replace(**more))


PACED = {"pacing_rate": 25_000_000, "max_pacing_rate": 25_000_000, "min_rtt_us": 6}
UNBOUND = {"pacing_rate": 3_000_000, "max_pacing_rate": UNPACED}


@pytest.mark.parametrize(("seen", "kbps", "bounded"), [
    (changed(app_limited=True), 10_000, True),
    # BBR measured, or a free rate stands from before
    (changed(app_limited=True)._replace(bbr_rate=2_500_000), 20_000, False),
    (changed(app_limited=True)._replace(best_rate=5_000_000), 40_000, False),
    # paced to 200 Mbit/s by its application, over a fast hop: 21 Gbit/s a burst, which the kernel calls unlimited
    (changed(delivery_rate=2_619_320_000, **PACED), 200_000, True),
    (changed(delivery_rate=24_900_000, **PACED), 199_200, True),
    (changed(delivery_rate=9_000_000, min_rtt_us=6, **UNBOUND), 24_000, True),
    (changed(**UNBOUND), 10_000, False),
    (changed(busy_us=100_000, rwnd_limited_us=40_000), 10_000, True),
    (changed(busy_us=100_000, sndbuf_limited_us=40_000), 10_000, True),
    (changed(busy_us=100_000, rwnd_limited_us=4_000, sndbuf_limited_us=4_000), 10_000, False),
])  # fmt: skip
def test_a_rate_is_the_paths_only_where_nothing_else_held_back(seen: Socket, kbps: float, bounded: bool) -> None:
    found = of_socket(seen, 0, KNOWN)
    assert (found.context.bandwidth_kbps, found.bounded) == (kbps, bounded)
    assert found.context.delivery_kbps == seen.info.delivery_rate * 8 / 1e3
    assert not seen.best_rate or free_rate(seen) == seen.best_rate and free_rate(socket()) == SENDER.delivery_rate


@pytest.mark.parametrize("more", [
    # a page of 186 bytes over loopback: 351 Mbit/s and more
    {"bytes_sent": 186, "bytes_retrans": 0, "data_segs_out": 1, "delivery_rate": 43_875_000, "min_rtt_us": 8},
    # a first flight into a long path, delivered at once
    {"bytes_sent": 80_000, "bytes_retrans": 0, "delivery_rate": 50_000_000, "min_rtt_us": 100_000},
])  # fmt: skip
def test_a_burst_is_no_rate_of_a_path(more: dict[str, int]) -> None:
    seen = of_socket(changed(bytes_received=0, **more), 0, KNOWN)
    assert seen.context.bandwidth_kbps is None and not seen.bounded
    assert dict(seen.unknown)["bandwidth_kbps"] == "too-short"
    assert seen.context.delivery_kbps == more["delivery_rate"] * 8 / 1e3


RATES, UNWINDOWED = ("bandwidth_kbps", "delivery_kbps"), {"window_bytes": "not-in-kernel"}


@pytest.mark.parametrize(("info", "reasons"), [
    (TcpInfo(bytes_received=900_000, bytes_sent=100, data_segs_out=1, rtt_us=9, min_rtt_us=9, delivery_rate=5),
     dict.fromkeys((*RATES, "queue_ms", "reordering"), "receives") | UNWINDOWED),
    (TcpInfo(), dict.fromkeys(("rtt_ms", "min_rtt_ms", "jitter_ms"), "no-sample") | UNWINDOWED
     | dict.fromkeys(("loss", *RATES, "queue_ms", "reordering"), "no-data")),
    (SENDER._replace(delivery_rate=0), dict.fromkeys(RATES, "no-sample")),
    (SENDER._replace(min_rtt_us=None), {"min_rtt_ms": "no-sample", "queue_ms": "no-sample"}),
    (SENDER._replace(bytes_sent=14_000, bytes_retrans=0, snd_wnd=0, min_rtt_us=1),
     dict.fromkeys(("bandwidth_kbps", "queue_ms", "reordering"), "too-short") | UNWINDOWED),
])  # fmt: skip
def test_what_is_missing_says_why(info: TcpInfo, reasons: dict[str, str]) -> None:
    assert dict(of_socket(socket(info), 0, KNOWN).unknown) == PACKETS | reasons


@given(st.builds(TcpInfo, *[st.integers(0, 2**32)] * 4, st.none() | st.integers(0, 2**32), *[st.integers(0, 2**40)] * 5,
                 st.booleans()))  # fmt: skip
def test_a_value_or_a_reason_never_both(info: TcpInfo) -> None:
    seen = of_socket(socket(info), 0, AddressFacts())
    missing = dict(seen.unknown)
    assert len(missing) == len(seen.unknown)
    for name in FEATURES:
        assert (getattr(seen.context, name) in (None, "")) == (name in missing), name
    assert seen.context.loss is None or 0 <= seen.context.loss <= 1


@pytest.mark.parametrize(("address", "prefix"), [
    ("203.0.113.250", "203.0.113.0/24"), ("2001:db8:1:2::3", "2001:db8:1::/48"), ("::1", "::/48"),
    ("2002:c633:640a:1::2", "2002:c633:6400::/40"),
])  # fmt: skip
def test_prefixes(address: str, prefix: str) -> None:
    assert prefix_of(address) == prefix


def test_ipv4_within_ipv6_is_ipv4() -> None:
    assert of_socket(socket(remote="::ffff:198.51.100.9"), 0, KNOWN).context.prefix == "198.51.100.0/24"
    assert plain_text("::ffff:198.51.100.9") == "198.51.100.9" and plain_text("localhost") == ""


def test_only_the_ports_asked_for() -> None:
    seen = [of_socket(socket()._replace(local_port=port), 0, KNOWN) for port in (80, 443, 9)]
    assert [one.local_port for one in wanted(seen, frozenset({80, 9}))] == [80, 9]
    assert wanted(seen, frozenset()) == seen


def info_bytes(**values: int) -> bytes:
    data = bytearray(248)
    for name, value in values.items():
        at, form = tcp_info.FIELDS[name]
        struct.pack_into(f"={form}", data, at, value)
    return bytes(data)


def test_older_kernels_say_less() -> None:
    data = info_bytes(rtt_us=7, min_rtt_us=5, delivery_rate=9, dsack_dups=3)
    assert info_of(data)[:1] == (7,) and info_of(data).dsack_dups == 3
    older = info_of(data[:104])
    assert (older.rtt_us, older.min_rtt_us, older.delivery_rate, older.dsack_dups) == (7, None, 0, 0)
    assert info_of(info_bytes(min_rtt_us=tcp_info.NEVER_US)).min_rtt_us is None
    assert info_of(data[:7] + b"\3" + data[8:]).app_limited and not info_of(data[:7] + b"\2" + data[8:]).app_limited


INFO = struct.pack("=HH", 4 + 248, tcp_info.INFO) + info_bytes(rtt_us=5)


def answer(remote_port: int = 443, attributes: bytes = INFO, family: int = 2) -> bytes:
    ends = (struct.pack(">HH", 80, remote_port), bytes((192, 0, 2, 1)), bytes((198, 51, 100, 2)))
    return MESSAGE.pack(family, 1, 0, 0, ends[0][:2], ends[0][2:], *ends[1:], 0, bytes(8), 0, 0, 0, 0, 0) + attributes


def read(body: bytes, *, closed: bool = False) -> Socket | None:
    one = parse(body)
    if one is None:
        return None
    return socket_of((one.local, one.local_port), (one.remote, one.remote_port), one.attributes, closed=closed)


def test_answers() -> None:
    bbr = struct.pack("=HHIIIII", 24, tcp_info.BBR, 5, 1, 0, 0, 0)
    found = read(answer(attributes=INFO + bbr), closed=True)
    assert found is not None and found.closed and found.bbr_rate == (1 << 32) + 5
    assert (found.local, found.local_port, found.remote_port) == (bytes((192, 0, 2, 1)), 80, 443)
    assert read(answer(remote_port=0)) is None, "a listener"
    assert read(answer(attributes=b"")) is None, "an attempt"
    assert read(answer(family=1)) is None and read(b"") is None


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_bytes_are_read(data: bytes, cut: int) -> None:
    for kind, _, _, body in messages(data):
        assert kind >= 0
        read(body)
    read(answer()[:cut] + data)
    info_of(data)


def test_every_field_that_is_asked_for_by_name_has_a_place() -> None:
    """Guests ask too (`configtron/lab/testbed`), where a missing place ends a whole boot."""
    calls = re.compile(r'field_of\([^()]*(?:\[[^]]*\])?[^()]*, "(\w+)"')
    folders = (ROOT / "configtron/lab", ROOT / "fingerprint", ROOT / "configtron/linux")
    asked = {name for root in folders for file in root.rglob("*.py") for name in calls.findall(file.read_text())}
    assert "snd_cwnd" in asked and asked <= tcp_info.FIELDS.keys()
