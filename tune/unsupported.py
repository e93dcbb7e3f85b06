# SPDX-License-Identifier: MIT
"""Knobs of the papers that no driver of the kernel's stack can set, and the software that decides them instead.

Rules for this file: reasons in words, one a knob, the same for every such driver. For a knob that a server decides,
configtron leads the prefix to a pool of servers with that setting (`tune/pools.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

# Knobs of CT Table 2 and HC section 2 that a server's own configuration can set.
SERVERS = (
    "http_version", "tls_version", "ocsp_stapling", "dynamic_record_sizing", "h2_push", "http11_pipelining",
    "h2_header_table_size", "h2_max_concurrent_streams", "h2_initial_window_size", "h2_max_frame_size",
    "h2_max_header_list_size",
)  # fmt: skip

UNSUPPORTED: Mapping[str, str] = {
    **dict.fromkeys(SERVERS, "the server's, not the kernel's: a pool of servers that is set up so (tune router)"),
    "tls_false_start": "the client's side, and none in TLS 1.3",
    "ip_version": "the client has chosen it before its SYN arrives",
    "peering_link": "a route of the network's, not a property of one host",
    "tcp_rmem": "three numbers, where a profile's value is one: sysctl -w net.ipv4.tcp_rmem; initrwnd bounds the "
    "first window",
    "tcp_wmem": "three numbers, where a profile's value is one: sysctl -w net.ipv4.tcp_wmem; notsent_lowat bounds "
    "what waits unsent",
    "init_rto": "one name for two timers: synack_rto (driver ebpf) and data_rto (driver kmod)",
}
