# SPDX-License-Identifier: MIT
"""A bare Debian 12 with systemd, on which the blocks of the documents are run (tests/test_pages.py).

It is made once and kept in the cache of configtron. This repository and its environment are mounted at their own place.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configtron.lab.internet.bpf import compiled
from configtron.lab.uml.kernel import cache_folder, key
from tests.support import ROOT
from tests.support.containers import Container, container, network

MIRROR = "http://deb.debian.org/debian"
# What a host has, or a page asks for; the servers of the lab at the end.
PACKAGES = (
    "systemd systemd-sysv dbus init-system-helpers iproute2 iputils-ping procps libbpf1 libpcap0.8 nginx-light "
    "libnginx-mod-stream openssl ca-certificates nftables ethtool kmod python3 python3-venv sudo sqlite3 curl make "
    "apache2 nodejs"
).split()


class Unmade(Exception):
    """No bare Debian can be made here; the text is the reason."""


def tree() -> Path:
    """Return the root folder, made if it is not there. Errors: `Unmade`."""
    root = cache_folder() / f"bare-debian-{key(*map(str.encode, PACKAGES))}"
    for program in ("debootstrap", "systemd-nspawn"):
        if not shutil.which(program):
            raise Unmade(f"{program} is missing (debian-packages.txt)")
    if not root.exists():
        part = root.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(part), MIRROR]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unmade(f"debootstrap from {MIRROR}: {done.stdout[-500:]}{done.stderr[-500:]}")
        # nginx has port 80; the lab starts its own Apache.
        (part / "etc/systemd/system/multi-user.target.wants/apache2.service").unlink()
        part.rename(root)
    return root


@contextmanager
def bare_debian(name: str) -> Iterator[Container]:
    """Boot it in a network of its own, with what this host has built of the lab. Errors: `Unmade`."""
    root = tree()
    for source in (ROOT / "configtron/lab").rglob("*.bpf.c"):
        compiled(source)
    built = [*cache_folder().glob("kernel-*"), *cache_folder().glob("*.o")]
    bound = [f"{ROOT}:{ROOT}", *(f"{path}:/root/.cache/configtron/{path.name}" for path in built)]
    with network([name]), container(root, name, bound) as host:
        yield host
