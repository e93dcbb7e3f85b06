# SPDX-License-Identifier: MIT
"""How fast captures are read, beside other readers, in one run on one core.

    python -m benchmarks.parse [PACKETS]

Claims: the whole command reads at least 15 times as fast as tshark, from captures of page loads (full, and snapped to
128 bytes), of short connections and of long ones; with --stream, memory that does not grow with the capture. The others
are half as many packets in connections of 23 (short), a scan's connections that were refused or met silence (refused),
and six times as many packets in connections of 30 000 (long: 1 GB). Each is written in a temporary folder and removed.
Rates are per second of processor time (the machine may be busy) and without the start of the programs; best of three,
but of one for the gigabyte.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
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
# Readers that take minutes for what others do in a second read this many packets.
SAMPLE = 5_000
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
# A loop that reads what a flow needs; prototypes by hand, so that libpcap's header need not be installed.
C_LOOP = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
struct pcap_pkthdr { struct timeval ts; unsigned caplen, len; };
void *pcap_open_offline(const char *, char *);
int pcap_next_ex(void *, struct pcap_pkthdr **, const unsigned char **);
int main(int n, char **words) {
    char error[256]; struct pcap_pkthdr *h; const unsigned char *p;
    unsigned long packets = 0, syns = 0, sum = 0;
    void *file = pcap_open_offline(words[1], error);
    struct timespec a, b;
    if (!file) return 1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    while (pcap_next_ex(file, &h, &p) == 1) {
        unsigned at = 14, kind = p[12] << 8 | p[13];
        packets++;
        if (kind == 0x0800) { if (h->caplen < 54 || p[23] != 6) continue; at += (p[14] & 15) * 4; }
        else { if (h->caplen < 74 || p[20] != 6) continue; at += 40; }
        sum += p[at + 4] << 24 | p[at + 5] << 16 | p[at + 6] << 8 | p[at + 7];
        syns += p[at + 13] >> 1 & 1;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    printf("{\"packets\": %lu, \"seconds\": %f}\n", packets,
           (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9);
    return syns + sum == 0;
}
"""


class Measured(NamedTuple):
    """Packets, seconds of processor time, peak resident MB."""

    packets: int
    seconds: float
    peak_mb: float


def columns(path: str) -> int:
    """Headers as columns."""
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


def connections(path: str) -> int:
    """Everything about connections: handshakes, windows, first flights, repeats by cause, holes, order."""
    from configtron.fingerprint.capture.reading import read
    from configtron.fingerprint.capture.source import opened
    from configtron.fingerprint.passive.gathering import Gathering
    from configtron.fingerprint.passive.headers import decode

    gathering = Gathering()
    with opened(path) as source:
        for frames in read(source, gathering.counts):
            for _ in gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)):
                pass
    for _ in gathering.finish():
        pass
    return gathering.counts["tcp"]


def command(path: str, *more: str) -> int:
    """The command, with a CSV row a connection: traces, inferences, text."""
    from configtron.cli.outermost import run

    assert run(["-q", "fingerprint", "pcap", path, "-f", "csv", "-o", "/dev/null", *more]) == 0
    return 0


def stream(path: str) -> int:
    """The same, reporting connections as they end."""
    return command(path, "--stream")


def json_lines(path: str) -> int:
    """The command, with a line of JSON a connection: every parameter, where a CSV has four."""
    from configtron.cli.outermost import run

    assert run(["-q", "fingerprint", "pcap", path, "-f", "jsonl", "-o", "/dev/null"]) == 0
    return 0


def scapy(path: str) -> int:
    """scapy's reader, packets dissected."""
    from scapy.layers.inet import TCP
    from scapy.utils import PcapReader

    packets = 0
    with PcapReader(path) as reader:
        for packet in reader:
            packets += TCP in packet
            if packets >= SAMPLE:
                break
    return packets


OURS: dict[str, Callable[[str], int]] = {
    "configtron, columns": columns,
    "configtron, connections": connections,
    "configtron, command": command,
    "configtron, command --stream": stream,
    "configtron, command -f jsonl": json_lines,
    "scapy PcapReader": scapy,
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


def loop(folder: Path) -> str | None:
    """The C loop, compiled; None where there is no compiler or no libpcap."""
    source, program = folder / "loop.c", folder / "loop"
    source.write_text(C_LOOP)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    words = [compiler, "-O2", "-o", str(program), str(source), "-l:libpcap.so.0.8"]
    return str(program) if subprocess.run(words, capture_output=True).returncode == 0 else None


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
    count, runs = columns(str(path)), RUNS_LONG if kind == "long" else RUNS
    print(f"{kind}: {count} packets, {path.stat().st_size / 1e6:.0f} MB", flush=True)
    ours = [sys.executable, "-m", "benchmarks.parse", "--one"]
    rows = {one: by_itself([*ours, one, str(path)], count, runs) for one in OURS}
    if shutil.which("tshark"):
        rows["tshark -T fields"] = by_command(TSHARK, path, small, count, runs)
    if shutil.which("tcptrace"):
        rows["tcptrace -lrW"] = by_command(TCPTRACE, path, small, count, runs)
    program = loop(folder)
    if program is not None:
        rows["C loop on libpcap"] = by_itself([program, str(path)], count, runs)
    path.unlink()
    return _print(kind, rows)


def _print(kind: str, rows: dict[str, Measured]) -> bool:
    print(f"  {'reader':32} {'packets/s':>12} {'x tshark':>9} {'x tcptrace':>11} {'peak MB':>8}")
    rates = {name: row.packets / row.seconds for name, row in rows.items()}
    peers = [rates.get(name) for name in ("tshark -T fields", "tcptrace -lrW")]
    for name, row in rows.items():
        beside = [f"{rates[name] / peer:.2f}" if peer else "-" for peer in peers]
        print(f"  {name:32} {rates[name]:12.0f} {beside[0]:>9} {beside[1]:>11} {row.peak_mb:8.0f}", flush=True)
    return kind not in CLAIMED or peers[0] is None or rates["configtron, command"] >= CLAIM_TSHARK * peers[0]


def _memory(folder: Path, packets: int) -> bool:
    """Peaks of --stream for captures of 100 packets a second, each twice as long as the one before."""
    peaks = []
    for times in (4, 8, 16):
        path = folder / "long.pcap"
        write(path, packets * times, snap=96, pace_us=20_000)
        words = [
            sys.executable,
            "-m",
            "configtron",
            "-q",
            "fingerprint",
            "pcap",
            "--stream",
            "-f",
            "csv",
            "-o",
            "/dev/null",
        ]
        peaks.append(child([*words, str(path)])[2])
        print(f"--stream, {packets * times} packets: peak {peaks[-1]:.0f} MB")
        path.unlink()
    return max(peaks) < 1.2 * peaks[0]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        inside(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PACKETS))
