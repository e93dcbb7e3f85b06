# SPDX-License-Identifier: MIT
"""Runs as root inside a guest: each driver sets each knob and each congestion control; a connection says what it has.

Question   What does each driver do on this kernel, and does a client get it?
Method     For each driver of the product, for each knob that it says it can set here: ask the guard, as `tune plan`
           does; apply a profile of one prefix; read it back; make a connection from the prefix and ask the driver, as
           `tune verify` does; take all of it back.
Reads as   a row for each: `seen` (the connection has it), `set` (read back; no socket shows it), `refused` (by the
           guard, with its reason, before anything was changed), `wrong` (all else).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Asker, Driver
from configtron.model.tuning import Answers, Place, Reach, Rules
from configtron.service.lease.planner import refused
from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load
from configtron.tune.drivers.own_connections import IDLE
from configtron.tune.drivers.socket_options import CONTROL
from configtron.tune.drivers.witness import OWN, newest_sockets, witness
from configtron.tune.guard import Limits
from configtron.tune.rules import difference
from tests.support.kmod import schemes

Row = dict[str, str]
Settings = dict[str, Value]

PREFIX = "10.7.0.0/16"
# Where clients of the prefix would be; the route driver acts on the default route's interface.
LINK = (
    "link add s0 type veth peer name c0", "link set c0 up", "link set s0 up", "addr add 10.9.0.1/24 dev s0",
    "route add default via 10.9.0.2",
)  # fmt: skip
# A value of each knob that has a range, other than what a connection has by itself.
VALUES: Mapping[str, Value] = {
    "initcwnd": 23, "initrwnd": 8, "synack_rto": 0.2, "data_rto": 0.5, "min_rto": 0.1, "max_pacing_rate": 5_000_000,
    "delack_max": 0.04, "notsent_lowat": 16384, "window_clamp": 30_000, "cwnd_clamp": 77, "priority": 5, "mark": 99,
    "busy_poll": 50, "resume_cwnd": 60, "resume_rtt": 0.1,
}  # fmt: skip
# Settings that a knob's value needs beside it.
COMPANIONS: Mapping[tuple[str, Value], tuple[Settings, ...]] = {
    (IDLE, 0): ({CONTROL: "cubic", "initcwnd": 20}, {CONTROL: "reno", "initcwnd": 20}, {CONTROL: "bbr"}),
    ("pacing", "pfifo_fast"): ({CONTROL: "bbr"}, {CONTROL: "cubic"}),
    ("resume_cwnd", 60): ({"resume_rtt": 0.1},), ("resume_rtt", 0.1): ({"resume_cwnd": 60},),
}  # fmt: skip
# The prefix's clients are allowed everything that a driver can do.
FREE = Limits(allow_unfair=True)


def every(folder: Path) -> list[Row]:
    """A row for each driver and setting; a driver that cannot act has one row, with the reason."""
    for words in LINK:
        subprocess.run(["ip", *words.split()], check=True)
    for path in sorted(folder.glob("tcp_*.ko"), key=lambda path: path.stem == "tcp_yeah"):
        schemes.insert(path)
    module = schemes.insert(folder / "configtron.ko")
    rows: list[Row] = []
    for driver in (load(name, Place()) for name in DRIVERS if name != FOR_TRIALS):
        if why := driver.missing():
            rows.append({"driver": driver.name, "set": "-", "result": "refused", "why": why})
        rows += [tried(driver, settings) for settings in _wanted(driver.settable())]
    if module and (words := schemes.remove("configtron")):
        rows.append({"driver": "kmod", "set": "unload", "result": "wrong", "why": words})
    return rows


def _wanted(reaches: Mapping[str, Reach]) -> Iterator[Settings]:
    for knob, reach in reaches.items():
        for value in reach.values or (VALUES[knob],):
            companions = [each for each in COMPANIONS.get((knob, value), ()) if each.keys() <= reaches.keys()]
            yield from ({knob: value, **each} for each in companions or [{}])


def tried(driver: Driver, settings: Settings) -> Row:
    """One profile by one driver: planned, applied, read, witnessed, taken back."""
    row = {"driver": driver.name, "set": " ".join(f"{knob}={value}" for knob, value in settings.items())}
    by_prefix = any(driver.settable()[knob].per in ("connection", "prefix") for knob in settings)
    scope: tuple[dict[str, str], str] = ({PREFIX: "p"}, "") if by_prefix else ({}, "p")
    rules = Rules({"p": Profile("p", tuple(settings.items()))}, *scope)
    if why := refused(driver, rules, FREE):
        return row | {"result": "refused", "why": why}
    before = driver.before()
    try:
        result, why = _in_force(driver, rules)
    except (ConfigtronError, OSError) as error:
        result, why = "wrong", f"{type(error).__name__}: {error}"
    finally:
        driver.revert(before)
    if driver.read() != Rules():
        result, why = "wrong", "not taken back"
    return row | {"result": result, "why": why}


def _in_force(driver: Driver, rules: Rules) -> tuple[str, str]:
    newest = newest_sockets()
    driver.apply(difference(Rules(), rules))
    if driver.read() != rules:
        return "wrong", "reads back otherwise"
    asked = driver.ask(rules) if isinstance(driver, Asker) else Answers()
    answers = [asked, *witness(driver, rules, newest)]
    if lies := [f"{one.knob} {one.applied}: {one.found}" for each in answers for one in each.differences]:
        return "wrong", "; ".join(lies)
    own = OWN.get(driver.name)
    if own and not answers[-1].asked:
        return "wrong", "; ".join(answers[-1].unasked)
    seen = rules.profiles["p"].settings[0][0] in own if own else asked.asked
    return ("seen" if seen else "set"), ""
