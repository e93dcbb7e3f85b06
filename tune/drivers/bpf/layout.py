# SPDX-License-Identifier: MIT
"""The maps of clients.h: knobs as options of the kernel, profiles and prefixes as bytes, and back.

`ROWS` is made from `configtron/model/knobs.py`: a row's place is the knob's number in the programs. A row with an
option is a step that the program takes by `bpf_setsockopt`; the others are fields of the profile of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from zlib import crc32

from configtron.model.errors import BadInput, Refused
from configtron.model.knobs import KERNEL, KNOBS
from configtron.model.nouns import Profile, Value
from configtron.tune.listeners import ListenAddress

US_PER_S = 1_000_000
# The most that 32 bits hold, less the two that mean something else.
PACED_UNBOUNDED = 0xFFFF_FFFE


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """A knob of this driver: the option that sets it, its unit in the kernel as a multiple of ours."""

    knob: str
    level: int = 0
    option: int = 0
    scale: int = 1


def _rows() -> tuple[LayoutRow, ...]:
    """Return a row for each step of `KERNEL`; the kernel counts times in microseconds."""
    steps = sorted((names.step, knob) for knob, names in KERNEL.items() if names.step is not None)
    assert [step for step, _ in steps] == list(range(len(steps))), "a row's place is its number"
    return tuple(
        LayoutRow(knob, *(KERNEL[knob].option or (0, 0)), scale=US_PER_S if KNOBS[knob].unit == "s" else 1)
        for _, knob in steps
    )


ROWS: tuple[LayoutRow, ...] = _rows()
NUMBERS: Mapping[str, int] = {row.knob: number for number, row in enumerate(ROWS)}

# Congestion controls of our own, by the kernel's and what of it is otherwise (keep.bpf.c, unpaced.bpf.c).
KEEPING: Mapping[str, str] = {"cubic": "ct_cubic_keep", "reno": "ct_reno_keep"}
UNPACED: Mapping[str, str] = {"bbr": "ct_bbr_unpaced"}
WRAPPED: Mapping[str, str] = {ours: theirs for table in (KEEPING, UNPACED) for theirs, ours in table.items()}

# The structures of clients.h and, the third line, of write.bpf.c.
_HEAD, _STEP, MOST_STEPS = struct.Struct("=64s16s6I"), struct.Struct("=4I"), 12
_CLIENT, MATCH = struct.Struct("=I16s"), struct.Struct("=2I")
_CHANGE, OUTCOME = struct.Struct("=I20sI4x"), struct.Struct("=Ii")
PLACE, REFUSAL, _LENGTH = struct.Struct("=Q3I4x"), struct.Struct("=Qi4x"), struct.Struct("=16s2I")
LISTENER = struct.Struct("=I16s")
CLIENT_BYTES, CHANGE_BYTES = _CLIENT.size, _CHANGE.size
NAME_BYTES = 63
MOST_PROFILES = 1024
# Bits of `written`: settings that are no step.
_KEEPS, _RESTARTS, _PACED, _UNPACED = 1, 2, 4, 8
_BITS: Mapping[tuple[str, Value], int] = {
    ("tcp_slow_start_after_idle", 0): _KEEPS,
    ("tcp_slow_start_after_idle", 1): _RESTARTS,
    ("pacing", "fq"): _PACED,
    ("pacing", "pfifo_fast"): _UNPACED,
}
ASKS_SYNACK_RTO, ASKS_RWND = 1, 2

MAPPED, _MAPPED_BITS = bytes(10) + b"\xff\xff", 96
# A list of lengths for each family; a list's head, and the lengths from the longest to none.
FAMILIES, _LONGEST_BITS = 2, 128
PLACES, _ROWS = _LONGEST_BITS + 2, 256
# No site has needed more yet; a million entries take 130 MB.
MOST_PREFIXES = 1 << 20
# A smaller table saves nothing that counts.
LEAST_ROOM = 1024


def profile_bytes(profile: Profile, ticks_per_s: int) -> bytes:
    """Return a profile as the programs read it. Its values are within reach (`reach.py`)."""
    settings = dict(profile.settings)
    steps = _steps(settings)
    synack_us = round(float(_number(settings.get("synack_rto", 0))) * US_PER_S)
    fields = (
        profile.name.encode(),
        kernel_name(settings).encode(),
        synack_us,
        # up, or a tick of nothing would mean "no opinion"
        -(-synack_us * ticks_per_s // US_PER_S),
        int(_number(settings.get("initrwnd", 0))),
        sum(bit for (knob, value), bit in _BITS.items() if settings.get(knob) == value),
    )
    listed = b"".join(steps).ljust(MOST_STEPS * _STEP.size, b"\0")
    version = crc32(_HEAD.pack(*fields, 0, len(steps)) + listed)
    return _HEAD.pack(*fields, version, len(steps)) + listed


def kernel_name(settings: Mapping[str, Value]) -> str:
    """The congestion control to ask the kernel for: one of ours where the profile wants what the kernel's cannot."""
    name = str(settings.get("tcp_congestion_control", ""))
    if settings.get("tcp_slow_start_after_idle") == 0:
        name = KEEPING.get(name, name)
    if settings.get("pacing") == "pfifo_fast":
        name = UNPACED.get(name, name)
    return name


def profile_of(data: bytes) -> Profile:
    """Return the profile that stands in the map."""
    name, kernels, synack_us, _, rwnd, written, _, count = _HEAD.unpack_from(data)
    settings: dict[str, Value] = {knob: value for (knob, value), bit in _BITS.items() if written & bit}
    if asked := text_of(kernels):
        settings["tcp_congestion_control"] = WRAPPED.get(asked, asked)
    if synack_us:
        settings["synack_rto"] = synack_us / US_PER_S
    if rwnd:
        settings["initrwnd"] = rwnd
    for position in range(count):
        number, _, _, value = _STEP.unpack_from(data, _HEAD.size + position * _STEP.size)
        row = ROWS[number]
        if row.knob == "nagle":
            value = 1 - value
        if row.knob != "max_pacing_rate" or value != PACED_UNBOUNDED:
            settings[row.knob] = value if row.scale == 1 else value / row.scale
    return Profile(text_of(name), tuple(settings.items()))


def asks_of(data: bytes) -> int:
    """Return which of the early questions a profile answers."""
    _, _, synack_us, _, rwnd, *_ = _HEAD.unpack_from(data)
    return ASKS_SYNACK_RTO * bool(synack_us) | ASKS_RWND * bool(rwnd)


def client(prefix: str) -> bytes:
    """Return a prefix as the table's key. Errors: `BadInput` for what is no prefix."""
    address, _, length = prefix.partition("/")
    try:
        if ":" in address:
            return _CLIENT.pack(_bits(length, 128), inet_pton(AF_INET6, address))
        return _CLIENT.pack(_MAPPED_BITS + _bits(length, 32), MAPPED + inet_pton(AF_INET, address))
    except (ValueError, OSError, struct.error) as error:
        raise BadInput(f"{prefix!r} is no prefix ({error}); write e.g. 192.0.2.0/24 or 2001:db8::/48") from error


def prefix_of(key: bytes) -> str:
    """Return the prefix of a key, as `ipaddress` prints it."""
    length_bits, address = _CLIENT.unpack(key)
    if length_bits >= _MAPPED_BITS and address.startswith(MAPPED):
        return f"{inet_ntop(AF_INET, address[12:])}/{length_bits - _MAPPED_BITS}"
    text = inet_ntop(AF_INET6, address)
    # libc writes the last four bytes of some addresses as IPv4 does
    return f"{IPv6Address(address) if '.' in text else text}/{length_bits}"


def is_ipv4(key: bytes) -> bool:
    """Return whether a key is of IPv4's table."""
    return key.startswith(MAPPED, 4)


def prefixes_of(keys: bytes, values: bytes, names: Mapping[int, str]) -> dict[str, str]:
    """Return the whole table."""
    each = (keys[at : at + CLIENT_BYTES] for at in range(0, len(keys), CLIENT_BYTES))
    pairs = zip(each, MATCH.iter_unpack(values), strict=True)
    return {prefix_of(key): names[number] for key, (number, _) in pairs if number in names}


def change(key: bytes, number: int | None) -> bytes:
    """Return a change of the table as it is staged; None drops the prefix."""
    return _CHANGE.pack(number is None, key, number or 0)


def room(prefixes: int) -> int:
    """Return how many entries a table for so many prefixes has: a quarter more, or it would soon be made again.

    Errors: `Refused`.
    """
    if prefixes > MOST_PREFIXES:
        raise Refused(f"no room for {prefixes} prefixes: the driver ebpf holds {MOST_PREFIXES} of each family")
    return min(max(prefixes + prefixes // 4, LEAST_ROOM), MOST_PREFIXES)


def listener_bytes(listener: ListenAddress) -> bytes:
    """Return a listener as the table's key: its port, its address as a client's."""
    if not listener.address:
        return LISTENER.pack(listener.port, bytes(16))
    address = listener.address
    packed = inet_pton(AF_INET6, address) if ":" in address else MAPPED + inet_pton(AF_INET, address)
    return LISTENER.pack(listener.port, packed)


def listener_of(key: bytes) -> ListenAddress:
    """Return the listener of a key."""
    port, address = LISTENER.unpack(key)
    if not any(address):
        return ListenAddress(port)
    inside = address.startswith(MAPPED)
    return ListenAddress(port, inet_ntop(AF_INET, address[12:]) if inside else str(IPv6Address(address)))


def lengths_bytes(counts: Mapping[int, int]) -> bytes:
    """Return a family's list of lengths, with the mask of each.

    counts   length of the table's keys, bits -> how many prefixes have it, of those in use
    """
    every = (1 << _LONGEST_BITS) - 1
    masks = [0, *(every & every << place - 1 for place in range(1, PLACES))]
    used = sorted(PLACES - 1 - length_bits for length_bits in counts)
    # each row in use, and the list's head, has the place of the next
    following = dict(zip([0, *used], [*used, 0], strict=True))
    rows = (
        _LENGTH.pack(mask.to_bytes(16, "big"), following.get(place, 0), counts.get(PLACES - 1 - place, 0))
        for place, mask in enumerate(masks)
    )
    return b"".join(rows).ljust(_ROWS * _LENGTH.size, b"\0")


def counted(lengths: bytes) -> dict[int, int]:
    """Length in bits -> how many prefixes have it, of those in use, in the order in which they are asked for."""
    rows, found, place = list(_LENGTH.iter_unpack(lengths)), dict[int, int](), 0
    # the list rises; one that does not is broken, and would be walked for ever
    while rows[place][1] > place:
        place = rows[place][1]
        found[PLACES - 1 - place] = rows[place][2]
    return found


def _steps(settings: Mapping[str, Value]) -> list[bytes]:
    wanted = dict(settings)
    if wanted.get("pacing") == "fq":
        wanted.setdefault("max_pacing_rate", PACED_UNBOUNDED)
    if "nagle" in wanted:
        wanted["nagle"] = 1 - int(_number(wanted["nagle"]))
    return [
        _STEP.pack(number, row.level, row.option, round(_number(wanted[row.knob]) * row.scale))
        for number, row in enumerate(ROWS)
        if row.option and row.knob in wanted
    ]


def _bits(length: str, most: int) -> int:
    bits = int(length)
    if not 0 <= bits <= most:
        raise ValueError(f"{bits} bits")
    return bits


def _number(value: Value) -> float:
    assert isinstance(value, int | float), value
    return value


def text_of(data: bytes) -> str:
    """Return the text of a field that zeros fill up."""
    return data.partition(b"\0")[0].decode()
