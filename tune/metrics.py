# SPDX-License-Identifier: MIT
"""Knobs as metrics of a route: the kernel's number, iproute2's word and networkd's option for each, and how far it
reaches.

Rules for this file: one literal table, and the two ways between a profile's settings and numbers. Seen on Linux 6.18,
each by a real connection (`tests/tune/test_route_sockets.py`).

Source     linux/rtnetlink.h (RTAX_*), ip-route(8), systemd.network(5)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach
from configtron.tune.unsupported import UNSUPPORTED

# RTAX_LOCK: a set of bits, one a metric; the kernel obeys some metrics only where theirs is set.
LOCK = 1


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. per_unit: the kernel's units in one unit of the knob. networkd "": it has no option."""

    number: int
    word: str
    networkd: str
    reach: Reach
    per_unit: int = 1
    locked: bool = False


# The same bound as the other drivers': a thousand segments at once are more than any window that a client offers.
MOST_SEGMENTS = 1000
# A retransmission's wait never grows past it (linux TCP_RTO_MAX), so a larger floor would say nothing.
MOST_RTO_S = 120
# Below, the kernel's own calls raise a clamp to it (SOCK_MIN_RCVBUF / 2).
LEAST_WINDOW_BYTES = 1152
# The largest window there is: 65535 << 14 (RFC 7323 section 2.3).
MOST_WINDOW_BYTES = 65535 << 14

METRICS: tuple[Metric, ...] = (
    Metric(3, "window", "", Reach("window_clamp", "prefix", least=LEAST_WINDOW_BYTES, most=MOST_WINDOW_BYTES)),
    Metric(7, "cwnd", "", Reach(
        "cwnd_clamp", "prefix", least=1, most=65535,
        note="from a client's second connection on: the kernel looks for it only in what it remembers of that client "
        "(ip tcp_metrics)"), locked=True),
    Metric(11, "initcwnd", "InitialCongestionWindow", Reach(
        "initcwnd", "prefix", least=1, most=MOST_SEGMENTS,
        note="also the window after idle; a client's first window may be smaller")),
    Metric(13, "rto_min", "TCPRetransmissionTimeoutSec", Reach(
        "min_rto", "prefix", least=0.001, most=MOST_RTO_S, note="whole milliseconds, raised to the kernel's tick"),
        per_unit=1000, locked=True),
    Metric(14, "initrwnd", "InitialAdvertisedReceiveWindow", Reach(
        "initrwnd", "prefix", least=1, most=MOST_SEGMENTS, note="no more than the receive buffer (tcp_rmem) holds")),
    Metric(15, "quickack", "QuickAck", Reach("quickack", "prefix", values=(0, 1), note="also for open connections")),
    Metric(16, "congctl", "TCPCongestionControlAlgorithm", Reach(
        "tcp_congestion_control", "prefix", values=KNOBS["tcp_congestion_control"].values,
        note="also where a listener chooses another")),
)  # fmt: skip
BY_KNOB: Mapping[str, Metric] = {metric.reach.knob: metric for metric in METRICS}
BY_NUMBER: Mapping[int, Metric] = {metric.number: metric for metric in METRICS}


def numbers(profile: Profile) -> tuple[tuple[int, int | str], ...]:
    """Return a profile's settings as metrics, 0 for none. Errors: `BadInput` where one is no whole number."""
    found: dict[int, int | str] = {}
    for knob, value in profile.settings:
        metric = BY_KNOB[knob]
        found[metric.number] = _number(profile, metric, value)
        if metric.locked:
            found[LOCK] = int(found.get(LOCK, 0)) | 1 << metric.number
    return tuple(sorted(found.items()))


def _number(profile: Profile, metric: Metric, value: Value) -> int | str:
    if isinstance(value, str):
        return value
    assert isinstance(value, int | float), value
    scaled = value * metric.per_unit
    if abs(scaled - round(scaled)) > 1e-6:
        where = f"profile {profile.name}: {metric.reach.knob}={value!r}"
        raise BadInput(f"{where}: the kernel keeps whole units of 1/{metric.per_unit}")
    return round(scaled)


def holds(metrics: tuple[tuple[int, int | str], ...], wanted: tuple[tuple[int, int | str], ...]) -> bool:
    """Return whether a route carries all metrics of a profile; it may carry others, which are the main table's."""
    have = dict(metrics)
    locks = int(have.get(LOCK, 0))
    return all(int(value) & ~locks == 0 if number == LOCK else have.get(number, 0) == value for number, value in wanted)


# Why a route cannot carry the others.
REFUSED: Mapping[str, str] = {
    **UNSUPPORTED,
    "tcp_slow_start_after_idle": "no metric for it; of the whole namespace: driver sysctl",
    "tcp_low_latency": "no effect on any kernel since Linux 4.14",
    "tcp_autocorking": "no metric for it; of the whole namespace: driver sysctl",
    "pacing": "a queueing discipline is a device's, not a route's",
    "nagle": "a socket's, not a route's; drivers kmod and ebpf",
    "tcp_window_scaling": "no metric for it; of the whole namespace: driver sysctl",
    "max_pacing_rate": "no metric for it; drivers kmod and ebpf",
    "delack_max": "no metric for it (only quickack); drivers kmod and ebpf",
    "notsent_lowat": "no metric for it; of the whole namespace: driver sysctl",
    "priority": "a socket's, not a route's; drivers kmod and ebpf",
    "mark": "read before the route is looked up; drivers kmod and ebpf",
    "busy_poll": "a socket's, not a route's; driver kmod",
    "resume_cwnd": "no metric for it: initcwnd is the first window; driver kmod",
    "resume_rtt": "no metric for it; driver kmod",
    "synack_rto": "no metric for it; driver ebpf",
    "data_rto": "no metric for it; driver kmod",
}
