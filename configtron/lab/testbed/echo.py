# SPDX-License-Identifier: MIT
"""The receiver of datagrams in the client's kernel (echo.bpf.c): attached once to each device, read back. In the guest.

    attach(player.echo(program), CLIENT, CLIENT_DEVICE)      without the object file, which needs clang, it does nothing

Where it is not attached, `datagrams.c` echoes: the same packets at the same moments, for twice the host's work.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path

from configtron.lab.internet import bpf
from configtron.lab.testbed.wires import FAR
from configtron.linux.netns import inside
from configtron.model.errors import Missing

PINS_ROOT = Path("/run/echo")


@cache
def attach(built: Path, netns: str, device: str) -> None:
    """Attach to what comes in by a device; a second call does nothing. Errors: `Missing`."""
    if not built.exists():
        return
    # the player's device has no Ethernet headers
    name = "echo_packets" if device == FAR else "echo_frames"
    with inside(netns):
        _tc("qdisc", "add", "dev", device, "clsact")
        _tc(
            "filter", "add", "dev", device, "ingress", "bpf", "direct-action", "object-pinned", str(_pins(built) / name)
        )
        if name not in _tc("filter", "show", "dev", device, "ingress"):
            raise Missing(f"{netns}: {device} has no {name}")


@cache
def _pins(built: Path) -> Path:
    """Load the programs; return the folder that has them by name."""
    PINS_ROOT.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", str(PINS_ROOT).encode(), b"bpf", 0, None):
        raise Missing(f"cannot mount bpf on {PINS_ROOT}: {os.strerror(ctypes.get_errno())}")
    bpf.load(built, PINS_ROOT / "programs", PINS_ROOT / "maps")
    return PINS_ROOT / "programs"


def _tc(*words: str) -> str:
    done = subprocess.run(["tc", *words], capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"tc {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
