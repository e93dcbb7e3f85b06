# SPDX-License-Identifier: MIT
"""What tshark says of a capture, connection by connection, for comparing."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from configtron.model.nouns import ACK, RST, SYN

FIELDS = (
    "frame.number", "tcp.stream", "tcp.srcport", "tcp.flags", "tcp.len", "tcp.window_size_value", "tcp.window_size",
    "tcp.options.mss_val", "tcp.options.wscale.shift", "tcp.analysis.initial_rtt", "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission", "tcp.analysis.out_of_order",
    "tcp.analysis.keep_alive", "tcp.time_relative", "tcp.analysis.lost_segment", "ip.id", "tcp.seq_raw", "tcp.ack_raw",
    "tcp.checksum", "tcp.options", "ip.src", "ipv6.src", "ip.fragment.count", "ipv6.fragment.count",
)  # fmt: skip
AGAIN = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
# A frame that is the same in all of these as an earlier one shows the same packet.
SAME = ("ip.id", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.len", "tcp.checksum", "tcp.options",
        "tcp.window_size_value")  # fmt: skip
# Parameters of SETTINGS by number (RFC 9113 6.5.2, RFC 8441), as tshark names their values.
SETTINGS = {1: "header_table_size", 2: "enable_push", 3: "max_concurrent_streams", 4: "initial_window_size",
            5: "max_frame_size", 6: "max_header_list_size", 8: "extended_connect"}  # fmt: skip


@dataclass
class Side:
    """One sender of a connection."""

    packets: int = 0
    mss: int | None = None
    wscale: int | None = None
    syn_window: int | None = None
    max_window: int | None = None
    payload: int = 0
    keep_alives: int = 0
    fragmented: int = 0
    # Frames by which kind of `AGAIN` they are; frames that follow a hole.
    again: dict[int, str] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    # Frames that show a packet once more, and the payload of each.
    twins: dict[int, int] = field(default_factory=dict)
    seen: set[tuple[str, ...]] = field(default_factory=set)
    # The sequence number of the sender's last RST, and later frames of a lower one: the RST overtook them.
    reset: int | None = None
    overtaken: set[int] = field(default_factory=set)


@dataclass
class Stream:
    """One connection."""

    first: int = 0
    rtt: float | None = None
    duration: float = 0.0
    openings: int = 0
    # Whether the server spoke on before the client's first ACK: "yes", "no", "" until that is known.
    early: str = ""
    answered: int = 0
    # SYNs and SYN-ACKs that were captured once more.
    doubled: int = 0
    sides: dict[tuple[str, int], Side] = field(default_factory=lambda: defaultdict(Side))


def streams(path: Path) -> dict[int, Stream]:
    """By first frame."""
    words = ["tshark", "-n", "-r", str(path), "-Y", "tcp && !icmp && !icmpv6", "-T", "fields", "-E", "separator=/t"]
    words += ["-E", "occurrence=f", *(word for name in FIELDS for word in ("-e", name))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[int, Stream] = defaultdict(Stream)
    for line in done.stdout.splitlines():
        row = dict(zip(FIELDS, line.split("\t"), strict=True))
        _take(found[int(row["tcp.stream"])], row)
    return {stream.first: stream for stream in found.values()}


def _take(stream: Stream, row: dict[str, str]) -> None:
    frame, flags = int(row["frame.number"]), int(row["tcp.flags"], 16)
    stream.first = stream.first or frame
    side = stream.sides[row["ip.src"] or row["ipv6.src"], int(row["tcp.srcport"])]
    side.packets += 1
    side.payload += int(row["tcp.len"])
    side.fragmented += bool(row["ip.fragment.count"] or row["ipv6.fragment.count"])
    stream.duration = max(stream.duration, float(row["tcp.time_relative"]))
    if row["tcp.analysis.initial_rtt"]:
        stream.rtt = float(row["tcp.analysis.initial_rtt"])
    if not flags & SYN and stream.answered and not stream.early:
        stream.early = "yes" if int(row["tcp.srcport"]) == stream.answered else "no"
    if flags & SYN and flags & ACK:
        stream.answered = stream.answered or int(row["tcp.srcport"])
    if flags & SYN:
        stream.openings += 1
        if side.syn_window is None:
            side.mss = int(row["tcp.options.mss_val"]) if row["tcp.options.mss_val"] else None
            side.wscale = int(row["tcp.options.wscale.shift"]) if row["tcp.options.wscale.shift"] else None
            side.syn_window = int(row["tcp.window_size_value"])
    elif flags & ACK and not flags & RST:
        side.max_window = max(side.max_window or 0, int(row["tcp.window_size"]))
    kind = next((name for name in AGAIN if row[f"tcp.analysis.{name}"]), "")
    if kind:
        side.again[frame] = kind
    side.keep_alives += bool(row["tcp.analysis.keep_alive"]) and int(row["tcp.len"]) == 1
    if row["tcp.analysis.lost_segment"]:
        side.lost.add(frame)
    sequence = int(row["tcp.seq_raw"])
    if side.reset is not None and (side.reset - sequence - 1) % (1 << 32) < 1 << 31:
        side.overtaken.add(frame)
    if flags & RST:
        side.reset = sequence
    header = tuple(row[name] for name in SAME)
    if header in side.seen:
        side.twins[frame] = int(row["tcp.len"])
        stream.doubled += bool(flags & SYN)
    side.seen.add(header)


def settings(path: Path, keys: Path | None, clear: int) -> dict[tuple[str, int], list[list[int]]]:
    """By the client's end: the first SETTINGS of its server, as (number, value). `clear`: the port of plain HTTP/2."""
    names = [f"http2.settings.{name}" for name in SETTINGS.values()]
    fields = ["tcp.srcport", "tcp.dstport", "ip.dst", "ipv6.dst", "http2.settings.id", *names]
    words = ["tshark", "-n", "-r", str(path), "-2", "-o", "tcp.reassemble_out_of_order:TRUE"]
    words += ["-d", f"tcp.port=={clear},http2"]
    words += ["-o", f"tls.keylog_file:{keys}"] if keys is not None and keys.exists() else []
    words += ["-Y", "http2.type == 4 && http2.flags.ack.settings == 0", "-T", "fields", "-E", "separator=/t"]
    done = subprocess.run([*words, *(w for f in fields for w in ("-e", f))], capture_output=True, text=True, check=True)
    found: dict[tuple[str, int], list[list[int]]] = {}
    for line in done.stdout.splitlines():
        row = dict(zip(fields, line.split("\t"), strict=True))
        if int(row["tcp.srcport"]) > int(row["tcp.dstport"]):
            continue
        values = {number: row[f"http2.settings.{name}"].split(",") for number, name in SETTINGS.items()}
        numbers = [int(number, 0) for number in row["http2.settings.id"].split(",") if number]
        end = row["ip.dst"] or row["ipv6.dst"], int(row["tcp.dstport"])
        found.setdefault(end, [[number, int(values[number].pop(0))] for number in numbers])
    return found
