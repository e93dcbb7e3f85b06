"""What tshark says of a capture, connection by connection, for comparing."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from configtron.nouns import ACK, SYN

FIELDS = (
    "frame.number", "tcp.stream", "tcp.srcport", "tcp.flags", "tcp.len", "tcp.window_size_value", "tcp.window_size",
    "tcp.options.mss_val", "tcp.options.wscale.shift", "tcp.analysis.initial_rtt", "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission", "tcp.analysis.out_of_order",
    "tcp.analysis.keep_alive", "tcp.time_relative", "tcp.analysis.lost_segment",
)  # fmt: skip
AGAIN = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")


@dataclass
class Side:
    """One sender of a connection."""

    packets: int = 0
    mss: int | None = None
    wscale: int | None = None
    syn_window: int | None = None
    max_window: int = 0
    payload: int = 0
    again: set[int] = field(default_factory=set)
    lost: int = 0


@dataclass
class Stream:
    """One connection."""

    first: int = 0
    ports: tuple[int, int] = (0, 0)
    rtt: float | None = None
    duration: float = 0.0
    sides: dict[int, Side] = field(default_factory=lambda: defaultdict(Side))


def streams(path: Path) -> dict[int, Stream]:
    """By first frame."""
    words = ["tshark", "-n", "-r", str(path), "-Y", "tcp && !icmp", "-T", "fields", "-E", "separator=/t"]
    words += [word for name in FIELDS for word in ("-e", name)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[int, Stream] = defaultdict(Stream)
    for line in done.stdout.splitlines():
        row = dict(zip(FIELDS, line.split("\t"), strict=True))
        _take(found[int(row["tcp.stream"])], row)
    return {stream.first: stream for stream in found.values()}


def _take(stream: Stream, row: dict[str, str]) -> None:
    frame, flags = int(row["frame.number"]), int(row["tcp.flags"], 16)
    stream.first = stream.first or frame
    side = stream.sides[int(row["tcp.srcport"])]
    side.packets += 1
    side.payload += int(row["tcp.len"])
    stream.duration = max(stream.duration, float(row["tcp.time_relative"]))
    if row["tcp.analysis.initial_rtt"]:
        stream.rtt = float(row["tcp.analysis.initial_rtt"])
    if flags & SYN:
        if side.syn_window is None:
            side.mss = int(row["tcp.options.mss_val"]) if row["tcp.options.mss_val"] else None
            side.wscale = int(row["tcp.options.wscale.shift"]) if row["tcp.options.wscale.shift"] else None
            side.syn_window = int(row["tcp.window_size_value"])
    elif flags & ACK:
        side.max_window = max(side.max_window, int(row["tcp.window_size"]))
    if any(row[f"tcp.analysis.{name}"] for name in AGAIN):
        side.again.add(frame)
    side.lost += bool(row["tcp.analysis.lost_segment"])
