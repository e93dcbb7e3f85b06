# SPDX-License-Identifier: MIT
"""Network namespaces that carry their maker: their names, addresses, and whether the maker still lives.

Names carry the maker's pid and its start time (`configtron-<pid>-<start>-<what>`), so that the next start can find the
namespaces of a killed process even when another has its pid. A namespace takes its devices with it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from configtron.model.errors import Missing

_PREFIX = "configtron"


def ip(*arguments: str, netns: str = "") -> str:
    """Run iproute2's `ip`, in a namespace when named; its output."""
    command = ["ip", *(("-n", netns) if netns else ()), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise Missing("the `ip` program is absent; run: apt-get install iproute2") from None
    except subprocess.CalledProcessError as problem:
        raise Missing(f"`{' '.join(command)}` failed: {problem.stderr.strip()}") from None


def addresses(netns: str) -> dict[str, str]:
    """Return every address that the kernel owns in a namespace -> its device."""
    links = json.loads(ip("-json", "addr", "show", netns=netns))
    return {a["local"]: link["ifname"] for link in links for a in link.get("addr_info", ()) if "local" in a}


def owner(pid: int | None = None) -> str:
    """Return a living process as "<pid>-<start time>"; "" of a dead one."""
    pid = os.getpid() if pid is None else pid
    try:
        # The second field of /proc/PID/stat may hold spaces, so count from its closing bracket: state, ..., start time.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # Killed but not yet waited for (Z, X) is dead as well.
    return "" if fields[0] in "ZX" else f"{pid}-{fields[19]}"


def abandoned(name: str) -> bool:
    """Return whether a `configtron-<pid>-<start>...` (or with underscores) was left by a process that is gone."""
    parts = name.replace("_", "-").split("-")
    if len(parts) < 3 or parts[0] != _PREFIX or not (parts[1].isdigit() and parts[2].isdigit()):
        return False
    return owner(int(parts[1])) != f"{parts[1]}-{parts[2]}"


def is_own(name: str) -> bool:
    """Return whether a namespace is one that a living process of ours made."""
    return name.startswith(f"{_PREFIX}-") and name.count("-") >= 3 and not abandoned(name)
