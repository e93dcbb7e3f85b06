# SPDX-License-Identifier: MIT
"""What a shard runs on, by name and version: half of where a measured number comes from; the other half is its orders.

Reads as   pairs of text: our own files by checksum, the kernel by its recipe's, Debian's packages by version.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

import configtron
from configtron.lab.uml.kernel import cache_folder, checksum, kernel_folder
from configtron.model.samples import Pairs

# Whose version can change a page load: servers, TLS, libraries of the client and of all, what sets the network.
PACKAGES = ("nginx-light", "apache2-bin", "libssl3", "libnghttp2-14", "libc6", "iproute2")
# Our folders that act in the guest.
FOLDERS = ("lab", "linux", "model", "tune")


def software(client: str, player: str) -> Pairs:
    """Return the software of this host, in order of names. Both are paths of built programs."""
    found = {
        "configtron": configtron.__version__,
        "python": platform.python_version(),
        "sources": sources(),
        "kernel": kernel_folder().relative_to(cache_folder()).name,
        "client": checksum(Path(client))[:16],
        "player": checksum(Path(player))[:16],
        **versions(),
    }
    return tuple(sorted(found.items()))


def sources() -> str:
    """Return a checksum of our own files that act in the guest, by place and content."""
    root = Path(configtron.__file__).parent
    found: list[tuple[Path, Path]] = []
    for folder in ((root / name).resolve() for name in FOLDERS):
        found += [(folder.parent, path) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    text = "".join(
        f"{path.relative_to(above)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for above, path in sorted(found)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of the Debian packages that are installed; empty where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return {}
    asked = ["dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Status}\n", *PACKAGES]
    rows = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    return {row.split()[0]: row.split()[1] for row in rows if row.endswith(" installed")}
