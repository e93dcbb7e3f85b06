"""What the driver `ebpf` leaves behind, told by programs that run apart, whatever another one holds."""

from __future__ import annotations

import os

from configtron.tune.drivers.bpf import controls, pins

# Of process numbers each namespace has its own.
GROUP = f"configtron-test-{os.urandom(4).hex()}"
_BEFORE = controls.registered()


def nothing_left() -> bool:
    """No pin in our BPF file system, and of our congestion controls none that another configtron may not want."""
    return not pins.ROOT.exists() and (controls.registered() <= _BEFORE or controls.attached())
