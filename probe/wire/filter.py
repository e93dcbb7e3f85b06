# SPDX-License-Identifier: MIT
"""Capture filters, compiled by libpcap. Loaded through ctypes: no binding package is needed."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterable
from functools import cache

from configtron.model.errors import Missing

# Ethernet, the link layer of veth, bridges and real cards alike (DLT_EN10MB).
DLT_ETHERNET = 1
# Raw IP, for interfaces without an Ethernet header (DLT_RAW).
DLT_RAW = 12
# Whole frames: offloaded ones are larger than any link's MTU.
SNAPLEN = 262144
# Numbers that files give link layers (LINKTYPE_*) and libpcap does not (DLT_*).
FROM_FILES = {101: DLT_RAW, 14: DLT_RAW, 100: 11, 106: 19}
# "Unknown" for pcap_compile: only "ip broadcast" would need it (PCAP_NETMASK_UNKNOWN).
NETMASK_UNKNOWN = 0xFFFFFFFF


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint), ("instructions", ctypes.c_void_p))


@cache
def _libpcap() -> ctypes.CDLL:
    for name in ("libpcap.so.0.8", "libpcap.so.1", ctypes.util.find_library("pcap")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None:
            library.pcap_open_dead.restype = ctypes.c_void_p
            library.pcap_geterr.restype = ctypes.c_char_p
            return library
    raise Missing("libpcap is absent, so no capture filter can be made; run: apt-get install libpcap0.8")


def compile_filter(expression: str, *, link: int = DLT_ETHERNET, snap: int = SNAPLEN) -> bytes:
    """Return classic BPF instructions (8 bytes each) of a tcpdump expression, for SO_ATTACH_FILTER; they keep `snap`
    bytes."""
    library = _libpcap()
    handle = ctypes.c_void_p(library.pcap_open_dead(link, snap))
    try:
        program = _Program()
        if library.pcap_compile(
            handle, ctypes.byref(program), expression.encode(), 1, ctypes.c_uint32(NETMASK_UNKNOWN)
        ):
            raise ValueError(f"filter {expression!r}: {library.pcap_geterr(handle).decode()}")
        code = ctypes.string_at(program.instructions, program.length * 8)
        library.pcap_freecode(ctypes.byref(program))
        return code
    finally:
        library.pcap_close(handle)


def passing(program: bytes, base: int, frames: Iterable[tuple[int, int, int]]) -> list[bool]:
    """Return of each frame whether it passes a program of `compile_filter`.

    base    address of the buffer; frames: where each begins in it, its length on the wire, and how much was captured
    """
    code, run = ctypes.create_string_buffer(program, len(program)), _libpcap().bpf_filter
    run.argtypes, run.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], ctypes.c_uint
    return [run(code, base + start, length, kept) > 0 for start, length, kept in frames]
