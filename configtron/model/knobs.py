# SPDX-License-Identifier: MIT
"""Every knob by name: the papers' settings (Table 1), their measured parameters (Table 2), the other parameters of a
fingerprint, and the knob's name in each interface of the kernel (`KERNEL`), from which the drivers make their tables.

Rules for this file: one literal table per purpose, nothing computed but the dictionaries at the end; a row's `note`
has the fact without which a user of that knob would err; `source` names the source of default and values.
docs/recipes/knob.md adds a knob; tests/tune/test_knob_places.py names each place that lacks one.

CT is "ConfigTron" (Naseer and Benson, 2019), HC is "Configtron" (HotCloud 2017). Kernel facts are from the kernel's
own Documentation/networking/ip-sysctl.rst and from reading back a 6.12 kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from configtron.model.congestion import OF_TABLE1
from configtron.model.measured import MEASURED, TABLE2
from configtron.model.nouns import Knob

__all__ = [
    "KERNEL",
    "KNOBS",
    "MEASURED",
    "NAMED_BY_HC",
    "PER_CONNECTION",
    "TABLE2",
    "TUNABLE",
    "KernelNames",
]

# Settable knobs: CT Table 1, whose product is CT's space of configurations, with HC Table 2 in `note`.
TUNABLE: tuple[Knob, ...] = (
    Knob(
        "tcp_congestion_control",
        "tcp",
        default="cubic",
        values=OF_TABLE1,
        scope="socket",
        note="HC: the same four. Outside the first namespace a name is refused (EPERM) until the first namespace's "
        "tcp_allowed_congestion_control lists it: read back what was set",
        source="CT Table 1; HC Table 2",
    ),
    Knob(
        "initcwnd",
        "tcp",
        unit="segments",
        default=10,
        values=(1, 4, 10, 16, 20, 30),
        scope="prefix",
        note="HC: 3, 6, 9, 12, 15, 18. A route's metric, or per socket from a sockops program; in segments of the "
        "connection's MSS, not in bytes (RFC 6928 caps bytes, Linux does not)",
        source="CT Table 1; HC Table 2",
    ),
    Knob(
        "tcp_slow_start_after_idle",
        "tcp",
        default=1,
        values=(0, 1),
        scope="netns",
        note="HC: the same. No effect on a page load that opens its connections anew",
        source="CT Table 1; HC Table 2",
    ),
    Knob(
        "tcp_low_latency",
        "tcp",
        default=0,
        values=(0, 1),
        scope="netns",
        note="HC: the same. Legacy option without effect since Linux 4.14; kept to reproduce Table 1",
        source="CT Table 1; HC Table 2; ip-sysctl.rst",
    ),
    Knob(
        "tcp_autocorking",
        "tcp",
        default=1,
        values=(0, 1),
        scope="netns",
        note="HC: the same. Acts only on small writes while an earlier packet waits in a queue",
        source="CT Table 1; HC Table 2",
    ),
    Knob(
        "pacing",
        "tcp",
        default="pfifo_fast",
        values=("pfifo_fast", "fq"),
        scope="device",
        note="HC: 0, 1. A queueing discipline, so per device; since Linux 4.13 bbr paces itself without fq",
        source="CT Table 1; HC Table 2",
    ),
    Knob(
        "http_version",
        "web",
        default="http/1.1",
        values=("http/1.1", "h2"),
        scope="process",
        note="HC: also named. CT writes 1.1 and 2; here by ALPN name. Set by routing to another server instance",
        source="CT Table 1; HC section 2",
    ),
)

# Knobs that HC also lists as representative, without values. Listed so that each name has one meaning.
NAMED_BY_HC: tuple[Knob, ...] = (
    Knob("init_rto", "tcp", unit="s", default=1, scope="socket", note="TCP_RTO_INIT of sockops", source="HC; RFC 6298"),
    Knob("tcp_wmem", "tcp", unit="bytes", scope="netns", note="three numbers: min, default, max", source="HC"),
    Knob("tcp_rmem", "tcp", unit="bytes", scope="netns", note="three numbers: min, default, max", source="HC"),
    Knob("tcp_window_scaling", "tcp", default=1, values=(0, 1), scope="netns", source="HC; RFC 7323"),
    Knob("nagle", "tcp", default=1, values=(0, 1), scope="socket", note="off is TCP_NODELAY", source="HC; RFC 896"),
    Knob("ip_version", "ip", default=4, values=(4, 6), scope="process", source="HC"),
    Knob("peering_link", "ip", scope="prefix", note="a route; not a property of one host", source="HC"),
    Knob("tls_version", "web", values=("1.2", "1.3"), scope="process", source="HC"),
    Knob("ocsp_stapling", "web", values=(0, 1), scope="process", source="HC; RFC 6066 section 8"),
    Knob(
        "tls_false_start", "web", values=(0, 1), scope="process", note="client side; none in 1.3", source="HC; RFC 7918"
    ),
    Knob("dynamic_record_sizing", "web", values=(0, 1), scope="process", source="HC"),
    Knob("h2_push", "web", default=0, values=(0, 1), scope="process", note="browsers have dropped it", source="HC"),
    Knob("http11_pipelining", "web", default=0, values=(0, 1), scope="process", source="HC; RFC 9112 section 9.3.2"),
)

# Other knobs that drivers set for a connection or a prefix (`tune/drivers`). Three more are also measured, as rows of
# `measured.py`: `synack_rto`, `data_rto` (here: before the first round trip is known), `min_rto`.
PER_CONNECTION: tuple[Knob, ...] = (
    Knob("max_pacing_rate", "tcp", unit="bytes/s", note="turns pacing on", source="socket(7) SO_MAX_PACING_RATE"),
    Knob("initrwnd", "tcp", unit="segments", scope="prefix", source="ip-route(8) initrwnd; TCP_BPF_RWND_INIT"),
    Knob("delack_max", "tcp", unit="s", default=0.2, note="longest delay of an ACK", source="RFC 9293 section 3.8.6.3"),
    Knob("quickack", "tcp", default=0, values=(0, 1), note="ACKs are not delayed", source="ip-route(8) quickack"),
    Knob(
        "notsent_lowat",
        "tcp",
        unit="bytes",
        note="unsent bytes a socket takes before it is no longer writable; keeps HTTP/2 priorities fresh",
        source="ip-sysctl.rst tcp_notsent_lowat",
    ),
    Knob("window_clamp", "tcp", unit="bytes", note="bounds the window we advertise", source="tcp(7) TCP_WINDOW_CLAMP"),
    Knob(
        "resume_cwnd",
        "tcp",
        unit="segments",
        note="window that earlier connections came to: once the first one is acknowledged, a connection takes up half "
        "of it, paced over a round trip, and retreats on loss; needs resume_rtt",
        source="RFC 9959 (Careful Resume), saved_cwnd",
    ),
    Knob(
        "resume_rtt", "tcp", unit="s", note="round trip that resume_cwnd was learned at", source="RFC 9959, saved_rtt"
    ),
    Knob("cwnd_clamp", "tcp", unit="segments", note="bounds the congestion window", source="TCP_BPF_SNDCWND_CLAMP"),
    Knob("priority", "ip", default=0, note="the packet's class on the way out", source="socket(7) SO_PRIORITY"),
    Knob("mark", "ip", default=0, note="for routing and filters", source="socket(7) SO_MARK"),
    Knob("busy_poll", "ip", unit="us", default=0, note="what low_latency became", source="socket(7) SO_BUSY_POLL"),
)

# `http_version` is both set and measured; a fingerprint's reader needs the measured row.
KNOBS: dict[str, Knob] = {knob.name: knob for knob in (*TUNABLE, *NAMED_BY_HC, *PER_CONNECTION, *MEASURED)}


class KernelNames(NamedTuple):
    """A knob's names in the kernel's interfaces. A default stands for an interface that has no such setting.

    key      its place and name in `enum configtron_key` of kmod/configtron.h, without CONFIGTRON_
    step     its number in the tables of the BPF programs, which pinned maps keep: numbers are only ever added
    option   level and number of setsockopt(2), or of bpf_setsockopt where the number is above 1000
    metric   its number among the metrics of a route (RTAX_*)
    sysctl   its file in /proc/sys/net/ipv4
    """

    key: tuple[int, str] | None = None
    step: int | None = None
    option: tuple[int, int] | None = None
    metric: int | None = None
    sysctl: str = ""


# Every knob that some driver of the kernel's stack sets, or that the module's table explains.
KERNEL: Mapping[str, KernelNames] = {
    "tcp_congestion_control": KernelNames((0, "CONGESTION_CONTROL"), 0, metric=16, sysctl="tcp_congestion_control"),
    "initcwnd": KernelNames((1, "INITCWND"), 1, (6, 1001), metric=11),
    "tcp_slow_start_after_idle": KernelNames((2, "SLOW_START_AFTER_IDLE"), 2, sysctl="tcp_slow_start_after_idle"),
    "pacing": KernelNames((3, "PACING"), 3),
    "max_pacing_rate": KernelNames((4, "MAX_PACING_RATE"), 4, (1, 47)),
    "min_rto": KernelNames((5, "MIN_RTO"), 7, (6, 1004), metric=13, sysctl="tcp_rto_min_us"),
    "data_rto": KernelNames((6, "DATA_RTO")),
    "delack_max": KernelNames((7, "DELACK_MAX"), 8, (6, 1003)),
    "notsent_lowat": KernelNames((8, "NOTSENT_LOWAT"), 9, (6, 25), sysctl="tcp_notsent_lowat"),
    "window_clamp": KernelNames((9, "WINDOW_CLAMP"), 10, (6, 10), metric=3),
    "cwnd_clamp": KernelNames((10, "CWND_CLAMP"), 11, (6, 1002), metric=7),
    "priority": KernelNames((11, "PRIORITY"), 12, (1, 12)),
    "mark": KernelNames((12, "MARK"), 13, (1, 36)),
    "busy_poll": KernelNames((13, "BUSY_POLL"), option=(1, 46)),
    "quickack": KernelNames((14, "QUICKACK"), metric=15),
    "nagle": KernelNames((15, "NAGLE"), 14, (6, 1)),
    "tcp_low_latency": KernelNames((16, "LOW_LATENCY")),
    "tcp_autocorking": KernelNames((17, "AUTOCORKING"), sysctl="tcp_autocorking"),
    "synack_rto": KernelNames((18, "SYNACK_RTO"), 6),
    "initrwnd": KernelNames((19, "INITRWND"), 5, metric=14),
    "resume_cwnd": KernelNames((20, "RESUME_CWND")),
    "resume_rtt": KernelNames((21, "RESUME_RTT")),
    "tcp_window_scaling": KernelNames(sysctl="tcp_window_scaling"),
}
