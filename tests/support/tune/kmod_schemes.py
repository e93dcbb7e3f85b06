# SPDX-License-Identifier: MIT
"""Inside a guest: congestion controls that are not what they seem, whose default a namespace has, slow modprobe.

python3 -m tests.support.tune.kmod_schemes configtron.ko replacing.ko
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from configtron.linux.netns import inside
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.kmod_driver import DEFAULT_CONTROL, KmodDriver
from configtron.tune.drivers.kmod.module_units import AVAILABLE
from tests.support.kmod.schemes import references
from tests.support.tune.kmod_net import (
    PORT4,
    RTT_S,
    complaints,
    connected,
    control,
    default,
    device,
    drained,
    failure,
    hosts,
    listener,
    load,
    profile,
    switch_on,
    tc,
    window,
)

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
CC = KEY_OF["tcp_congestion_control"]
EACH = 5
# How long modprobe takes; a call that waits for it takes as long.
MODPROBE = Path("/proc/sys/kernel/modprobe")
SLOW_S = 5
# SYN and SYN-ACK are repeated after 1 s and after 3 s; all between the first SYN and the last of these are lost.
LEFT_S, LOST_S = 0.02, 2.5


def refused(name: str, dropped: bool = False) -> str:
    """What the driver says of a profile with that congestion control, or, `dropped`, of one without any."""
    settings = () if dropped else (("tcp_congestion_control", name),)
    try:
        KmodDriver(Place("s")).apply(Changes({"p": Profile("p", settings)}))
    except ConfigtronError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def needs_ecn(opened: Device) -> dict[str, Any]:
    """dctcp, to a profile, as what is left alone, by the driver, and as the host's default."""
    made = opened.new_profile("p")
    found: dict[str, Any] = {
        "profile": failure(lambda: opened.set_settings(made, {CC: "dctcp"})),
        "plain": failure(lambda: opened.set_options(FLAGS["ENABLED"], 0, "dctcp")),
        "settings": opened.settings(made),
    }
    opened.delete_profile(made)
    found["driver"] = refused("dctcp")
    ALLOWED.write_text(AVAILABLE.read_text())  # a namespace other than the first may choose among these only
    default("dctcp")
    generation = opened.status()["prefixes"], opened.profiles()
    found["default"] = refused("", dropped=True)
    with inside("s"):
        found["default stays"] = DEFAULT_CONTROL.read_text().strip()
    found["nothing written"] = generation == (opened.status()["prefixes"], opened.profiles())
    default("cubic")
    return found


def replaced(opened: Device, at: socket.socket, name: str) -> dict[str, Any]:
    """Connections of a congestion control that replaces its operations: what runs, what is counted, what is held."""
    made = profile(opened, ("10.3.0.0/16",), tcp_congestion_control=name, initcwnd=33)
    with device() as reader:
        reader.begin_records()
        held = references("replacing"), references("configtron")
        ends = [connected(at, f"10.3.0.{i + 1}", PORT4) for i in range(EACH)]
        found: dict[str, Any] = {
            "runs": control(ends[0][1]),
            "window": window(ends[0][1]),
            "profile": opened.of_socket(ends[0][1].fileno())[0] == made,
            "open": [opened.stats(made)[which] for which in ("opened", "closed", "replaced")],
            "witness": list(KmodDriver(Place("s")).refusals().get("tcp_congestion_control", ())),
        }
        for client, served in ends:
            served.sendall(b"x" * 5000)
            client.close()
            served.close()
        time.sleep(30)
        ends = ((bytes(one["cc"]).decode(), one["flags"] & FLAGS["RECORD_LEFT"]) for one in reader.records())  # type: ignore[arg-type, operator]
        found["records"] = sorted(set(ends))
        found["closed"] = [opened.stats(made)[which] for which in ("opened", "closed", "replaced")]
        found["balanced"] = held == (references("replacing"), references("configtron"))
    opened.flush()
    opened.delete_profile(made)
    return found


def namespaces() -> dict[str, Any]:
    """One made while we are the host's default, which was bbr: what it has then, and what is left of us in it."""
    found: dict[str, Any] = {}
    driver = KmodDriver(Place(""))
    DEFAULT_CONTROL.write_text("bbr")
    before = driver.before()
    driver.apply(Changes({"v": Profile("v", (("initcwnd", 20),))}, prefixes={"10.9.0.0/16": "v"}))
    found["host"] = DEFAULT_CONTROL.read_text().strip()
    held = references("configtron")
    subprocess.run(["ip", "netns", "add", "made"], check=True)
    found["holds nothing"] = held == references("configtron")
    found["made"] = made_default()
    with device("made") as other:
        found["plain"] = other.options()[2]
    subprocess.run(["ip", "-n", "made", "link", "set", "lo", "up"], check=True)
    with inside("made"):
        at, client = socket.create_server(("127.0.0.1", 0)), socket.socket()
    client.connect(at.getsockname())
    served = at.accept()[0]
    found["runs"] = [control(one) for one in (client, served)]
    driver.revert(before)
    found["after"] = [DEFAULT_CONTROL.read_text().strip(), made_default()]
    for one in (client, served, at):
        one.close()
    return found


def made_default() -> str:
    with inside("made"):
        return DEFAULT_CONTROL.read_text().strip()


def slow_modprobe(opened: Device) -> dict[str, float]:
    """How long others wait while a name is looked for that only modprobe could bring."""
    made = opened.new_profile("slow")
    helper = Path("/run/modprobe")
    helper.write_text(f"#!/bin/sh\nsleep {SLOW_S}\nexit 1\n")
    helper.chmod(0o755)
    usual = MODPROBE.read_text()
    MODPROBE.write_text(str(helper))
    with device("s") as other, device("c") as elsewhere:
        asks = threading.Thread(target=lambda: failure(lambda: other.set_settings(made, {CC: "nosuch"})))
        began = time.monotonic()
        asks.start()
        time.sleep(1)
        opened.delete_profile(opened.new_profile("quick"))
        tables = time.monotonic() - began
        elsewhere.set_options(FLAGS["ENABLED"], 0, "illinois")
        names = time.monotonic() - began
        asks.join()
        whole = time.monotonic() - began
        elsewhere.set_options(FLAGS["ENABLED"], 0, "cubic")
    MODPROBE.write_text(usual)
    opened.delete_profile(made)
    return {"tables": round(tables, 1), "names": round(names, 1), "whole": round(whole, 1)}


def repeated_synack(opened: Device, at: socket.socket) -> dict[str, int]:
    """The first window where the SYN-ACK was repeated, and where not (RFC 5681 section 3.1: one segment)."""
    made = profile(opened, ("10.4.0.0/16",), tcp_congestion_control="cubic", initcwnd=40)
    _, served = connected(at, "10.4.0.1", PORT4)
    usual = window(served)
    lossy("s", "vs", loss=True)
    # the first SYN has left; without a second one the server's own timer repeats its SYN-ACK
    timers = [threading.Timer(LEFT_S, lossy, ("c", "vc", True)), threading.Timer(LOST_S, through)]
    for timer in timers:
        timer.start()
    _, served = connected(at, "10.4.0.2", PORT4)
    for timer in timers:
        timer.join()
    found = {"usual": usual, "repeated": window(served), "profile": int(opened.of_socket(served.fileno())[0] == made)}
    opened.flush()
    opened.delete_profile(made)
    return found


def lossy(netns: str, end: str, loss: bool) -> None:
    tc(netns, "change", f"{end} root netem delay {RTT_S / 2}s limit 100000{' loss 100%' if loss else ''}")


def through() -> None:
    lossy("s", "vs", loss=False)
    lossy("c", "vc", loss=False)


def main(module: str, replacing: str) -> None:
    DEFAULT_CONTROL.write_text("bbr")
    load(module)
    load(replacing)
    found: dict[str, Any] = {"by load": ""}
    with device_here() as first:
        found["by load"] = first.options()[2]
    DEFAULT_CONTROL.write_text("cubic")
    with hosts():
        with device() as opened:
            found["needs ecn"] = needs_ecn(opened)
            switch_on(opened)
            at = listener(PORT4)
            found |= {name: replaced(opened, at, name) for name in ("rep_init", "rep_release")}
            found |= {"synack": repeated_synack(opened, at), "modprobe": slow_modprobe(opened)}
            at.close()
        default("cubic")
    found["namespaces"] = namespaces()
    found["unload"] = drained()  # the namespace is still there
    subprocess.run(["ip", "netns", "del", "made"], check=True)
    subprocess.run(["sleep", "60"], check=True)
    found["held by no process"] = [references("replacing"), unload_of("replacing")]
    print(json.dumps(found | {"complaints": complaints()}))


def device_here() -> Device:
    return Device()


def unload_of(name: str) -> int:
    return subprocess.run(["rmmod", name], capture_output=True).returncode


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
