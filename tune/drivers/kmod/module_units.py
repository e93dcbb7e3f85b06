# SPDX-License-Identifier: MIT
"""Between our words and the module's: knobs and keys, seconds and microseconds, prefixes as text and packed.

Pure but for the list of congestion controls: what the module takes is asked of the module (`Parameter`), so a kernel
that can do more or less changes nothing here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from struct import error

from configtron.model.congestion import OF_TABLE1
from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach
from configtron.tune.drivers.congestion_controls import askable
from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.abi import KEY_OF
from configtron.tune.drivers.kmod.device import PREFIX, Parameter
from configtron.tune.guard import DriverReach, check_reach
from configtron.tune.unsupported import UNSUPPORTED

US_PER_S = 1_000_000
# The paper's names of the two qdiscs are how a socket sends: in one burst, or spread out.
PACING: Mapping[str, int] = {"pfifo_fast": 0, "fq": 1}
# Where in a structure `prefix` its profile stands, in words of 32 bits.
PROFILE_WORD = 1
KNOB_OF: Mapping[int, str] = {key: knob for knob, key in KEY_OF.items()}

# What needs ECN (TCP_CONG_NEEDS_ECN): of the kernel's own dctcp alone. The module refuses by the flag whatever has it.
NEEDS_ECN = "it needs ECN, which SYN and SYN-ACK agree on before a client's profile is looked up; use driver route"
CONTROLS_REFUSED: tuple[tuple[Value, str], ...] = (("dctcp", NEEDS_ECN),)
CONTROL_NOTE = "any that the kernel has, but struct_ops and those that need ECN (dctcp): use driver route"

# What the module sets on Linux 6.12, as kmod/params.c has it (tests/tune/test_kmod_guest.py compares); what the running
# kernel's module says itself is `reaches`. `quickack` needs 6.12, `busy_poll` a kernel built with it.
REACHES: Mapping[str, Reach] = {
    reach.knob: reach
    for reach in (
        Reach("tcp_congestion_control", note=CONTROL_NOTE, refused=CONTROLS_REFUSED),
        Reach("initcwnd", least=1, most=1000, note="also the restart window after idle, but not under bbr"),
        Reach(
            "tcp_slow_start_after_idle",
            values=(0, 1),
            note="0 acts for reno, cubic, vegas; bbr never slows down after idle, whatever is set",
        ),
        Reach(
            "pacing",
            values=tuple(PACING),
            note="1: the socket paces itself; 0 takes bbr's pacing away too; fq on the device paces anyhow",
        ),
        Reach("max_pacing_rate", least=1000, most=1 << 50, note="turns pacing on"),
        Reach("min_rto", least=0.001, most=120, note="in the kernel's ticks; a route's locked rto_min wins"),
        Reach(
            "data_rto",
            least=0.001,
            most=120,
            note="until the first round trip of data; after TCP Fast Open the handshake's round trip rules",
        ),
        Reach("delack_max", least=0.001, most=0.2, note="in the kernel's ticks"),
        Reach("notsent_lowat", least=1, most=0xFFFF_FFFF, note="as TCP_NOTSENT_LOWAT"),
        Reach(
            "window_clamp",
            least=1152,
            most=0x7FFF_FFFF,
            note="as TCP_WINDOW_CLAMP: autotuning may raise it; the SYN-ACK's window is out of reach",
        ),
        Reach("cwnd_clamp", least=1, most=65535, note="bounds every congestion window, the first too"),
        Reach(
            "priority",
            least=0,
            most=0xFFFF_FFFF,
            note="as SO_PRIORITY; or a class of the device's qdisc: 0x10020 is 1:20",
        ),
        Reach("mark", least=0, most=0xFFFF_FFFF, note="as SO_MARK; the SYN-ACK has left without it"),
        Reach(
            "busy_poll", least=0, most=10_000, note="microseconds to poll the device for data; only with NAPI devices"
        ),
        Reach("quickack", values=(0, 1), note="ACKs are not delayed; until the connection's route changes"),
        Reach("nagle", values=(0, 1), note="0 is TCP_NODELAY; a server that sets that itself has the last word"),
        Reach(
            "resume_cwnd",
            least=4,
            most=65535,
            note="Careful Resume (RFC 9959) to half of it; with resume_rtt; reno, cubic, vegas",
        ),
        Reach(
            "resume_rtt",
            least=0.000001,
            most=120,
            note="round trip that resume_cwnd was learned at; over half to ten times of it resumes",
        ),
    )
}

# Congestion controls of CT Table 1 that leave room for the state of Careful Resume (kmod/real.c).
RESUMING = tuple(name for name in OF_TABLE1 if name != "bbr")

# What no kernel lets the module set. `quickack` and `busy_poll` depend on the kernel: the module's own table shows it.
REFUSED: Mapping[str, str] = {
    **UNSUPPORTED,
    "tcp_low_latency": "no kernel since Linux 4.14 reads it; busy_poll is what it became",
    "tcp_autocorking": "read from the namespace's sysctl in sendmsg, where no hook is safe with kTLS; driver sysctl",
    "synack_rto": "the SYN-ACK is sent before a congestion control is asked; driver ebpf",
    "initrwnd": "the SYN-ACK is sent before a congestion control is asked; drivers ebpf and route",
    "tcp_window_scaling": "agreed in the handshake, from the namespace's sysctl; driver sysctl",
}


def reaches(parameters: Iterable[Parameter]) -> dict[str, Reach]:
    """Return what the module of the running kernel sets, in the units of `knobs.py`."""
    return {parameter.name: _reach(parameter) for parameter in parameters if parameter.settable}


def _reach(parameter: Parameter) -> Reach:
    knob = parameter.name
    if parameter.text:
        values = tuple(name for name in askable() if name not in dict(CONTROLS_REFUSED))
        return Reach(knob, values=values, note=parameter.words, refused=CONTROLS_REFUSED)
    if knob == "pacing":
        return Reach(knob, values=tuple(PACING), note=parameter.words)
    if (parameter.least, parameter.most) == (0, 1):
        return Reach(knob, values=(0, 1), note=parameter.words)
    unit = US_PER_S if parameter.unit == "us" and KNOBS[knob].unit == "s" else 1
    return Reach(knob, least=parameter.least / unit, most=parameter.most / unit, note=parameter.words)


def checked(profile: Profile, able: Mapping[str, Reach]) -> dict[int, int | str]:
    """Key -> value as the module takes it. Errors: `BadInput`, with what the knob takes or who can set it."""
    name = profile.name.encode()
    if not name or len(name) >= abi.NAME_BYTES or b"\0" in name:
        raise BadInput(f"profile {profile.name!r}: a name has 1 to {abi.NAME_BYTES - 1} bytes")
    check_reach(profile, DriverReach("kmod", able, REFUSED))
    if why := _resumes_in_part(dict(profile.settings)):
        raise BadInput(f"profile {profile.name}: {why}")
    return {KEY_OF[knob]: _number(knob, value) for knob, value in profile.settings}


def _resumes_in_part(settings: Mapping[str, Value]) -> str:
    """Return why Careful Resume cannot be had with these settings, "" where it can or is not asked for."""
    if ("resume_cwnd" in settings) != ("resume_rtt" in settings):
        return "resume_cwnd and resume_rtt belong together: the window, and the round trip that it was learned at"
    control = settings.get("tcp_congestion_control", RESUMING[0])
    if "resume_cwnd" in settings and control not in RESUMING:
        return f"resume_cwnd is out of reach under {control}: it leaves no room for it; {', '.join(RESUMING)} do"
    return ""


def _number(knob: str, value: Value) -> int | str:
    if knob == "tcp_congestion_control":
        return str(value)
    if knob == "pacing":
        return PACING[str(value)]
    assert isinstance(value, int | float)
    return round(value * US_PER_S) if KNOBS[knob].unit == "s" else int(value)


def setting(numbers: Mapping[int, int | str]) -> tuple[tuple[str, Value], ...]:
    """Return what `checked` made, back in our words."""
    return tuple((KNOB_OF[key], _value(KNOB_OF[key], value)) for key, value in numbers.items())


def _value(knob: str, value: int | str) -> Value:
    if knob == "pacing":
        return next(name for name, number in PACING.items() if number == value)
    if isinstance(value, int) and KNOBS[knob].unit == "s":
        return value / US_PER_S
    return value


def packed(prefixes: Mapping[str, int]) -> bytearray:
    """Prefix as rules write it -> profile, as structures one after the other, in the mapping's order."""
    pack, parse, v4, v6 = PREFIX.pack_into, socket.inet_pton, socket.AF_INET, socket.AF_INET6
    # one piece of memory: a hundred thousand small ones would cost more than all the rest
    found, at = bytearray(len(prefixes) * PREFIX.size), 0
    for prefix, profile in prefixes.items():
        address, _, length = prefix.partition("/")
        family = v6 if ":" in address else v4
        try:
            pack(found, at, family, int(length), 0, profile, parse(family, address))
        except (OSError, ValueError, error) as why:
            raise BadInput(f"{prefix!r} is no prefix as rules write it, e.g. 192.0.2.0/24 or 2001:db8::/48") from why
        at += PREFIX.size
    return found


def profiles_of(structures: bytearray) -> memoryview:
    """Return the profile of each of `packed`, to be read and to be written."""
    words = memoryview(structures).cast("I")
    return words[PROFILE_WORD :: PREFIX.size // words.itemsize]


def format_prefix(prefix: bytes) -> str:
    """Return a structure's prefix as rules write it."""
    family, length, _, _, address = PREFIX.unpack(prefix)
    if family == socket.AF_INET:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}/{length}"
    # inet_ntop writes ::1.2.3.4 where `ipaddress` writes ::102:304
    return f"{ip_address(address)}/{length}"
