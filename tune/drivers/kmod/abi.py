# SPDX-License-Identifier: MIT
"""`kmod/configtron.h` for Python's `struct`: numbers of calls, layouts of arguments, keys and flags.

One table a purpose, in the header's order. tests/tune/test_kmod_abi.py compiles the header and compares every size,
offset, number and flag, so neither can change without the other. No structure has hidden padding: a layout's format is
its fields' codes one after the other.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from configtron.model.knobs import KERNEL

DEVICE = "/dev/configtron"
ABI = 4
# TCP_CA_NAME_MAX, and a profile's name; the closing NUL counts.
CC_BYTES, NAME_BYTES = 16, 64
# Local ports that options may name.
PORTS = 32

# structure -> its fields and their `struct` codes; arrays of numbers are bytes, as `struct` packs them
LAYOUTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "version": (
        ("abi", "I"), ("features", "I"), ("parameters", "I"), ("profiles_max", "I"), ("prefixes_max", "I"),
        ("record_bytes", "I"), ("release", "16s"),
    ),
    "param_info": (
        ("key", "I"), ("flags", "I"), ("min", "q"), ("max", "q"), ("name", "64s"), ("unit", "16s"), ("words", "104s"),
    ),
    "param": (("key", "I"), ("flags", "I"), ("value", "q"), ("text", "16s")),
    "profile": (("id", "I"), ("reserved", "I"), ("name", "64s")),
    "params": (("profile", "I"), ("flags", "I"), ("count", "I"), ("refused", "I"), ("params", "Q")),
    "prefix": (("family", "B"), ("length", "B"), ("reserved", "H"), ("profile", "I"), ("address", "16s")),
    "prefixes": (("prefixes", "Q"), ("count", "I"), ("done", "I"), ("flags", "I"), ("reserved", "I")),
    "flush": (("profile", "I"), ("removed", "I")),
    "socket": (("fd", "i"), ("profile", "I")),
    "socket_params": (("fd", "i"), ("profile", "I"), ("count", "I"), ("reserved", "I"), ("params", "Q")),
    "options": (("flags", "I"), ("unmatched", "I"), ("plain", "16s"), ("ports", "64s")),
    "status": (
        ("generation", "Q"), ("records", "Q"), ("records_lost", "Q"), ("profiles", "I"), ("prefixes", "I"),
        ("versions", "I"), ("readers", "I"),
    ),
    "stats": (
        ("profile", "I"), ("prefixes", "I"), ("opened", "Q"), ("closed", "Q"), ("bytes_acked", "Q"), ("segs_out", "Q"),
        ("retrans", "Q"), ("srtt_us", "Q"), ("min_rtt_us", "Q"), ("replaced", "Q"),
    ),
    "records": (("capacity", "I"), ("reserved", "I")),
    "mix": (("profile", "I"), ("arms", "I"), ("upto", "16s"), ("arm", "32s")),
    "plan": (
        ("key", "16s"), ("epoch", "Q"), ("not_after", "Q"), ("mixes", "Q"), ("count", "I"), ("held", "I"),
        ("held_profile", "I"), ("reserved", "I"), ("band_us", "16s"), ("band_class", "16s"),
    ),
    "lease": (("not_after", "Q"),),
    "mixes": (("mixes", "Q"), ("count", "I"), ("reserved", "I")),
    "plan_status": (
        ("flags", "I"), ("mixes", "I"), ("epoch", "Q"), ("not_after", "Q"), ("next_epoch", "Q"), ("held", "I"),
        ("held_profile", "I"),
    ),
    "record": (
        ("time_ns", "Q"), ("boot_ns", "Q"), ("socket", "Q"), ("cookie", "Q"), ("epoch", "Q"), ("bytes_acked", "Q"),
        ("bytes_received", "Q"), ("bytes_retrans", "Q"), ("busy_us", "Q"), ("rwnd_limited_us", "Q"),
        ("delivery_rate", "Q"), ("lost", "I"), ("profile", "I"), ("version", "I"), ("class_profile", "I"),
        ("handshake_us", "I"), ("segs_out", "I"), ("retrans", "I"), ("srtt_us", "I"), ("min_rtt_us", "I"),
        ("cwnd", "I"), ("max_cwnd", "I"), ("ssthresh", "I"), ("segs_in", "I"), ("mss", "I"), ("error", "I"),
        ("flags", "H"), ("family", "B"), ("arm", "B"), ("remote_port", "H"),
        ("local_port", "H"), ("band", "B"), ("reserved", "3s"), ("remote", "16s"), ("local", "16s"),
        ("cc", "16s"),
    ),
}  # fmt: skip

# structure -> what packs and unpacks it
STRUCTS: Mapping[str, struct.Struct] = {
    name: struct.Struct("=" + "".join(code for _, code in fields)) for name, fields in LAYOUTS.items()
}

# call -> (number, direction, structure); directions are those of asm-generic/ioctl.h: 1 to the kernel, 2 from it; no
# structure: a call without an argument
CALLS: Mapping[str, tuple[int, int, str]] = {
    "VERSION": (1, 2, "version"),
    "PARAM_INFO": (2, 3, "param_info"),
    "PROFILE_NEW": (3, 3, "profile"),
    "PROFILE_DEL": (4, 1, "profile"),
    "PARAMS_SET": (5, 3, "params"),
    "PARAMS_GET": (6, 3, "params"),
    "PREFIX_SET": (7, 3, "prefixes"),
    "SOCKET_ASSIGN": (8, 1, "socket"),
    "PROFILE_NEXT": (9, 3, "profile"),
    "PREFIX_DEL": (10, 3, "prefixes"),
    "PREFIX_DUMP": (11, 3, "prefixes"),
    "PREFIX_FLUSH": (12, 3, "flush"),
    "SOCKET_GET": (13, 3, "socket_params"),
    "OPTIONS_SET": (14, 1, "options"),
    "OPTIONS_GET": (15, 2, "options"),
    "STATUS": (16, 2, "status"),
    "STATS": (17, 3, "stats"),
    "RECORDS": (18, 1, "records"),
    "PREFIX_GET": (19, 3, "prefixes"),
    "PLAN_LOAD": (20, 1, "plan"),
    "PLAN_TURN": (21, 0, ""),
    "PLAN_RENEW": (22, 1, "lease"),
    "PLAN_DROP": (23, 0, ""),
    "PLAN_STATUS": (24, 2, "plan_status"),
    "PLAN_MIXES": (25, 3, "mixes"),
}
MAGIC = 0xC7

# Keys of parameters in the header's order: their names there -> the knob's.
KEYS: Mapping[str, str] = {
    name: knob for (_, name), knob in sorted((names.key, knob) for knob, names in KERNEL.items() if names.key)
}
KEY_OF: Mapping[str, int] = {knob: key for key, knob in enumerate(KEYS.values())}

FLAGS: Mapping[str, int] = {
    "HAS_ACTIVE_OPENS": 1,
    "HAS_RECORDS": 2,
    "HAS_SOCKET_GET": 4,
    "HAS_PLANS": 8,
    "PARAM_SETTABLE": 1,
    "PARAM_TEXT": 2,
    "PARAM_UNSET": 1,
    "REPLACE": 1,
    "ABSENT_OK": 1,
    "FROM_START": 2,
    "ENABLED": 1,
    "ACTIVE_OPENS": 2,
    "RECORD_LEFT": 1,
    "RECORD_OPEN": 2,
    "RECORD_WINDOW_CUT": 4,
    "RECORD_APP_LIMITED": 8,
    "RECORD_FINISHED": 16,
    "RECORD_ABORTED": 32,
    "RECORD_RESUMED": 64,
    "RECORD_VALIDATED": 128,
    "RECORD_RETREATED": 256,
    "PLAN_IN_FORCE": 1,
    "PLAN_LOADED": 2,
}


def number(call: str) -> int:
    """Return the request number of an ioctl(2), as _IOC() of asm-generic/ioctl.h makes it."""
    which, direction, layout = CALLS[call]
    size = STRUCTS[layout].size if layout else 0
    return direction << 30 | size << 16 | MAGIC << 8 | which


def pack(layout: str, **values: int | bytes) -> bytearray:
    """Return a structure with these fields; the rest is zero."""
    fields = LAYOUTS[layout]
    absent = {name: b"" if code.endswith("s") else 0 for name, code in fields}
    return bytearray(STRUCTS[layout].pack(*(values.get(name, absent[name]) for name, _ in fields)))


def unpack(layout: str, packed: bytes | bytearray | memoryview) -> dict[str, int | bytes]:
    """Return the fields by name; text loses its closing zeros, an address keeps them."""
    values = zip(LAYOUTS[layout], STRUCTS[layout].unpack(packed), strict=True)
    return {name: v.rstrip(b"\0") if code.endswith("s") and name in TEXTS else v for (name, code), v in values}


TEXTS = frozenset(("release", "name", "unit", "words", "text", "plain", "cc"))
