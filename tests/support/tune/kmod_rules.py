# SPDX-License-Identifier: MIT
"""Inside a guest: the driver kmod with rules, from nothing to a hundred thousand prefixes and back; prints JSON.

python3 -m tests.support.tune.kmod_rules configtron.ko
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configtron.linux.netns import inside
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.kmod_driver import DEFAULT_CONTROL, KmodDriver
from configtron.tune.rules import difference
from tests.support.tune.kmod_net import PORT4, PORT6, connected, default, device, drained, hosts, listener, load

MANY = 100_000


def named(name: str, **settings: Value) -> Profile:
    return Profile(name, tuple(settings.items()))


WANTED = Rules(
    {
        "wide": named("wide", tcp_congestion_control="bbr", initcwnd=40, min_rto=0.02),
        "narrow": named("narrow", pacing="fq", initcwnd=4),
        "as it is": named("as it is"),
    },
    {
        "10.1.0.0/16": "wide", "10.1.2.0/24": "narrow", "fd00::/16": "wide", "::/0": "as it is",
        "::102:304/128": "narrow", "192.0.2.7/32": "as it is",
    },
    "narrow",
)  # fmt: skip


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except ConfigtronError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def here(netns: str) -> str:
    with inside(netns):
        return DEFAULT_CONTROL.read_text().strip()


def refusals(driver: KmodDriver) -> dict[str, str]:
    """Changes that must change nothing."""
    return {
        "control": refused(lambda: driver.apply(Changes({"c": named("c", tcp_congestion_control="nosuch")}))),
        "name": refused(lambda: driver.apply(Changes(prefixes={"10.9.0.0/16": "unknown"}))),
        "used": refused(lambda: driver.apply(Changes(dropped_profiles=frozenset({"wide"})))),
        "default": refused(lambda: driver.apply(Changes(dropped_profiles=frozenset({"narrow"})))),
        "range": refused(lambda: driver.apply(Changes({"c": named("c", initcwnd=2000)}))),
    }


def allow(names: str) -> None:
    """Let other namespaces than the first have these congestion controls as their default."""
    Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").write_text(names)


def next_steps(driver: KmodDriver, before: str) -> dict[str, Any]:
    """Refusals of the kernel beyond a setting, and what they say is to be done; each is mended as it says."""
    found: dict[str, Any] = {}
    abi.ABI += 1  # type: ignore[misc]
    found["other version"] = driver.missing()
    abi.ABI -= 1  # type: ignore[misc]
    allow("reno cubic")
    found["not allowed"] = refused(lambda: driver.apply(difference(Rules(), WANTED)))
    allow("reno cubic configtron")
    driver.apply(difference(Rules(), WANTED))
    allow("cubic")
    found["old default"] = [refused(lambda: driver.revert(before)), here("s"), driver.read() == Rules()]
    allow("reno cubic configtron")
    driver.revert(before)
    found["restored"] = here("s")
    many = {f"p{number}": named(f"p{number}", initcwnd=20) for number in range(1025)}
    found["room"] = refused(lambda: driver.apply(Changes(many)))
    driver.revert(before)
    allow("reno cubic configtron dctcp")
    default("dctcp", "s")
    found["cannot be wrapped"] = refused(lambda: driver.apply(difference(Rules(), WANTED)))
    default("reno", "s")
    return found


def windows(driver: KmodDriver) -> dict[str, int]:
    """Client -> the first window of its connection."""
    at, found = listener(PORT4), {}
    for source in ("10.1.0.9", "10.1.2.9", "10.7.0.9"):
        client, served = connected(at, source, PORT4)
        with device() as opened:
            found[source] = int(opened.of_socket(served.fileno())[1][1])
        client.close()
        served.close()
    at.close()
    return found


def many(driver: KmodDriver) -> dict[str, Any]:
    prefixes = {f"{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24": "narrow" for i in range(MANY)}
    opened = driver.apply(Changes(prefixes=prefixes))
    mark = driver.mark()
    some = dict(list(prefixes.items())[:100])
    moved = driver.apply(Changes(prefixes=dict.fromkeys(some, "wide")))
    read = driver.read().prefixes
    return {
        "read back": dict(opened.prefixes) == prefixes,
        "moved": set(moved.prefixes.values()) == {"wide"} and len(moved.prefixes) == 100,
        "read": dict(read) == {**WANTED.prefixes, **prefixes, **dict.fromkeys(some, "wide")},
        "marked": mark != driver.mark() == driver.mark(),
    }


def listened() -> dict[str, Any]:
    """Rules for port 80 alone: first windows at 80 and 81 by each family, and what a driver for all ports does then."""
    only, whole = KmodDriver(Place("s", listen=str(PORT4))), KmodDriver(Place("s"))
    before = only.before()
    only.apply(Changes({"wide": named("wide", initcwnd=40)}, {"10.1.0.0/16": "wide"}, default="wide"))
    found: dict[str, Any] = {"windows": []}
    for port in (PORT4, PORT6):
        at = listener(port)
        client, served = connected(at, "10.1.0.9", port)
        with device() as opened:
            found["windows"].append(int(opened.of_socket(served.fileno())[1][1]))
        for each in (client, served, at):
            each.close()
    found["read"] = [len(only.read().prefixes), len(whole.read().prefixes), len(whole.listened()), only.listened()]
    found["found"] = whole.listened()[0].place.listen
    found["refused"] = refused(lambda: whole.apply(Changes({"c": named("c", initcwnd=5)}, {"10.2.0.0/16": "c"})))
    whole.revert(before)
    found["still"] = len(only.read().prefixes)
    only.revert(before)
    found["left"] = [len(only.read().prefixes), whole.listened(), here("s")]
    found["addresses"] = KmodDriver(Place("s", listen="192.0.2.1:80")).missing()
    return found


def main(module: str) -> None:
    found: dict[str, Any] = {}
    with hosts():
        driver, elsewhere = KmodDriver(Place("s")), KmodDriver(Place("c"))
        found["absent"] = [driver.missing(), driver.read() == Rules(), driver.mark()]
        driver.revert(driver.before())
        load(module)
        found["able"] = [driver.missing(), len(driver.settable()), KmodDriver(Place("nowhere")).missing()]
        default("reno", "s")
        before = driver.before()
        found["before"] = before
        mark = driver.mark()
        found["as asked"] = driver.apply(difference(Rules(), WANTED)) == driver.read() == WANTED
        found["marked"] = mark != driver.mark() == driver.mark()
        found["default"] = [here("s"), here("c"), elsewhere.read() == Rules()]
        found["windows"] = windows(driver)
        found["refusals"] = refusals(driver) | {"unchanged": str(driver.read() == WANTED)}
        found["many"] = many(driver)
        moved = Changes(prefixes={"10.1.0.0/16": "narrow"}, dropped_prefixes=frozenset({"fd00::/16"}))
        driver.apply(moved)
        found["frozen"] = [driver.mark()]
        default("cubic", "s")  # an external change
        found["overruled"] = driver.read() == Rules()
        found["frozen"] += [driver.mark()]
        found["again"] = driver.apply(difference(driver.read(), WANTED)) == driver.read() == WANTED
        driver.revert(before)
        driver.revert(before)
        with device() as opened:
            found["nothing left"] = [
                here("s"),
                driver.read() == Rules(),
                opened.status()["prefixes"],
                opened.profiles(),
            ]
        found["listened"] = listened()
        found["next steps"] = next_steps(driver, before)
    found["drained"] = drained()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
