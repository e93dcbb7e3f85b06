# SPDX-License-Identifier: MIT
"""Claim: `probe plan` computes with unit costs that were measured: packets, bytes, SYNs and disk of each probe.

    python -m benchmarks.probe_costs [--sites N] [--seed N] [--write]

Probes the lab's internet (virtual time) once for each profile, from one region, at two starts a second to a host as
outside the lab, and counts what lies in its packets, journals and database. `--write` replaces
`probe/unit_costs.json`; without it, the deviation of this run's seed from that file is printed beside each figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from configtron import __version__
from configtron.db.store import Store
from configtron.model.choices import PROFILES, TESTS
from configtron.model.nouns import SYN, Packet
from configtron.model.records import result_to_json
from configtron.probe.costs import UnitCost, UnitCosts, cost, unit_costs
from configtron.probe.wire.journal import journal
from configtron.probe.wire.pcap import read_evidence
from configtron.service import campaign
from tests.support import ROOT

FILE = ROOT / "probe" / "unit_costs.json"
REGION, SITES, SEED = "na", 60, 1
# Starts a second to one host: the default outside the lab.
HOST_RATE_PER_S = 2.0
IP_HEADER_BYTES = {4: 20, 6: 40}
TCP_HEADER_BYTES = 20
DIGITS = 3


def size_of(packet: Packet) -> int:
    """Return the bytes of a packet with its IP header."""
    options = sum(1 if kind < 2 else 2 + len(body) for kind, body in packet.segment.options)
    return IP_HEADER_BYTES[packet.version] + TCP_HEADER_BYTES + (options + 3) // 4 * 4 + packet.segment.length


def of_packets(packets: tuple[Packet, ...]) -> UnitCost:
    """Return what one connection sent and received."""
    sent, heard = ([p for p in packets if p.way == way] for way in ("out", "in"))
    starts = sum(1 for p in sent if p.segment.flags & SYN)
    return UnitCost(1, starts, len(sent), len(heard), sum(map(size_of, sent)), sum(map(size_of, heard)))


def measured(profile: str, sites: int, seed: int) -> dict[str, object]:
    """Probe the lab by one profile; return a profile's object of the file."""
    with tempfile.TemporaryDirectory(prefix="costs-") as name:
        db = Path(name) / "costs.db"
        options = campaign.ProbeOptions(
            words=("alexa-top1k",), lab=True, sites=sites, seed=seed, profile=profile, region=REGION,
            rate_per_s=0.0, host_rate_per_s=HOST_RATE_PER_S, network_rate_per_s=0.0,
        )  # fmt: skip
        Store(db).close()
        empty = db.stat().st_size
        done = campaign.run(options, db)
        return counted(done.folder, db.stat().st_size - empty, sites)


def counted(folder: Path, database_bytes: int, sites: int) -> dict[str, object]:
    """Return the means a site of all that lies in a run's folder."""
    sums: dict[str, UnitCost] = defaultdict(UnitCost)
    spans: dict[str, list[float]] = defaultdict(list)
    for shard in sorted(folder.glob("lab-*")):
        for result in journal(shard):
            kept = UnitCost(
                evidence_bytes=result.evidence_end - result.evidence_offset,
                journal_bytes=len(result_to_json(result).encode()) + 1,
            )
            sums[result.probe] += kept
        for file in shard.glob("*.pcapng"):
            for trace in read_evidence(file):
                sums[trace.probe] += of_packets(trace.packets)
                end = trace.started_at / 1e9 + max((p.at for p in trace.packets), default=0.0)
                spans[trace.id.rpartition("/")[0]] += [trace.started_at / 1e9, end]
    journal_bytes = sum(one.journal_bytes for one in sums.values())
    for probe, one in sums.items():
        sums[probe] = replace(one, database_bytes=database_bytes * one.journal_bytes / journal_bytes)
    session_s = sum(max(span) - min(span) for span in spans.values()) / sites
    means = {probe: {k: round(v / sites, DIGITS) for k, v in asdict(one).items()} for probe, one in sums.items()}
    return {"session_s": round(session_s, DIGITS), "probes": dict(sorted(means.items()))}


def main(arguments: list[str]) -> None:
    """Measure each profile, print it, and write the file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe_costs")
    parser.add_argument("--sites", type=int, default=SITES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(arguments)
    profiles = {profile: measured(profile, given.sites, given.seed) for profile in PROFILES}
    day = datetime.now(UTC).date().isoformat()
    how = f"{day}, configtron {__version__}, lab, {given.sites} sites, seed {given.seed}: benchmarks.probe_costs"
    text = json.dumps({"measured": how, "profiles": profiles}, indent=1) + "\n"
    before = unit_costs(FILE.read_text() if FILE.exists() and not given.write else text)
    names = ("connections", "SYNs", "packets", "bytes", "disk bytes", "session s")
    print(f"{'a target':<12}" + "".join(f"{name:>18}" for name in names))
    for profile in PROFILES:
        now, then = (_figures(units, profile) for units in (unit_costs(text), before))
        print(f"{profile:<12}" + "".join(f"{a:>11.1f} {a / b - 1:+6.1%}" for a, b in zip(now, then, strict=True)))
    if given.write:
        FILE.write_text(text)


def _figures(units: UnitCosts, profile: str) -> tuple[float, ...]:
    many = 1_000_000
    found = cost(units, many, 1, profile, frozenset(TESTS), 0, 1)
    figures = (found.connections, found.starts, found.packets_out + found.packets_in, found.bytes_out + found.bytes_in)
    return tuple(one / many for one in (*figures, found.disk_bytes, found.hours * 3600))


if __name__ == "__main__":
    main(sys.argv[1:])
