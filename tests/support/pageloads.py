# SPDX-License-Identifier: MIT
"""Records, log lines and beacons of made-up page loads, for tests of their join."""

from __future__ import annotations

from typing import Any

from configtron.intake.pageloads.beacon_formats import PageLoad
from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.plan_book import DrawnArm
from configtron.intake.pageloads.request_join import RequestJoin
from configtron.model.close_records import CLOSED, CloseRecord, OpenRecord
from configtron.model.fleet import OutcomeRow

S = 1_000_000_000
MS = 1_000_000
T0 = 1_700_000_000 * S
PREFIX = "198.51.100.0/24"
ARM = DrawnArm(PREFIX, "u1", 3, 9, 5, "slow", 1, "wide", 0.25)


def opened(start_ns: int = T0, port: int = 50_000, rtt_us: int | None = 30_000, arm: int = 1, prefix: str = PREFIX
           ) -> OpenRecord:  # fmt: skip
    return OpenRecord(prefix, 443, port, start_ns, None, "slow", arm, False, "wide", 1, 5, None, rtt_us, False)


def closed(record: OpenRecord, end_ns: int, min_rtt_us: int | None = None, kbps: float | None = None,
           retransmits: int = 0, moved: bool = False) -> CloseRecord:  # fmt: skip
    return CloseRecord(record, end_ns, min_rtt_us, None, 1, 1, 100, retransmits, None, None, kbps, CLOSED, moved)


def describe(record: OpenRecord, client: bytes) -> DrawnArm:
    """As an agent does; the unit shows the whole client, to compare it with the truth."""
    return ARM._replace(prefix=record.prefix, unit=f"u{client[-1]}", arm=record.arm)


def requests() -> RequestJoin:
    return RequestJoin(describe)


def line(token: str, at_ns: int, port: int = 50_000, took_ms: int = 10, number: str = "1", connection: str = "-",
         client: int = 9) -> bytes:  # fmt: skip
    return (
        f"ctn {token} 192.0.2.1 443 198.51.100.{client} {port} {at_ns / 1e9:.3f} {took_ms / 1e3:.3f} {number}"
        f" {connection} - www.example.org"
    ).encode()


def token(number: int) -> str:
    return f"{number:032x}"


def joined(*, start_ns: int = T0, rtt_us: int = 30_000, number: str = "1", arm: DrawnArm = ARM,
           agent: BeaconJoin | None = None, tokens: int = 1) -> BeaconJoin:  # fmt: skip
    """Return a join that knows `tokens` requests, 1 s apart, of one connection from T0 on; each 0.1 s after it."""
    lines, beacons = RequestJoin(lambda record, client: arm), BeaconJoin("web1", "b") if agent is None else agent
    lines.record(opened(start_ns, rtt_us=rtt_us))
    for at in range(tokens):
        end_ns = T0 + at * S + 60 * MS
        lines.datagram(line(token(at), end_ns, number=number if not at else str(at + 1)), end_ns, end_ns)
        beacons.requests(lines.advance(end_ns, end_ns))
    return beacons


def load(number: int = 0, value_ms: float | None = 400.0, **fields: object) -> PageLoad:
    given = {"connect_start_ms": 5.0, "connect_end_ms": 35.0, "request_ms": 36.0, "response_ms": 70.0} | fields
    return PageLoad(f"load{number}", token(number), value_ms, **given)  # type: ignore[arg-type]


def rows_of(agent: BeaconJoin) -> list[OutcomeRow]:
    return agent.advance(T0 + 100 * S, T0 + 100 * S)


TOKEN = "0123456789abcdef0123456789abcdef"
OURS = {
    "v": 1, "id": "a1", "t": TOKEN, "w": "load", "nt": "navigate", "cs": 5.0, "ce": 45.5, "qs": 46.0, "ps": 90.0,
    "le": 400.5, "lcp": 300.0, "as": 0, "hh": None, "dw": 0, "pc": 0, "np": "h2",
}  # fmt: skip
BOOMERANG = {
    "t_done": "400", "rt.start": "navigation", "ct": TOKEN, "pid": "x7", "nt_nav_st": "1700000000000",
    "nt_con_st": "1700000000005", "nt_con_end": "1700000000045", "nt_req_st": "1700000000046",
    "nt_res_st": "1700000000090", "nt_nav_type": "0", "nt_protocol": "h2", "vis.st": "visible",
}  # fmt: skip


def report(**fields: Any) -> dict[str, Any]:
    body = {"type": "tcp.timed_out", "phase": "connection", "elapsed_time": 900, "sampling_fraction": 0.5,
            "protocol": "h2"} | fields  # fmt: skip
    return {"type": "network-error", "age": 1500, "url": "https://www.example.org/", "body": body}
