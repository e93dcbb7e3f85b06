# SPDX-License-Identifier: MIT
"""Servers at several ports and addresses, of which a place names some; what `ss` says of each one's connections.

    listened.py         run it apart (tests/support/isolation.py)

JSON on standard output: ways [a client reaches a listener] -> what `ss -ti` shows of the server's socket, as soon as it
is connected, and again after `move` to other settings.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.rules import difference
from tests.support.tune.left import GROUP, nothing_left

LISTEN = "443,127.0.0.9:8080,[::1]:8081"
# A name for each way -> who listens where, and the address that the client connects to.
WAYS = {
    "443": ("0.0.0.0", 443, "127.0.0.1"),
    "443 mapped": ("::", 443, "127.0.0.1"),
    "443 v6": ("::", 443, "::1"),
    "22": ("0.0.0.0", 22, "127.0.0.1"),
    "22 mapped": ("::", 22, "127.0.0.1"),
    "22 v6": ("::", 22, "::1"),
    "8080 of the named address": ("0.0.0.0", 8080, "127.0.0.9"),
    "8080 mapped, of the named address": ("::", 8080, "127.0.0.9"),
    "8080 of another": ("0.0.0.0", 8080, "127.0.0.8"),
    "8081 of the named address": ("::", 8081, "::1"),
    "8081 of another": ("0.0.0.0", 8081, "127.0.0.9"),
}
FIRST = Profile("p", (("initcwnd", 23), ("initrwnd", 5), ("tcp_congestion_control", "cubic")))
AFTER = Profile("p", (("tcp_congestion_control", "bbr"),))


def shown(server: tuple[str, int], client: tuple[str, int]) -> dict[str, Any]:
    """The server's socket as `ss` shows it."""
    words = ["ss", "-tinHO", "sport", "=", f":{server[1]}", "and", "dport", "=", f":{client[1]}"]
    line = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    control, cwnd = re.search(r"\b(cubic|bbr|reno)\b", line), re.search(r"\bcwnd:(\d+)", line)
    assert control and cwnd, line
    return {"cc": control[1], "cwnd": int(cwnd[1])}


def look(driver: EbpfDriver) -> dict[str, Any]:
    # The host's own default is not what a profile asks for.
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    driver.apply(difference(Rules(), Rules({"p": FIRST}, {}, "p")))
    answer: dict[str, Any] = {"begun": {}, "moved": {}, "offered": {}}
    with ExitStack() as stack:
        ends = {}
        for way, (host, port, address) in WAYS.items():
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.create_server((host, port), family=family, dualstack_ipv6=family == socket.AF_INET6) as one:
                client = stack.enter_context(socket.create_connection((address, port)))
                served = stack.enter_context(one.accept()[0])
            ends[way] = client.getpeername()[:2], client.getsockname()[:2]
            answer["begun"][way] = shown(*ends[way])
            # tcpi_snd_wnd of the client: what the server's SYN-ACK offered
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            answer["offered"][way] = int.from_bytes(info[228:232], "little")
            served.getpeername()
        with ExitStack() as listening:
            for host, port in dict.fromkeys((way[0], way[1]) for way in WAYS.values() if way[0] == "::"):
                listening.enter_context(socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True))
            driver.apply(difference(Rules({"p": FIRST}, {}, "p"), Rules({"p": AFTER}, {}, "p")))
            answer["move"] = driver.move()
        answer["moved"] = {way: shown(*both) for way, both in ends.items()}
    return answer


def main() -> None:
    group = pins.mounts("cgroup2")[0] / GROUP
    group.mkdir()
    home = [line.split(":")[2].strip() for line in Path("/proc/self/cgroup").open() if line.startswith("0:")][0]
    driver = EbpfDriver(Place(cgroup=GROUP, listen=LISTEN))
    before = driver.before()
    try:
        (group / "cgroup.procs").write_text("0")
        answer = look(driver)
        # The same group without listeners, or with others, is another place.
        others = [EbpfDriver(Place(cgroup=GROUP, listen=listen)).read() for listen in ("", "443")]
        answer["others see nothing"] = others == [Rules(), Rules()]
        driver.revert(before)
        answer["nothing left"] = nothing_left()
        print(json.dumps(answer))
    finally:
        driver.revert(before)
        (pins.mounts("cgroup2")[0] / home.strip("/") / "cgroup.procs").write_text("0")
        group.rmdir()


if __name__ == "__main__":
    main()
