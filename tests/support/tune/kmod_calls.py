# SPDX-License-Identifier: MIT
"""Inside a guest: what the calls of /dev/configtron take, refuse and report; prints JSON.

python3 -m tests.support.tune.kmod_calls configtron.ko
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from configtron.linux.netns import inside
from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.kmod_driver import CONTROL
from configtron.tune.drivers.kmod.module_units import KNOB_OF, packed, reaches
from tests.support.tune.kmod_net import (
    PORT4,
    complaints,
    connected,
    default,
    device,
    drained,
    failure,
    hosts,
    listener,
    load,
    profile,
    switch_on,
)

# A value unlike the default of everything that this kernel's module sets, all in one profile.
EVERYTHING: dict[str, int | str] = {
    "tcp_congestion_control": "vegas", "initcwnd": 33, "tcp_slow_start_after_idle": 0, "pacing": 1,
    "max_pacing_rate": 1_234_567, "min_rto": 30_000, "data_rto": 700_000, "delack_max": 50_000, "notsent_lowat": 16384,
    "window_clamp": 30_000, "cwnd_clamp": 77, "priority": 5, "mark": 99, "busy_poll": 50, "quickack": 1, "nagle": 0,
    "resume_cwnd": 200, "resume_rtt": 123_456,
}  # fmt: skip
# What getsockopt(2) reports besides: level, name.
OPTIONS = {
    "notsent_lowat": (6, 25), "window_clamp": (6, 10), "priority": (1, 12), "mark": (1, 36), "busy_poll": (1, 46),
    "nagle": (6, 1),
}  # fmt: skip


def cells(opened: Device, at: socket.socket) -> dict[str, Any]:
    """Each parameter as the profile states it, as the socket has it, and as an untouched socket has it."""
    settable = [one.name for one in opened.parameters() if one.settable]
    made = profile(opened, ("10.1.0.0/16",), **{knob: EVERYTHING[knob] for knob in settable})
    client, served = connected(at, "10.1.0.1", PORT4)
    other, untouched = connected(at, "10.2.0.1", PORT4)
    found = {
        "profile's": {KNOB_OF[key]: value for key, value in opened.settings(made).items()},
        "socket": {KNOB_OF[key]: value for key, value in opened.of_socket(served.fileno())[1].items()},
        "untouched": {KNOB_OF[key]: value for key, value in opened.of_socket(untouched.fileno())[1].items()},
        "profile": opened.of_socket(served.fileno())[0] == made and opened.of_socket(untouched.fileno())[0] == 0,
        "options": {knob: served.getsockopt(*option) for knob, option in OPTIONS.items()},
        "parameters": [[one.name, one.settable, one.words] for one in opened.parameters()],
        "reaches": {
            knob: [list(reach.values), reach.least, reach.most, reach.note]
            for knob, reach in reaches(opened.parameters()).items()
        },
    }
    for each in (client, served, other, untouched):
        each.close()
    return found


def refusals(opened: Device) -> dict[str, str]:
    """What is wrong -> the error's name."""
    made = opened.new_profile("refusals")
    key = KEY_OF["initcwnd"]

    def settings(**wanted: int | str) -> Callable[[], object]:
        return lambda: opened.set_settings(made, {KEY_OF[knob]: value for knob, value in wanted.items()})

    def prefix(packed_prefix: bytes) -> Callable[[], object]:
        return lambda: opened.set_prefixes(packed_prefix)

    opened.set_settings(made, {key: 20})
    found = {
        "range": failure(settings(initcwnd=0)),
        "above": failure(settings(initcwnd=1001)),
        "impossible": failure(settings(tcp_autocorking=0)),
        "no such control": failure(settings(tcp_congestion_control="nosuch")),
        "ourselves": failure(settings(tcp_congestion_control=CONTROL)),
        "half": failure(settings(initcwnd=30, min_rto=1)),
        "unknown key": failure(lambda: opened.set_settings(made, {99: 1})),
        "no such profile": failure(lambda: opened.set_settings(made + 1000, {key: 1})),
        "prefix of no profile": failure(prefix(packed({"10.9.0.0/16": made + 1000}))),
        "stray bits": failure(prefix(packed({"10.9.0.1/16": made}))),
        "mapped": failure(prefix(packed({"::ffff:0:0/96": made}))),
        "too long": failure(prefix(packed({"10.9.0.0/33": made}))),
        "delete no profile": failure(lambda: opened.delete_profile(made + 1000)),
        "read before records": failure(lambda: os.read(opened.fileno(), 4096)),
        "no such call": failure(lambda: _ioctl(opened, 0xC0FFEE)),
    }
    with inside("s"):
        unconnected, other = socket.socket(), socket.socket(socket.AF_UNIX)
    with unconnected, other:
        found["unconnected"] = failure(lambda: opened.assign(unconnected.fileno(), made))
        found["not TCP"] = failure(lambda: opened.assign(other.fileno(), made))
    found["no descriptor"] = failure(lambda: opened.assign(999, made))
    found["settings kept"] = json.dumps(opened.settings(made))
    opened.set_prefixes(packed({"10.9.0.0/16": made}))
    found["delete with prefixes"] = failure(lambda: opened.delete_profile(made))
    opened.flush(made)
    opened.set_options(FLAGS["ENABLED"], made, "cubic")
    found["delete the default"] = failure(lambda: opened.delete_profile(made))
    opened.set_options(FLAGS["ENABLED"], 0, "cubic")
    opened.delete_profile(made)
    return found


def _ioctl(opened: Device, request: int) -> None:
    fcntl.ioctl(opened.fileno(), request, bytes(64))


def unprivileged(opened: Device) -> dict[str, str]:
    """Every call on a file that root has opened, by a process without CAP_NET_ADMIN; opening it besides."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        found = {call: failure(lambda call=call: opened._call(call)) for call in abi.CALLS}  # type: ignore[misc]
        found["read"] = failure(lambda: os.read(opened.fileno(), 4096))
        found["open"] = failure(Device)
        os.write(write_end, json.dumps(found).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return dict(json.loads(os.read(read_end, 65536)))


def records(opened: Device, at: socket.socket) -> dict[str, Any]:
    """What is reported of five connections to a reader that keeps four."""
    made = profile(opened, ("10.5.0.0/16", "fd05::/16"), tcp_congestion_control="bbr")
    with device() as reader, select.epoll() as waiting:
        # asked for before there is anything to read: programs may open, wait, and begin records in any order
        waiting.register(reader.fileno(), select.EPOLLIN)
        reader.begin_records(4)
        again = failure(lambda: reader.begin_records(4))
        for last in range(1, 6):
            client, served = connected(at, f"10.5.0.{last}", PORT4)
            served.sendall(b"x" * 5000)
            received = 0
            while received < 5000:
                received += len(client.recv(8192))
            client.close()
            served.close()
        woken = waiting.poll(1)
        time.sleep(1)
        first = reader.records()
        client, served = connected(at, "10.5.0.6", PORT4)
        opened.assign(served.fileno(), 0)
        second = reader.records()
        client.close()
        served.close()
    return {
        "again": again,
        "woken": bool(woken),
        "remotes": [socket.inet_ntoa(bytes(one["remote"])[:4]) for one in first],  # type: ignore[arg-type]
        "first": {k: v if isinstance(v, int) else v.hex() for k, v in first[0].items()},
        "profile": made,
        "lost": [one["lost"] for one in first + second],
        "left": [one["flags"] & FLAGS["RECORD_LEFT"] for one in second],
        "status": opened.status()["records_lost"],
    }


def main(module: str) -> None:
    load(module)
    found: dict[str, Any] = {}
    with hosts():
        with device() as opened:
            switch_on(opened)
            at = listener(PORT4)
            found |= {"records": records(opened, at), "refusals": refusals(opened)}
            found |= {"unprivileged": unprivileged(opened), "cells": cells(opened, at)}
            at.close()
        default("cubic")
    print(json.dumps(found | {"complaints": complaints(), "unload": drained()}))


if __name__ == "__main__":
    main(sys.argv[1])
