# SPDX-License-Identifier: MIT
"""libbpf.so.1 through ctypes: load BPF objects, attach and pin programs, read and write maps.

Functions that return a number return minus errno when they fail, those that return a pointer return NULL and leave
errno (libbpf 1.0). Every failure becomes an `OSError` that names the call; a program that the kernel's verifier refuses
carries the end of its log.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

LIBRARY = "libbpf.so.1"
# The verifier says why in its last lines; the log of a refused program of ours is far shorter.
_LOG_BYTES = 1 << 16
_LOG_WORDS = 400
# As many as a batch takes at once: a million entries of 28 bytes would be one call of 28 MB.
BATCH_ENTRIES = 1 << 17
# struct bpf_map_info and bpf_link_info (linux/bpf.h) are shorter.
_INFO_BYTES = 256
_ENOENT = 2
# BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_ARRAY_OF_MAPS
_ARRAY, _ARRAY_OF_MAPS = 2, 12
# BPF_CGROUP_SOCK_OPS of enum bpf_attach_type; BPF_F_QUERY_EFFECTIVE
SOCK_OPS, EFFECTIVE = 3, 1
# BPF_CGROUP_MAX_PROGS
_MOST_PROGRAMS = 64
# The kernel takes nothing shorter than an Ethernet and an IPv4 header.
_PACKET_BYTES = 34


class OpenOptions(Structure):
    """struct bpf_object_open_opts."""

    _fields_ = [
        ("size", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", c_bool),
        ("pin_root_path", c_char_p),
        ("reserved", c_uint32),
        ("kconfig", c_char_p),
        ("btf_custom_path", c_char_p),
        ("log", c_void_p),
        ("log_bytes", c_size_t),
        ("log_level", c_uint32),
    ]


class TestRunOptions(Structure):
    """struct bpf_test_run_opts."""

    _fields_ = [
        ("size", c_size_t),
        ("data_in", c_char_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    ]


class BatchOptions(Structure):
    """struct bpf_map_batch_opts."""

    _fields_ = [("size", c_size_t), ("elem_flags", c_uint64), ("flags", c_uint64)]


class CreateOptions(Structure):
    """struct bpf_map_create_opts, as far as it is used here."""

    _fields_ = [
        ("size", c_size_t),
        ("btf_fd", c_uint32),
        ("btf_key_type_id", c_uint32),
        ("btf_value_type_id", c_uint32),
        ("btf_vmlinux_value_type_id", c_uint32),
        ("inner_map_fd", c_uint32),
        ("map_flags", c_uint32),
    ]


_NUMBERS = {
    "bpf_object__load": [c_void_p],
    "bpf_object__find_map_fd_by_name": [c_void_p, c_char_p],
    "bpf_map_create": [c_int, c_char_p, c_uint32, c_uint32, c_uint32, c_void_p],
    **dict.fromkeys(("bpf_map_get_fd_by_id", "bpf_link_get_fd_by_id", "bpf_prog_get_fd_by_id"), [c_uint32]),
    **dict.fromkeys((f"bpf_{kind}_get_next_id" for kind in ("map", "link", "prog")), [c_uint32, POINTER(c_uint32)]),
    "bpf_prog_load": [c_int, c_char_p, c_char_p, c_char_p, c_size_t, c_void_p],
    "bpf_map__set_max_entries": [c_void_p, c_uint32],
    "bpf_map_freeze": [c_int],
    "bpf_program__fd": [c_void_p],
    "bpf_prog_test_run_opts": [c_int, POINTER(TestRunOptions)],
    "bpf_object__pin_maps": [c_void_p, c_char_p],
    "bpf_object__pin_programs": [c_void_p, c_char_p],
    "bpf_prog_attach": [c_int, c_int, c_uint32, c_uint32],
    "bpf_prog_query": [c_int, c_uint32, c_uint32, POINTER(c_uint32), POINTER(c_uint32), POINTER(c_uint32)],
    "bpf_link__pin": [c_void_p, c_char_p],
    "bpf_link__fd": [c_void_p],
    "bpf_link__destroy": [c_void_p],
    "bpf_link_detach": [c_int],
    "bpf_iter_create": [c_int],
    "bpf_obj_get": [c_char_p],
    "bpf_enable_stats": [c_int],
    "bpf_obj_get_info_by_fd": [c_int, c_void_p, POINTER(c_uint32)],
    "bpf_map_lookup_elem": [c_int, c_char_p, c_void_p],
    "bpf_map_update_elem": [c_int, c_char_p, c_char_p, c_uint64],
    "bpf_map_delete_elem": [c_int, c_char_p],
    "bpf_map_lookup_batch": [c_int, *[c_void_p] * 4, POINTER(c_uint32), POINTER(BatchOptions)],
    "bpf_map_update_batch": [c_int, c_char_p, c_char_p, POINTER(c_uint32), POINTER(BatchOptions)],
    "btf__find_by_name_kind": [c_void_p, c_char_p, c_uint32],
}
_POINTERS = {
    "bpf_object__open_file": [c_char_p, POINTER(OpenOptions)],
    "bpf_object__find_map_by_name": [c_void_p, c_char_p],
    "bpf_object__find_program_by_name": [c_void_p, c_char_p],
    "bpf_map__initial_value": [c_void_p, POINTER(c_size_t)],
    "bpf_map__attach_struct_ops": [c_void_p],
    "bpf_program__attach": [c_void_p],
    "bpf_program__attach_cgroup": [c_void_p, c_int],
    "bpf_program__attach_iter": [c_void_p, c_void_p],
    "btf__load_vmlinux_btf": [],
    "btf__load_module_btf": [c_char_p, c_void_p],
}
_SILENT = {"bpf_object__close": [c_void_p], "btf__free": [c_void_p]}


@cache
def library() -> ctypes.CDLL:
    """The library, its functions declared. Errors: `OSError` where it is not installed."""
    loaded = ctypes.CDLL(LIBRARY, use_errno=True)
    for table, kind in ((_NUMBERS, c_int), (_POINTERS, c_void_p), (_SILENT, None)):
        for name, arguments in table.items():
            function = getattr(loaded, name)
            function.argtypes, function.restype = arguments, kind
    # Or it writes its complaints to our standard error; they come in our errors instead.
    loaded.libbpf_set_print(None)
    return loaded


def call(name: str, *arguments: object) -> int:
    """A function that returns a number. Errors: `OSError`."""
    result = int(getattr(library(), name)(*arguments))
    if result < 0:
        raise OSError(-result, f"{name}: {os.strerror(-result)}")
    return result


def point(name: str, *arguments: object) -> int:
    """A function that returns a pointer. Errors: `OSError`."""
    result = getattr(library(), name)(*arguments)
    if not result:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return int(result)


class Object:
    """A compiled file of programs and maps. Maps pinned by name are made in, or taken from, the folder `pins`."""

    def __init__(self, file: Path, pins: Path | None = None) -> None:
        self._log = ctypes.create_string_buffer(_LOG_BYTES)
        options = OpenOptions(
            size=ctypes.sizeof(OpenOptions),
            pin_root_path=str(pins).encode() if pins else None,
            log=ctypes.cast(self._log, c_void_p),
            log_bytes=_LOG_BYTES,
        )
        self._pointer = point("bpf_object__open_file", str(file).encode(), byref(options))

    def constants(self, data: bytes) -> None:
        """The file's only constant, before it is loaded."""
        size = c_size_t()
        place = point("bpf_map__initial_value", self._map(".rodata"), byref(size))
        ctypes.memmove(place, data, min(size.value, len(data)))

    def resize(self, name: str, entries: int) -> None:
        """How many entries a map holds, before it is loaded."""
        call("bpf_map__set_max_entries", self._map(name), entries)

    def load(self) -> None:
        try:
            call("bpf_object__load", self._pointer)
        except OSError as error:
            log = self._log.value.decode(errors="replace").strip()[-_LOG_WORDS:]
            raise OSError(error.errno, f"{error.strerror} {log}".strip()) from error

    def map(self, name: str) -> Map:
        return Map(os.dup(call("bpf_object__find_map_fd_by_name", self._pointer, name.encode())))

    def attach(self, program: str, how: str = "bpf_program__attach", *arguments: object) -> Link:
        found = point("bpf_object__find_program_by_name", self._pointer, program.encode())
        return Link(point(how, found, *arguments))

    def run(self, program: str, times: int) -> int:
        """Run a program of a packet's kind on an empty packet, `times` in a row; returns ns per run."""
        found = point("bpf_object__find_program_by_name", self._pointer, program.encode())
        packet = bytes(_PACKET_BYTES)
        options = TestRunOptions(
            size=ctypes.sizeof(TestRunOptions), data_in=packet, data_size_in=len(packet), repeat=times
        )
        call("bpf_prog_test_run_opts", call("bpf_program__fd", found), byref(options))
        return int(options.duration)

    def pin(self, programs: Path, maps: Path) -> None:
        """Pin every program and every map by its name in these folders of a BPF file system."""
        call("bpf_object__pin_maps", self._pointer, str(maps).encode())
        call("bpf_object__pin_programs", self._pointer, str(programs).encode())

    def register(self, name: str) -> None:
        """Put a table of operations in force; it stays so until its map's only element is deleted."""
        point("bpf_map__attach_struct_ops", self._map(name))

    def close(self) -> None:
        library().bpf_object__close(self._pointer)

    def _map(self, name: str) -> int:
        return point("bpf_object__find_map_by_name", self._pointer, name.encode())

    def __enter__(self) -> Object:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Link:
    """A program at its place of attachment. It goes with our process unless it is pinned."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def pin(self, path: Path) -> None:
        call("bpf_link__pin", self._pointer, str(path).encode())

    def run(self) -> None:
        """An iterator: once over everything; what it prints is dropped."""
        with os.fdopen(call("bpf_iter_create", call("bpf_link__fd", self._pointer)), "rb") as pass_:
            pass_.read()

    def close(self) -> None:
        call("bpf_link__destroy", self._pointer)


class Map:
    """A map by its descriptor; keys and values are bytes of its own sizes."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        about = info(descriptor)
        _, self.id, self.key_bytes, self.value_bytes, self.most = (
            int.from_bytes(about[at : at + 4], sys.byteorder) for at in range(0, 20, 4)
        )

    @classmethod
    def pinned(cls, path: Path | str) -> Map:
        return cls(call("bpf_obj_get", str(path).encode()))

    def get(self, key: bytes) -> bytes | None:
        value = ctypes.create_string_buffer(self.value_bytes)
        result = library().bpf_map_lookup_elem(self.descriptor, key, value)
        if result == -_ENOENT:
            return None
        if result:
            raise OSError(-result, f"bpf_map_lookup_elem: {os.strerror(-result)}")
        return value.raw

    def put(self, key: bytes, value: bytes) -> None:
        call("bpf_map_update_elem", self.descriptor, key, value, 0)

    def put_all(self, keys: bytes, values: bytes) -> None:
        options, count = BatchOptions(ctypes.sizeof(BatchOptions)), c_uint32(len(keys) // self.key_bytes)
        call("bpf_map_update_batch", self.descriptor, keys, values, byref(count), byref(options))

    def drop(self, key: bytes) -> None:
        """Without a word where it is not there."""
        result = library().bpf_map_delete_elem(self.descriptor, key)
        if result not in (0, -_ENOENT):
            raise OSError(-result, f"bpf_map_delete_elem: {os.strerror(-result)}")

    def freeze(self) -> None:
        """From now on no system call writes it, only programs do."""
        call("bpf_map_freeze", self.descriptor)

    def fill(self, values: bytes) -> None:
        """An array that can be mapped into memory, from its first entry on."""
        with mmap.mmap(self.descriptor, len(values)) as mapped:
            mapped[:] = values

    def all(self) -> tuple[bytes, bytes]:
        """Every key and every value, each as one string of bytes in the same order."""
        options, count = BatchOptions(ctypes.sizeof(BatchOptions)), c_uint32()
        most = min(BATCH_ENTRIES, self.most)
        keys = ctypes.create_string_buffer(most * self.key_bytes)
        values = ctypes.create_string_buffer(most * self.value_bytes)
        here = ctypes.create_string_buffer(self.key_bytes)
        parts: list[tuple[bytes, bytes]] = []
        before, result = None, 0
        while not result:
            count.value = most
            result = library().bpf_map_lookup_batch(
                self.descriptor, before, here, keys, values, byref(count), byref(options)
            )
            if result not in (0, -_ENOENT):
                raise OSError(-result, f"bpf_map_lookup_batch: {os.strerror(-result)}")
            taken = count.value
            parts.append((keys.raw[: taken * self.key_bytes], values.raw[: taken * self.value_bytes]))
            before = here
        return b"".join(k for k, _ in parts), b"".join(v for _, v in parts)

    def close(self) -> None:
        os.close(self.descriptor)


def wait_for_programs() -> None:
    """Return once every program that runs now has ended, as far as it is not one that may sleep.

    The kernel waits so after each change of a map of maps (maybe_wait_bpf_programs in kernel/bpf/syscall.c), lest a
    program still use what no program can find any more: one is made, changed and dropped. Some ten milliseconds.
    """
    inner = Map(call("bpf_map_create", _ARRAY, b"inner", 4, 4, 1, None))
    options = CreateOptions(ctypes.sizeof(CreateOptions), inner_map_fd=inner.descriptor)
    try:
        outer = Map(call("bpf_map_create", _ARRAY_OF_MAPS, b"outer", 4, 4, 1, byref(options)))
        try:
            outer.put(bytes(4), inner.descriptor.to_bytes(4, sys.byteorder))
        finally:
            outer.close()
    finally:
        inner.close()


def info(descriptor: int) -> bytes:
    """Return the kernel's information about a map, program or link (struct bpf_map_info, ...)."""
    found, length = ctypes.create_string_buffer(_INFO_BYTES), c_uint32(_INFO_BYTES)
    call("bpf_obj_get_info_by_fd", descriptor, found, byref(length))
    return found.raw


def attach_to_cgroup(program: Path, group: Path, place: int) -> None:
    """Attach a pinned program to a control group; it stays when this process ends.

    place   where: BPF_CGROUP_SOCK_OPS and others of enum bpf_attach_type
    """
    descriptor = call("bpf_obj_get", str(program).encode())
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        call("bpf_prog_attach", descriptor, folder, place, 0)
    finally:
        os.close(folder)
        os.close(descriptor)


def attached_to_cgroup(group: Path, place: int, query: int = 0) -> list[int]:
    """Return the numbers of the programs that a control group has at that place.

    query   `EFFECTIVE`: those of the groups above too, in the order in which they run
    """
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    flags, count = c_uint32(), c_uint32(_MOST_PROGRAMS)
    numbers = (c_uint32 * _MOST_PROGRAMS)()
    try:
        call("bpf_prog_query", folder, place, query, byref(flags), numbers, byref(count))
    finally:
        os.close(folder)
    return numbers[: count.value]


def program_name(number: int) -> str:
    """Return the name of a program (struct bpf_prog_info). Errors: `OSError` once it has gone."""
    with os.fdopen(call("bpf_prog_get_fd_by_id", number), "rb") as program:
        return info(program.fileno())[64:80].rstrip(b"\0").decode()
