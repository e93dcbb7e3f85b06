# SPDX-License-Identifier: MIT
"""What the driver `ebpf` leaves behind, reported by programs that run apart, whatever another one holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from configtron.model.tuning import Place
from configtron.tune.drivers.bpf import controls, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver

# Of process numbers each namespace has its own.
GROUP = f"configtron-test-{os.urandom(4).hex()}"
PLACE = Place(cgroup=GROUP)
_BEFORE = controls.registered()


def nothing_left() -> bool:
    """No pin in our BPF file system, and of our congestion controls none that another configtron may not want."""
    return not pins.ROOT.exists() and (controls.registered() <= _BEFORE or controls.attached())


@contextmanager
def placed() -> Iterator[tuple[EbpfDriver, str]]:
    """A driver at a control group of its own, and what stood there before; both gone at the end, however it ends."""
    group = pins.mounts("cgroup2")[0] / GROUP
    group.mkdir()
    driver = EbpfDriver(PLACE)
    before = driver.before()
    try:
        yield driver, before
    finally:
        driver.revert(before)
        group.rmdir()
