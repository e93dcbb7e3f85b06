# SPDX-License-Identifier: MIT
"""A place of its own for the driver `ebpf`, for programs that run apart, and what is left at it, whatever another one
holds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from configtron.model.tuning import Place
from configtron.tune.drivers.bpf import controls, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support.waiting import until

# Of process numbers each namespace has its own.
GROUP = f"configtron-test-{os.urandom(4).hex()}"
PLACE = Place(cgroup=GROUP)
_BEFORE = controls.registered()


def nothing_left() -> bool:
    """No pin in our BPF file system, and of our congestion controls none that another configtron may not want.

    One that ends beside us may have taken its programs away and not yet its controls: that is waited for.
    """
    with suppress(AssertionError):
        until(lambda: controls.registered() <= _BEFORE or controls.attached(), patience_s=10)
    return not pins.ROOT.exists() and (controls.registered() <= _BEFORE or controls.attached())


@contextmanager
def placed(place: Place = PLACE) -> Iterator[tuple[EbpfDriver, str]]:
    """A driver with a control group of its own, and what stood there before; both gone at the end, however it ends."""
    group = pins.mounts("cgroup2")[0] / GROUP
    group.mkdir()
    driver = EbpfDriver(place)
    before = driver.before()
    try:
        yield driver, before
    finally:
        driver.revert(before)
        group.rmdir()


@contextmanager
def serving() -> Iterator[Path]:
    """The loopback is up, and this process, with the sockets that it makes, in that group for the length of a block.

    Yields what takes a process to the group that this one was in.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    root, home = pins.mounts("cgroup2")[0], Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    back = root / home / "cgroup.procs"
    (root / GROUP / "cgroup.procs").write_text("0")
    try:
        yield back
    finally:
        back.write_text("0")
