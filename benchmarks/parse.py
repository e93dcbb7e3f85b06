# SPDX-License-Identifier: MIT
"""How fast captures are read, beside tshark and tcptrace, in one run on one core.

    python -m benchmarks.parse [PACKETS]

Claims: the whole command reads at least 15 times as fast as tshark, from captures of page loads (full, and snapped to
128 bytes), of short connections and of long ones, in memory that does not grow with the capture. The others
are half as many packets in connections of 23 (short), a scan's connections that were refused or met silence (refused),
and six times as many packets in connections of 30 000 (long: 1 GB). Each is written in a temporary folder and removed.
Rates are per second of processor time (the machine may be busy) and without the start of the programs; best of three,
but tshark, which takes as long as all others together, and the long capture are read once.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.synthetic_capture import LONG, PACKETS, SHORT, SNAP, write, write_refused

# The gigabyte takes tshark half a minute, so it is read once.
RUNS, RUNS_LONG = 3, 1
FIELDS = (
    "frame.time_epoch ip.src ip.dst ipv6.src ipv6.dst tcp.srcport tcp.dstport tcp.seq_raw tcp.ack_raw tcp.flags "
    "tcp.window_size_value tcp.len tcp.options.mss_val"
).split()
# A connection that no server takes has some 1.75 segments.
REFUSED_PACKETS = 1.75
# Captures, and how each of so many packets is written.
CAPTURES: dict[str, Callable[[Path, int], None]] = {
    "full": lambda path, packets: write(path, packets),
    "snapped": lambda path, packets: write(path, packets, snap=SNAP),
    "short": lambda path, packets: write(path, packets // 2, shape=SHORT),
    "refused": lambda path, packets: write_refused(path, round(packets / 4 / REFUSED_PACKETS)),
    "long": lambda path, packets: write(path, packets * 6, shape=LONG),
}
# A scan's connections have no claim: there is more text to write than packets to read.
CLAIMED, CLAIM_TSHARK = ("full", "snapped", "short", "long"), 15
# Bytes of a packet in the longest capture, rounded up: what must be free on the disk.
PACKET_BYTES = 1000
TSHARK = ["tshark", "-n", "-T", "fields", *(word for field in FIELDS for word in ("-e", field)), "-r"]
TCPTRACE = ["tcptrace", "-n", "-l", "-r", "-W"]


class Measured(NamedTuple):
    """Packets, seconds of processor time, peak resident MB."""

    packets: int
    seconds: float
    peak_mb: float


def packets_of(path: str) -> int:
    """Return how many TCP packets a capture has."""
    from configtron.fingerprint.capture.reading import read
    from configtron.fingerprint.capture.source import opened
    from configtron.fingerprint.passive.columns import Pairs
    from configtron.fingerprint.passive.headers import decode
    from configtron.fingerprint.passive.heads import Heads

    counts: Counter[str] = Counter()
    pairs, heads = Pairs(), Heads()
    with opened(path) as source:
        for frames in read(source, counts):
            decode(frames, pairs, heads, counts)
    return counts["tcp"]


def command(path: str, *more: str) -> int:
    """The command, with a CSV row a connection: traces, inferences, text."""
    from configtron.cli.outermost import run

    assert run(["-q", "fingerprint", "pcap", path, "-f", "csv", "-o", "/dev/null", *more]) == 0
    return 0


def table(path: str) -> int:
    """The command as people type it: the worst connections in a table."""
    return command(path, "-f", "table")


def json_lines(path: str) -> int:
    """The command, with a line of JSON a connection: every parameter, where a CSV has four."""
    from configtron.cli.outermost import run

    assert run(["-q", "fingerprint", "pcap", path, "-f", "jsonl", "-o", "/dev/null"]) == 0
    return 0


OURS: dict[str, Callable[[str], int]] = {
    "configtron, command": command,
    "configtron, command -f table": table,
    "configtron, command -f jsonl": json_lines,
}


def inside(name: str, path: str) -> None:
    """Run one reader in this process, with nothing left to import; say what it took."""
    small = Path(tempfile.gettempdir()) / f"ct-small-{os.getpid()}.pcap"
    write(small, 200)
    OURS[name](str(small))
    small.unlink()
    began = time.process_time()
    packets = OURS[name](path)
    print(json.dumps({"packets": packets, "seconds": time.process_time() - began}))


def child(words: list[str]) -> tuple[str, float, float]:
    """Run a program: what it printed, its processor seconds, its peak in MB."""
    with tempfile.TemporaryFile() as out:
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, status, usage = os.wait4(pid, 0)
        assert status == 0, words
        out.seek(0)
        text = out.read(1 << 16).decode()
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def by_itself(words: list[str], packets: int, runs: int) -> Measured:
    """A program that says itself how long it read."""
    found = []
    for _ in range(runs):
        text, _, peak = child(words)
        figures = json.loads(text)
        found.append(Measured(figures["packets"] or packets, figures["seconds"], peak))
    return min(found, key=lambda one: one.seconds)


def by_command(words: list[str], path: Path, small: Path, packets: int, runs: int) -> Measured:
    """A program that names its file last; what it takes for a few packets is taken off."""
    took = min(child([*words, str(path)])[1:] for _ in range(runs))
    start = min(child([*words, str(small)])[1] for _ in range(RUNS))
    return Measured(packets, took[0] - start, took[1])


def main(packets: int) -> int:
    """Print a table; 1 if a claim does not hold."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1"}
    holds = True
    with tempfile.TemporaryDirectory(prefix="ct-parse-") as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < packets * 6 * PACKET_BYTES:
            raise SystemExit(f"{folder}: {packets * 6 * PACKET_BYTES / 1e9:.1f} GB must be free; name fewer PACKETS")
        for kind in CAPTURES:
            holds = _capture(folder, kind, packets) and holds
        holds = _memory(folder, packets) and holds
    return 0 if holds else 1


def _capture(folder: Path, kind: str, packets: int) -> bool:
    """Print a table of one capture; return whether its claim holds."""
    small, path = folder / "small.pcap", folder / f"{kind}.pcap"
    write(small, 10)
    CAPTURES[kind](path, packets)
    count, runs = packets_of(str(path)), RUNS_LONG if kind == "long" else RUNS
    print(f"{kind}: {count} packets, {path.stat().st_size / 1e6:.0f} MB", flush=True)
    ours = [sys.executable, "-m", "benchmarks.parse", "--one"]
    rows = {one: by_itself([*ours, one, str(path)], count, runs) for one in OURS}
    if shutil.which("tshark"):
        # once: it takes as long as all others together
        rows["tshark -T fields"] = by_command(TSHARK, path, small, count, 1)
    if shutil.which("tcptrace"):
        rows["tcptrace -lrW"] = by_command(TCPTRACE, path, small, count, runs)
    print(f"  CPU s with their start: {whole(str(path))}", flush=True)
    path.unlink()
    return _print(kind, rows)


def whole(path: str) -> str:
    """Return what each command takes once, as users run it; the second without the native reader."""
    ours = [sys.executable, "-m", "configtron", "-q", "fingerprint", "pcap", "-o", "/dev/null", "-f"]
    words = {form: [*ours, form] for form in ("csv", "jsonl", "table")} | {"servers": [*ours, "csv", "--servers"]}
    words |= {"csv by Python": ["env", "CONFIGTRON_NATIVE=0", *ours, "csv"], "capinfos": ["capinfos"]}
    words |= {"tshark": TSHARK, "tcptrace": TCPTRACE, "argus": ["argus", "-w", "/dev/null", "-r"]}
    there = {name: one for name, one in words.items() if shutil.which(one[0])}
    return ", ".join(f"{name} {child([*one, path])[1]:.2f}" for name, one in there.items())


def _print(kind: str, rows: dict[str, Measured]) -> bool:
    print(f"  {'reader':32} {'packets/s':>12} {'x tshark':>9} {'x tcptrace':>11} {'peak MB':>8}")
    rates = {name: row.packets / row.seconds for name, row in rows.items()}
    peers = [rates.get(name) for name in ("tshark -T fields", "tcptrace -lrW")]
    for name, row in rows.items():
        beside = [f"{rates[name] / peer:.2f}" if peer else "-" for peer in peers]
        print(f"  {name:32} {rates[name]:12.0f} {beside[0]:>9} {beside[1]:>11} {row.peak_mb:8.0f}", flush=True)
    return kind not in CLAIMED or peers[0] is None or rates["configtron, command"] >= CLAIM_TSHARK * peers[0]


def _memory(folder: Path, packets: int) -> bool:
    """Peaks for captures of 100 packets a second, each twice as long as the one before."""
    peaks = []
    for times in (4, 8, 16):
        path = folder / "long.pcap"
        write(path, packets * times, snap=96, pace_us=20_000)
        words = f"{sys.executable} -m configtron -q fingerprint pcap -f csv -o /dev/null".split()
        peaks.append(child([*words, str(path)])[2])
        print(f"{packets * times} packets: peak {peaks[-1]:.0f} MB")
        path.unlink()
    return max(peaks) < 1.2 * peaks[0]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        inside(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PACKETS))
