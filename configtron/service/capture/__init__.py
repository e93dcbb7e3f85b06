# SPDX-License-Identifier: MIT
"""Passive measurement: read captures, watch an interface or this host's sockets. No packet is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from configtron.service.lazily import lazily

if TYPE_CHECKING:
    from configtron.service.capture.live import LiveOptions, watch_interface
    from configtron.service.capture.proofs import proofs_of
    from configtron.service.capture.reading import CaptureReading, connection_forms
    from configtron.service.capture.sockets import SocketOptions, watch_sockets
    from configtron.service.capture.watch_writer import WatchWriter
    from configtron.service.capture.watching import (
        WATCHES_COLUMNS,
        WATCHES_SCHEMA,
        Outputs,
        WatchProgress,
        WatchResult,
        find_watch,
        open_watches,
        watch_rows,
    )

__all__ = [
    "WATCHES_COLUMNS", "WATCHES_SCHEMA", "CaptureReading", "LiveOptions", "Outputs", "SocketOptions", "WatchProgress",
    "WatchResult", "WatchWriter", "connection_forms", "find_watch", "open_watches", "proofs_of", "watch_interface",
    "watch_rows", "watch_sockets",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("LiveOptions", "watch_interface"), "live"),
            "proofs_of": "proofs",
            "WatchWriter": "watch_writer",
            **dict.fromkeys(("CaptureReading", "connection_forms"), "reading"),
            **dict.fromkeys(("SocketOptions", "watch_sockets"), "sockets"),
            **dict.fromkeys(
                (
                    "WATCHES_COLUMNS",
                    "WATCHES_SCHEMA",
                    "Outputs",
                    "WatchProgress",
                    "WatchResult",
                    "find_watch",
                    "open_watches",
                    "watch_rows",
                ),
                "watching",
            ),
        },
    )
