# SPDX-License-Identifier: MIT
"""How far BPF reaches with each knob: what this kernel lets it set, in which range, and in words what it cannot.

The ranges are the kernel's own (`bpf_sol_tcp_setsockopt` of net/core/filter.c); a value outside them would be refused
at every connection, so it is refused here, once. What depends on the running kernel is asked of it: its type
information, its congestion controls, the length of its tick; and whether it carries congestion controls of ours, by
loading them (controls.py).
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from configtron.linux.libbpf import library, point
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach
from configtron.tune.drivers import congestion_controls
from configtron.tune.drivers.bpf import controls
from configtron.tune.drivers.bpf.layout import KEEPING, NAME_BYTES, PACED_UNBOUNDED, UNPACED
from configtron.tune.guard import DriverReach, check_reach
from configtron.tune.unsupported import UNSUPPORTED

KERNEL_TYPES = Path("/sys/kernel/btf")
# Its resolution is one tick of the kernel's timers (linux/include/uapi/linux/time.h).
_CLOCK_MONOTONIC_COARSE = 6
# linux/btf.h.
_STRUCT = 4
# TCP_RTO_MIN and TCP_DELACK_MAX, the most that bpf_setsockopt takes for either; TCP_TIMEOUT_MIN is the least.
_MOST_TIMEOUT_S, _LEAST_TIMEOUT_TICKS = 0.2, 2
# The shortest tick that a kernel can be built with (HZ 1000); `reaches` narrows it to this kernel's.
_LEAST_TICK_S = 0.001
# TCP_RTO_MAX: a longer answer is cut to it.
_RTO_MAX_S = 120.0
_INT = 0x7FFF_FFFF

# sol_tcp_sockopt_congestion of net/core/filter.c; dctcp without ECN is reno, and ECN is agreed on before the lookup.
_CONTROLS_REFUSED: tuple[tuple[Value, str], ...] = (
    ("cdg", "bpf_setsockopt refuses it; use the driver kmod or route"),
    ("dctcp", "it needs ECN, which is agreed on before a client's prefix is looked up; use the driver route"),
)
_BBR_KEEPS = "bbr never restarts after idle: with it 0 and 1 are the same"
REACHES: Mapping[str, Reach] = {
    reach.knob: reach
    for reach in (
        Reach("tcp_congestion_control", refused=_CONTROLS_REFUSED,
              note="its module is loaded before a profile asks for it"),
        Reach("initcwnd", least=1, most=1000,
              note="a client's first window bounds what shows of it; 1 after a SYN-ACK that was repeated twice"),
        Reach("tcp_slow_start_after_idle", values=(0, 1), note=f"0 needs cubic, reno or bbr; {_BBR_KEEPS}"),
        Reach("pacing", values=("pfifo_fast", "fq"), note="by the socket's own timer; a qdisc fq paces regardless"),
        Reach("max_pacing_rate", least=1, most=PACED_UNBOUNDED - 1, note="turns pacing on"),
        Reach("initrwnd", least=1, most=65535, note="can only lower what the buffer allows; 65535 bytes at most"),
        Reach("synack_rto", least=_LEAST_TICK_S, most=_RTO_MAX_S, note="rounded up to the kernel's tick"),
        Reach("min_rto", least=_LEAST_TIMEOUT_TICKS * _LEAST_TICK_S, most=_MOST_TIMEOUT_S,
              note="the handshake was timed with the old one: it sinks in slowly"),
        Reach("delack_max", least=_LEAST_TIMEOUT_TICKS * _LEAST_TICK_S, most=_MOST_TIMEOUT_S),
        Reach("notsent_lowat", least=1, most=_INT),
        Reach("window_clamp", least=1, most=_INT, note="the kernel raises it to half of its smallest receive buffer"),
        Reach("cwnd_clamp", least=1, most=_INT, note="slow start ends there too"),
        Reach("priority", least=0, most=_INT),
        Reach("mark", least=0, most=0xFFFF_FFFF),
        Reach("nagle", values=(0, 1), note="a server that sets TCP_NODELAY itself has the last word"),
    )
}  # fmt: skip

REFUSED: Mapping[str, str] = {
    **UNSUPPORTED,
    "tcp_low_latency": "no kernel since Linux 4.14 reads it",
    "tcp_autocorking": "decided from the namespace's sysctl, no hook for one connection; use the driver sysctl",
    "data_rto": "BPF may not write the time-out of a connection; the driver kmod can",
    "quickack": "bpf_setsockopt refuses TCP_QUICKACK; the drivers kmod and route can",
    "busy_poll": "bpf_setsockopt refuses SO_BUSY_POLL; the driver kmod can",
    "resume_cwnd": "TCP_BPF_IW is refused once data was sent, and no helper sets a window later; the driver kmod can",
    "resume_rtt": "it goes with resume_cwnd; the driver kmod can",
    "tcp_window_scaling": "agreed in the handshake, from the namespace's sysctl; use the driver sysctl",
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the running kernel can do for us.

    wrapped   our congestion controls that it can carry, each asked for when it is looked up
    iterates  whether move.bpf.c can run
    """

    ticks_per_s: int
    controls: tuple[str, ...]
    wrapped: Container[str]
    iterates: bool


class _Carriers(Container[str]):
    """Those of our congestion controls that the kernel loads: a plan without them does not wait for that."""

    def __contains__(self, control: object) -> bool:
        return has_types() and bool(controls.carried(str(control)).program)


def kernel() -> Kernel:
    """Return what the running kernel can do; its congestion controls are read at each call, the rest is asked once."""
    return Kernel(ticks_per_second(), congestion_controls.askable(), _Carriers(), _iterates())


def ticks_per_second() -> int:
    """Return HZ: 100 in User-Mode Linux, often 250 or 1000 elsewhere."""
    return round(1 / time.clock_getres(_CLOCK_MONOTONIC_COARSE))


def reaches(able: Kernel) -> dict[str, Reach]:
    """Return the table, narrowed to this kernel."""
    found = dict(REACHES)
    tick_s = 1 / able.ticks_per_s
    controls_taken = tuple(name for name in able.controls if name not in dict(_CONTROLS_REFUSED))
    found["tcp_congestion_control"] = replace(found["tcp_congestion_control"], values=controls_taken)
    found["synack_rto"] = replace(found["synack_rto"], least=tick_s)
    for knob in ("min_rto", "delack_max"):
        found[knob] = replace(found[knob], least=_LEAST_TIMEOUT_TICKS * tick_s)
    return found


def noted(able: Kernel) -> dict[str, Reach]:
    """Return the table of `reaches`, with notes of what this kernel does not carry."""
    found = reaches(able)
    if not any(ours in able.wrapped for ours in KEEPING.values()):
        note = f"0 is reached for bbr alone: {_explain_no_struct_ops(KEEPING['cubic'])}; {_BBR_KEEPS}"
        found["tcp_slow_start_after_idle"] = replace(found["tcp_slow_start_after_idle"], note=note)
    if not any(ours in able.wrapped for ours in UNPACED.values()):
        found["pacing"] = replace(found["pacing"], note=f"bbr stays paced: {_explain_no_struct_ops(UNPACED['bbr'])}")
    return found


def check(profile: Profile, able: Kernel) -> None:
    """Check that the whole profile can come in force. Errors: `BadInput`."""
    if len(profile.name.encode()) > NAME_BYTES or not profile.name or "\0" in profile.name:
        raise BadInput(f"profile {profile.name!r}: a name has 1 to {NAME_BYTES} bytes")
    check_reach(profile, DriverReach("ebpf", reaches(able), REFUSED))
    check_wrap(profile, able)


def check_wrap(profile: Profile, able: Kernel) -> None:
    """Check that the kernel carries the control of ours that a profile needs, if any. Errors: `BadInput`."""
    settings = dict(profile.settings)
    name = str(settings.get("tcp_congestion_control", ""))
    for knob, value, ours, natural in (
        # bbr's window is never cut; only bbr asks for pacing by itself
        ("tcp_slow_start_after_idle", 0, KEEPING, ("bbr",)),
        ("pacing", "pfifo_fast", UNPACED, tuple(set(able.controls) - {"bbr"})),
    ):
        if settings.get(knob) != value or name in natural:
            continue
        if not name:
            raise _out_of_reach(profile, knob, value, "say in the profile of which tcp_congestion_control")
        if name not in ours:
            raise _out_of_reach(profile, knob, value, f"{name} cannot be wrapped, only {', '.join(ours)}")
        if ours[name] not in able.wrapped:
            raise _out_of_reach(profile, knob, value, _explain_no_struct_ops(ours[name]))
    if settings.get("pacing") == "pfifo_fast" and "max_pacing_rate" in settings:
        raise _out_of_reach(profile, "max_pacing_rate", settings["max_pacing_rate"], "a rate is kept by pacing=fq")


def _out_of_reach(profile: Profile, knob: str, value: Value, why: str) -> BadInput:
    return BadInput(f"profile {profile.name}: {knob}={value!r} is out of reach of the driver ebpf: {why}")


def has_types() -> bool:
    """Return whether the kernel has its type information (CONFIG_DEBUG_INFO_BTF)."""
    return (KERNEL_TYPES / "vmlinux").exists()


def _explain_no_struct_ops(control: str) -> str:
    if not has_types():
        return "this kernel has no type information (CONFIG_DEBUG_INFO_BTF)"
    needs = "it needs the JIT, and for bbr Linux 6.10 and a loaded tcp_bbr whose types are the kernel's own"
    return f"this kernel did not load a congestion control of ours for it ({controls.carried(control).why}); {needs}"


@cache
def _iterates() -> bool:
    """Return whether move.bpf.c can run."""
    if not has_types():
        return False
    types = point("btf__load_vmlinux_btf")
    try:
        return int(library().btf__find_by_name_kind(types, b"bpf_iter__tcp", _STRUCT)) > 0
    finally:
        library().btf__free(types)
