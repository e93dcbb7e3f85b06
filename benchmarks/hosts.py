# SPDX-License-Identifier: MIT
"""Claim: configtron reads seven servers as their distributions ship them, and other people's tools read its evidence.

    python -m benchmarks.hosts [NAME...]      as root

Raises nginx, Apache, h2o, Caddy, HAProxy, lighttpd and nghttpd on this host (`tests/support/servers.py`), probes them
with the program itself, prints its table, then lets tshark read the pcapng. Exit code: the prober's; 1 if tshark
complains.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers import SERVERS, Raised, raised


def inputs(standing: Raised, folder: Path) -> list[str]:
    """Return the program's options: vantage, targets, and the permission to probe them."""
    v = standing.vantage
    (folder / "vantages.toml").write_text(
        f'[[vantage]]\nname = "host"\nregion = "this host"\nnetns = "{v.netns}"\ninterface = "{v.interface}"\n'
        f'source_address = "{v.source_address}"\n'
    )
    rows = [f"{target.address},{target.host},{target.provider},{target.port}\n" for target in standing.clear]
    (folder / "targets.csv").write_text("".join(rows))
    # Without this the special ranges, which these addresses are from, would not be probed.
    (folder / "allowed.txt").write_text("".join(f"{target.address}\n" for target in standing.clear))
    words = ["-i", "targets.csv", "--vantages", "vantages.toml", "-w", "allowed.txt", "--save-pcap", "packets"]
    return [sys.executable, "-m", "configtron", "--db", "hosts.db", "-q", "probe", "run", *words, "--profile", "quick"]


def witnessed(folder: Path) -> tuple[int, int, str]:
    """Frames and TCP streams that tshark sees in the pcapng files, and what it complains about."""
    frames, streams, complaints = 0, 0, ""
    for file in sorted(folder.rglob("*.pcapng")):
        fields = ["-T", "fields", "-e", "frame.number", "-e", "tcp.stream"]
        done = subprocess.run(["tshark", "-r", file, *fields], capture_output=True, text=True, check=False)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        frames += len(rows)
        streams += len({row[1] for row in rows if len(row) > 1 and row[1]})
        if done.returncode:
            complaints += done.stderr
    return frames, streams, complaints


def main(names: Sequence[str]) -> int:
    """Raise, probe, print, count."""
    with raised(names or tuple(SERVERS)) as standing, tempfile.TemporaryDirectory(prefix="hosts-") as name:
        folder = Path(name)
        command = inputs(standing, folder)
        print("running: configtron", *command[3:], flush=True)
        probed = subprocess.run(command, cwd=folder, check=False)
        frames, streams, complaints = witnessed(folder / "packets")
        print(f"tshark reads {frames} frames of {streams} TCP connections; {complaints or 'no complaint'}")
        return probed.returncode or (1 if complaints or not frames else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
