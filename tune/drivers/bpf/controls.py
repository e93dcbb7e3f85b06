# SPDX-License-Identifier: MIT
"""Congestion controls of our own: put in force, found again and withdrawn.

The kernel has one table of congestion controls for all namespaces. Ours (keep.bpf.c, unpaced.bpf.c) stay in it until
the only element of their map is deleted, also while a process holds the map. So none of them is pinned: where a pin is
removed, or the BPF file system unmounted, no folder would show a control that is still there. They are found by
asking the kernel for its maps, and withdrawn by the last configtron that has a program attached anywhere, in whichever
mount namespace its pins are.

Source     kernel/bpf/bpf_struct_ops.c; include/uapi/linux/bpf.h
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from ctypes import byref, c_uint32
from functools import cache
from typing import NamedTuple

from configtron.linux.libbpf import Map, Object, info, library
from configtron.model.errors import ConfigtronError
from configtron.tune.drivers.bpf import layout, objects
from configtron.tune.drivers.congestion_controls import REGISTERED

# linux/bpf.h: BPF_MAP_TYPE_STRUCT_OPS, BPF_LINK_TYPE_CGROUP.
_STRUCT_OPS, _OF_GROUP = 26, 3
# struct bpf_struct_ops_common_value: references, state; BPF_STRUCT_OPS_STATE_INUSE.
_STATE, _IN_USE = struct.Struct("=4xI"), 1
# struct bpf_map_info, bpf_link_info and bpf_prog_info, as far as they are read here.
_MAP_INFO, _LINK_INFO, _PROGRAM_INFO = struct.Struct("=I20x16s"), struct.Struct("=I4xI4xQ"), struct.Struct("=64x16s")
# One source for kernels that call a control when a first segment leaves after idle, and for older ones: newest first,
# since a newer one might load the other and never call it.
_KEEPING_FORMS, _UNPACED_FORMS = ("keep_start", "keep"), ("unpaced_start", "unpaced")
# sockops.bpf.c's function.
_PROGRAM = "configtron"


class Carried(NamedTuple):
    """The program of a control of ours that the running kernel loads; "" if none, and why."""

    program: str
    why: str


def carried(control: str) -> Carried:
    """Return what the kernel loads for a control. It is asked by loading, once, and nothing is put in force."""
    return _loaded(*_KEEPING_FORMS if control in layout.KEEPING.values() else _UNPACED_FORMS)


@cache
def _loaded(*programs: str) -> Carried:
    why = ""
    for each in programs:
        try:
            with Object(objects.compiled(each)) as program:
                program.load()
            return Carried(each, "")
        except OSError as error:
            why = os.strerror(error.errno or 0)
        except ConfigtronError as error:
            why = str(error)
    return Carried("", why)


def registered() -> set[str]:
    """Return ours that the kernel has, whichever process registered them."""
    there = REGISTERED.read_text().split() if REGISTERED.exists() else []
    return set(there) & layout.WRAPPED.keys()


def register(control: str) -> None:
    """Put one in force, unless it is. Errors: `OSError`."""
    if control in registered():
        return
    with Object(objects.compiled(carried(control).program)) as program:
        program.load()
        with suppress(FileExistsError):  # another was faster
            program.register(control)


def withdraw(control: str) -> None:
    """Connections that use it keep it until they close. Without a word where none of ours is in force."""
    for descriptor in _all("map"):
        with closing(Map(descriptor)) as operations:
            kind, name = _MAP_INFO.unpack_from(info(descriptor))
            if kind == _STRUCT_OPS and layout.text_of(name) == control:
                key = bytes(operations.key_bytes)
                if _STATE.unpack_from(operations.get(key) or bytes(_STATE.size))[0] == _IN_USE:
                    with suppress(OSError):  # another was faster
                        operations.drop(key)


def withdraw_unused() -> None:
    """All of ours, unless a program of ours is attached somewhere: it may ask for them at any connection."""
    left = registered()
    if left and not attached():
        for control in left:
            withdraw(control)


def attached() -> bool:
    """Return whether a program of ours is at any control group, in all of the kernel."""
    found = False
    for descriptor in _all("link"):
        try:
            kind, program, group = _LINK_INFO.unpack_from(info(descriptor))
        finally:
            os.close(descriptor)
        found = found or (kind == _OF_GROUP and group != 0 and _name_of(program) == _PROGRAM)
    return found


def _all(kind: str) -> Iterator[int]:
    """Yield a descriptor, to be closed, of each map or link that the kernel has; what goes meanwhile is left out."""
    number = c_uint32()
    following, descriptor_of = (getattr(library(), f"bpf_{kind}_get_{what}") for what in ("next_id", "fd_by_id"))
    while not following(number.value, byref(number)):
        if (descriptor := descriptor_of(number.value)) >= 0:
            yield descriptor


def _name_of(program: int) -> str:
    descriptor = library().bpf_prog_get_fd_by_id(program)
    if descriptor < 0:  # gone meanwhile
        return ""
    try:
        return layout.text_of(_PROGRAM_INFO.unpack_from(info(descriptor))[0])
    finally:
        os.close(descriptor)
