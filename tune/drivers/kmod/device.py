# SPDX-License-Identifier: MIT
"""The module's device, call by call: requests to /dev/configtron and its answers, in its own numbers.

One object is one open file: it belongs to the network namespace it was opened in. Names, seconds and prefixes as text
are the driver's business (kmod_driver.py); here they are identifiers, microseconds and packed addresses.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.abi import FLAGS, PORTS, STRUCTS, number, pack, unpack

# Prefixes of one dump call: a fifth of a megabyte, read into again and again.
DUMP_PREFIXES = 8192
# A dump takes milliseconds: who is disturbed so often in a row is not alone.
DUMPS = 10
PREFIX, PARAM, RECORD = STRUCTS["prefix"], STRUCTS["param"], STRUCTS["record"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What the module says of one of its parameters; numbers in `unit`, times in microseconds."""

    key: int
    name: str
    settable: bool
    text: bool
    least: int
    most: int
    unit: str
    words: str


class Device:
    """An open /dev/configtron. Errors are the kernel's own `OSError`s; configtron.h says what each means."""

    def __init__(self, path: Path = Path(abi.DEVICE)) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def fileno(self) -> int:
        """For poll(2): readable is a close record, priority is a change of the tables."""
        return self._file

    def version(self) -> dict[str, int]:
        """Return the interface's version, its features and limits."""
        return {name: value for name, value in self._call("VERSION").items() if isinstance(value, int)}

    def parameters(self) -> list[Parameter]:
        """All that the module knows of, settable or not."""
        return [self._parameter(key) for key in range(self.version()["parameters"])]

    def status(self) -> dict[str, int]:
        return {name: _number(value) for name, value in self._call("STATUS").items()}

    def stats(self, profile: int) -> dict[str, int]:
        """Counters of one profile; opened - closed are alive."""
        return {name: _number(value) for name, value in self._call("STATS", profile=profile).items()}

    def options(self) -> tuple[int, int, str]:
        """(flags, profile of clients without a prefix or 0, plain congestion control)."""
        answer = self._call("OPTIONS_GET")
        return _number(answer["flags"]), _number(answer["unmatched"]), _text(answer["plain"])

    def ports(self) -> tuple[int, ...]:
        """Return the local ports whose connections are tuned; none: every port."""
        answer = self._call("OPTIONS_GET")["ports"]
        assert isinstance(answer, bytes)
        return tuple(port for port in struct.unpack(f"={PORTS}H", answer) if port)

    def set_options(self, flags: int, unmatched: int, plain: str, ports: Sequence[int] = ()) -> None:
        packed = struct.pack(f"={PORTS}H", *ports, *[0] * (PORTS - len(ports)))
        self._call("OPTIONS_SET", flags=flags, unmatched=unmatched, plain=plain.encode(), ports=packed)

    def profiles(self) -> dict[int, str]:
        """Identifier -> name."""
        found: dict[int, str] = {}
        last = 0
        while True:
            try:
                answer = self._call("PROFILE_NEXT", id=last + 1)
            except FileNotFoundError:
                return found
            last = _number(answer["id"])
            found[last] = _text(answer["name"])

    def new_profile(self, name: str) -> int:
        return _number(self._call("PROFILE_NEW", name=name.encode())["id"])

    def delete_profile(self, profile: int) -> None:
        self._call("PROFILE_DEL", id=profile)

    def settings(self, profile: int) -> dict[int, int | str]:
        """Key -> value of all that the profile sets."""
        room = len(abi.KEYS)
        buffer = ctypes.create_string_buffer(room * PARAM.size)
        answer = self._call("PARAMS_GET", profile=profile, count=room, params=ctypes.addressof(buffer))
        return _settings(buffer.raw, _number(answer["count"]))

    def set_settings(self, profile: int, settings: dict[int, int | str]) -> None:
        """Exactly these, all or none. The error's `filename` is the key that was refused."""
        keys = list(settings)
        packed = b"".join(_param(key, settings[key]) for key in keys)
        buffer = ctypes.create_string_buffer(packed, max(1, len(packed)))
        address = ctypes.addressof(buffer)
        answer = pack("params", profile=profile, flags=FLAGS["REPLACE"], count=len(keys), params=address)
        try:
            fcntl.ioctl(self._file, number("PARAMS_SET"), answer)
        except OSError as error:
            refused = _number(unpack("params", answer)["refused"])
            raise OSError(error.errno, error.strerror, str(keys[refused]) if keys else "") from error

    def set_prefixes(self, packed: bytearray) -> None:
        """Structures `prefix` one after the other; what stands there already is given another profile."""
        self._prefixes("PREFIX_SET", packed)

    def delete_prefixes(self, packed: bytearray) -> None:
        """Those that are not there are no error."""
        self._prefixes("PREFIX_DEL", packed, FLAGS["ABSENT_OK"])

    def get_prefixes(self, packed: bytearray) -> None:
        """Fills in the profile that each has, 0 for one that is not there."""
        self._prefixes("PREFIX_GET", packed)

    def dump(self) -> dict[bytes, int]:
        """All prefixes -> profile, each prefix as the structure's bytes with its profile zeroed.

        Read again while another program changes the tables. Errors: EBUSY when they do not stop.
        """
        for _ in range(DUMPS):
            generation = self.status()["generation"]
            found = {PREFIX.pack(f, length, 0, 0, address): p for f, length, _, p, address in self._dumped()}
            if self.status()["generation"] == generation:
                return found
        raise OSError(errno.EBUSY, "another program keeps changing the tables")

    def flush(self, profile: int = 0) -> int:
        """Delete the prefixes of one profile, 0 of all; returns how many went."""
        return _number(self._call("PREFIX_FLUSH", profile=profile)["removed"])

    def assign(self, descriptor: int, profile: int) -> None:
        """Give one connected socket a profile; 0 gives it back to the plain congestion control."""
        self._call("SOCKET_ASSIGN", fd=descriptor, profile=profile)

    def of_socket(self, descriptor: int) -> tuple[int, dict[int, int | str]]:
        """(profile or 0, key -> value in force) of one socket."""
        room = len(abi.KEYS)
        buffer = ctypes.create_string_buffer(room * PARAM.size)
        answer = self._call("SOCKET_GET", fd=descriptor, count=room, params=ctypes.addressof(buffer))
        return _number(answer["profile"]), _settings(buffer.raw, _number(answer["count"]))

    def begin_records(self, capacity: int = 0) -> None:
        """Record connections for this file from now on; 0 keeps 4096 records until they are read."""
        self._call("RECORDS", capacity=capacity)

    def records(self) -> list[dict[str, int | bytes]]:
        """What has come since the last call, oldest first. `lost` of a record counts those lost just before it."""
        found: list[dict[str, int | bytes]] = []
        while True:
            try:
                answer = os.read(self._file, 1024 * RECORD.size)
            except BlockingIOError:
                return found
            found += [unpack("record", answer[at : at + RECORD.size]) for at in range(0, len(answer), RECORD.size)]

    def load_plan(self, mixes: bytes, **plan: int | bytes) -> None:
        """Prepare a plan of these fields with packed structures `mix`; nothing of it is in force before `turn`."""
        buffer = ctypes.create_string_buffer(mixes, max(1, len(mixes)))
        count = len(mixes) // STRUCTS["mix"].size
        self._call("PLAN_LOAD", mixes=ctypes.addressof(buffer), count=count, **plan)

    def turn_plan(self) -> None:
        """Put the loaded plan in force."""
        self._call("PLAN_TURN")

    def renew_plan(self, not_after: int) -> None:
        self._call("PLAN_RENEW", not_after=not_after)

    def drop_plan(self) -> None:
        self._call("PLAN_DROP")

    def plan_status(self) -> dict[str, int]:
        return {name: _number(value) for name, value in self._call("PLAN_STATUS").items()}

    def plan_mixes(self) -> list[dict[str, int | bytes]]:
        """Return the mixes in force."""
        size, room = STRUCTS["mix"].size, self.version()["profiles_max"]
        buffer = ctypes.create_string_buffer(room * size)
        count = _number(self._call("PLAN_MIXES", mixes=ctypes.addressof(buffer), count=room)["count"])
        return [unpack("mix", buffer.raw[at : at + size]) for at in range(0, count * size, size)]

    def _parameter(self, key: int) -> Parameter:
        answer = self._call("PARAM_INFO", key=key)
        flags = _number(answer["flags"])
        return Parameter(
            key,
            _text(answer["name"]),
            bool(flags & FLAGS["PARAM_SETTABLE"]),
            bool(flags & FLAGS["PARAM_TEXT"]),
            _number(answer["min"]),
            _number(answer["max"]),
            _text(answer["unit"]),
            _text(answer["words"]),
        )

    def _prefixes(self, call: str, packed: bytearray, flags: int = 0) -> None:
        """The kernel reads and writes them where they are."""
        there = (ctypes.c_char * len(packed)).from_buffer(packed)
        self._call(call, prefixes=ctypes.addressof(there), count=len(packed) // PREFIX.size, flags=flags)

    def _dumped(self) -> Iterator[tuple[int, int, int, int, bytes]]:
        buffer = bytearray(DUMP_PREFIXES * PREFIX.size)
        there = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
        flags = FLAGS["FROM_START"]
        while True:
            answer = self._call("PREFIX_DUMP", prefixes=there, count=DUMP_PREFIXES, flags=flags)
            done = _number(answer["done"])
            if not done:
                return
            yield from PREFIX.iter_unpack(memoryview(buffer)[: done * PREFIX.size])
            flags = 0

    def _call(self, call: str, **values: int | bytes) -> dict[str, int | bytes]:
        layout = abi.CALLS[call][2]
        if not layout:
            fcntl.ioctl(self._file, number(call))
            return {}
        answer = pack(layout, **values)
        fcntl.ioctl(self._file, number(call), answer)
        return unpack(layout, answer)


def _param(key: int, value: int | str) -> bytes:
    if isinstance(value, str):
        if len(value.encode()) >= abi.CC_BYTES:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return bytes(pack("param", key=key, text=value.encode()))
    return bytes(pack("param", key=key, value=value))


def _settings(packed: bytes, count: int) -> dict[int, int | str]:
    found: dict[int, int | str] = {}
    for key, _, value, text in PARAM.iter_unpack(packed[: count * PARAM.size]):
        found[key] = text.rstrip(b"\0").decode() or value
    return found


def _number(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _text(value: int | bytes) -> str:
    assert isinstance(value, bytes)
    return value.decode(errors="replace")
