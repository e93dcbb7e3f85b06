"""Every knob by name: what the papers set (Table 1), what they measured (Table 2), what else a fingerprint holds.

Rules for this file: one literal table per purpose, nothing computed but the dictionaries at the end; a row's `note`
says what a user of that knob would get wrong without it; `source` says where default and values come from.

CT is "ConfigTron" (Naseer and Benson, 2019), HC is "Configtron" (HotCloud 2017). Kernel facts are from the kernel's
own Documentation/networking/ip-sysctl.rst and from reading back a 6.12 kernel.
"""

from __future__ import annotations

from configtron.nouns import Knob

# What can be set: CT Table 1, whose product is CT's space of configurations (`space_size`), with HC Table 2 in `note`.
TUNABLE: tuple[Knob, ...] = (
    Knob(
        "tcp_congestion_control",
        "tcp",
        default="cubic",
        values=("cubic", "reno", "vegas", "bbr"),
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

# What HC lists as representative besides; it gives no values. Kept so that their names mean one thing.
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

# What is measured: one row per knob name of a fingerprint. `values` are CT Table 2's top values in North America,
# most frequent first; `table2` at the end names the rows of that table in its order.
MEASURED: tuple[Knob, ...] = (
    Knob(
        "icw",
        "tcp",
        unit="segments",
        default=10,
        values=(10, 4, 24),
        scope="prefix",
        note="a page shorter than the window gives a lower bound (grade L), never a value",
        source="CT Table 2; RFC 6928",
    ),
    Knob(
        "synack_rto",
        "tcp",
        unit="s",
        default=1.0,
        values=(1.0, 0.3, 3.0),
        note="CT's RTO; read from repeated SYN-ACKs, so a proxy with SYN cookies shows none",
        source="CT Table 2; RFC 6298 section 2.1",
    ),
    Knob(
        "synack_backoff", "tcp", default="exponential", values=("exponential", "linear"), source="RFC 6298 section 5.5"
    ),
    Knob(
        "synack_retries",
        "tcp",
        unit="count",
        default=5,
        scope="netns",
        note="net.ipv4.tcp_synack_retries, or the listener's TCP_SYNCNT; a short profile can only bound it",
        source="ip-sysctl.rst",
    ),
    Knob(
        "data_rto",
        "tcp",
        unit="s",
        default=0.2,
        note="first time-out of a first flight, minimum plus round trip; a tail loss probe is not a time-out",
        source="RFC 6298; RFC 8985 section 7",
    ),
    Knob(
        "rwin",
        "tcp",
        unit="bytes",
        default=64240,
        values=(29200, 14600, 42780),
        scope="prefix",
        note="of a SYN-ACK to MSS 1460 without timestamps: CT's values are multiples of 1460, so CT offered none",
        source="CT Table 2",
    ),
    Knob("rwin_ts", "tcp", unit="bytes", default=65160, note="the same with timestamps offered (segments of 1448)"),
    Knob("wscale", "tcp", note="follows from the largest receive buffer", source="RFC 7323 section 2"),
    Knob("rwin_first_ack", "tcp", unit="bytes", note="window of the first pure ACK, scaled: what a client can use"),
    Knob("signature", "tcp", note="p0f's raw form, of the first SYN-ACK only", source="p0f 3"),
    Knob(
        "http_version",
        "web",
        default="http/1.1",
        values=("h2", "http/1.1"),
        scope="process",
        note="by ALPN",
        source="CT Table 2; RFC 7301",
    ),
    Knob(
        "http_clear",
        "web",
        values=("http/1.1", "http/1.0"),
        scope="process",
        note="of the status line, without TLS",
        source="RFC 9112 section 4",
    ),
    Knob(
        "h2c",
        "web",
        values=("accepted", "not-accepted"),
        scope="process",
        note="HTTP/2 in clear, with prior knowledge",
        source="RFC 9113 section 3.3",
    ),
    Knob(
        "h2_header_table_size",
        "http2",
        unit="bytes",
        default=4096,
        values=(4096,),
        scope="process",
        note="the default is in force when a server announces nothing, and most announce nothing",
        source="CT Table 2; RFC 9113 section 6.5.2",
    ),
    Knob(
        "h2_enable_push",
        "http2",
        default=1,
        scope="process",
        note="a server that announces anything but 0 is in error",
        source="RFC 9113 section 6.5.2",
    ),
    Knob(
        "h2_max_concurrent_streams",
        "http2",
        unit="streams",
        values=(128, 100),
        scope="process",
        note="no default: unlimited until announced",
        source="CT Table 2; RFC 9113 section 6.5.2",
    ),
    Knob(
        "h2_initial_window_size",
        "http2",
        unit="bytes",
        default=65535,
        values=(65536, 65535, 1048576),
        scope="process",
        note="per stream; CT prints the third value as '>1M', its example is 1048576",
        source="CT Table 2; RFC 9113 section 6.5.2",
    ),
    Knob(
        "h2_max_frame_size",
        "http2",
        unit="bytes",
        default=16384,
        values=(16777215, 16384),
        scope="process",
        source="CT Table 2; RFC 9113 section 6.5.2",
    ),
    Knob(
        "h2_max_header_list_size",
        "http2",
        unit="bytes",
        values=(16384,),
        scope="process",
        note="no default: unlimited until announced",
        source="CT Table 2; RFC 9113 section 6.5.2",
    ),
    Knob("h2_settings", "http2", note="all (id, value) pairs in the order announced", source="RFC 9113 section 6.5"),
    Knob("h2_window_update", "http2", unit="bytes", note="first increment on stream 0", source="RFC 9113 section 6.9"),
    Knob(
        "tls_versions",
        "web",
        scope="process",
        note="oldest first; a version is refused if a hello that offered it was answered with an older one or an alert",
        source="RFC 8446 section 4.2.1",
    ),
)

# Rows of CT Table 2, in its order, by the names above. CT's "RTO" is the SYN-ACK's.
TABLE2: tuple[str, ...] = (
    "http_version",
    "h2_max_header_list_size",
    "h2_header_table_size",
    "h2_max_concurrent_streams",
    "h2_initial_window_size",
    "h2_max_frame_size",
    "icw",
    "synack_rto",
    "rwin",
)

# `http_version` is both set and measured; the measured row is the one a fingerprint's reader wants.
KNOBS: dict[str, Knob] = {knob.name: knob for knob in (*TUNABLE, *NAMED_BY_HC, *MEASURED)}


def space_size() -> int:
    """Number of configurations in CT's space: the product of Table 1's values."""
    size = 1
    for knob in TUNABLE:
        size *= len(knob.values)
    return size
