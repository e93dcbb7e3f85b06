# SPDX-License-Identifier: MIT
"""Network conditions by name: the families that the papers and the trade know.

    hotcloud:1/150/2.5      1 Mbit/s, 150 ms round trip, 2.5 % of what goes down lost: one of HotCloud's 48
    access:dsl              3g, 4g, cable, dsl, satellite; "access:dsl/10" with a tenth of the buffer
    pantheon:13             Pantheon's calibrated and pathological emulators, 1 to 18
    trace:commute@drawn+25  a cellular link's trace from a moment drawn from a load's seed, 25 ms each way besides
    trace:commute@30+25     a cellular link's trace (`traces/`, or FILE.down with FILE.up) from its 30th second on, and
                            25 ms each way besides; "@30" and "+25" may be left out
    emulated:5/20/1/100     as Pantheon calibrates them: 5 Mbit/s, 20 ms one way, 1 % of what goes down lost, a queue of
                            100 packets; "emulated:5/20/1/100/poisson" where packets leave by chance
    link:20/60/0.25         20 Mbit/s, 60 ms round trip, a queue of a quarter of their product, at least two packets
    policer:5/50/16000      5 Mbit/s by a token bucket of 16 kB, 50 ms round trip: no queue, what is over is lost
    access:4g;2:access:3g   the first, and from the second second of a load on the other

and after any of them, as in link:10/40/1,neighbours=4,spread=6:

    loss=3        per cent of what goes down; runs=8: in runs of eight packets in the mean; outage=120: of 120 ms
    acks=20       what goes up is gathered and released each 20 ms; up=3: at 3 Mbit/s, behind a modem's queue
    aqm=NAME      fq_codel, cake or pie, within the queue's limit
    neighbours=4  bulk flows of cubic through the same link, of other hosts, round trips and phases
    window=32000  bytes, the most that the client advertises
    spread=6      per cent: rate and delay are drawn anew for each load, so far around theirs
    weight=2      counts twice where conditions are averaged

Differs    from Pantheon: its Poisson files have other means than their names say (0.557, 2.435, 2.817 Mbit/s); ours
           have what the calibration found. Its constant links send several packets each whole millisecond, which lets a
           queue of one packet through once a millisecond, whatever the rate; ours send them evenly.
           From HotCloud: the paper does not say how its delay is shared nor how long its queue is. Half each way; the
           queue is the path's bandwidth times its delay, at least `LEAST_QUEUE_BYTES`.
           Pantheon's policers are queues of one packet, as its emulators have them: of packets that come in one
           instant, as a burst does in virtual time, one passes. A policer that people meet is "policer".
Source     CT section 6.1; HC section 2; Pantheon's experiments.yml; WebPageTest's connection profiles
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import product
from math import inf

from configtron.lab.testbed.conditions import Condition, LinkChange, LinkDirection
from configtron.model.errors import BadInput

# What stands after a condition's name: ",KEY=VALUE", the last ones of a name that may hold the same signs.
OPTION = re.compile(r"(?P<rest>.+),(?P<key>[a-z]+)=(?P<value>[^,=]+)")

# Thirty full packets, three initial windows of ten: less room a modem hardly has.
LEAST_QUEUE_BYTES = 46_000

# Two full frames: with room for one only, cubic would fall to a window of one.
LEAST_SHALLOW_BYTES = 3_100

# HotCloud section 2: Mbit/s, round trip in ms, per cent lost.
HOTCLOUD_GRID = ((0.3, 1, 5), (50, 150, 250, 500), (0, 1, 2.5, 5))

# name -> Mbit/s down and up, round trip in ms. WebPageTest's profiles; the last is a geostationary link as sold in the
# United States (FCC, Measuring Fixed Broadband): 25/3 Mbit/s, four times 35 786 km at the speed of light, and slack.
ACCESS: Mapping[str, tuple[float, float, float]] = {
    "3g": (1.6, 0.768, 300),
    "4g": (9, 9, 170),
    "cable": (5, 1, 28),
    "dsl": (1.5, 0.384, 50),
    "satellite": (25, 3, 600),
}

# A file's name may hold the same signs: the last ones count.
TRACE = re.compile(r"(?P<file>.+?)(@(?P<offset>[0-9.]+|drawn))?(\+(?P<delay>[0-9.]+))?")

# Pantheon's direction of bulk data is our "down". Mbit/s, one-way ms, fraction lost, packets of queue.
_CALIBRATED = {
    1: ("poisson", 0.57, 28, 0.0477, 14), 2: ("poisson", 2.64, 88, 0, 130), 3: ("poisson", 3.04, 130, 0, 426),
    4: ("constant", 100.42, 27, 0, 173), 5: ("constant", 77.72, 51, 0.0006, 94), 6: ("constant", 114.68, 45, 0, 450),
}  # fmt: skip
# Policers, as queues of one packet both ways: Mbit/s, one-way ms.
_POLICERS = {7: (12, 10), 8: (60, 10), 9: (108, 10), 10: (12, 50), 11: (60, 50), 12: (108, 50)}
# ACKs gathered: packets at once, of how many Mbit/s (one packet each 100 ms; ten each 200 ms).
_GATHERED = {13: (1, 0.12), 14: (10, 0.6)}
# Buffers of a tenth, a third, half and all of 12 Mbit/s x 60 ms, in bytes.
_SHALLOW = {15: 9_000, 16: 30_000, 17: 45_000, 18: 90_000}


def named(name: str) -> Condition:
    """Return the condition of that name, with steps where ";" parts it. Errors: `BadInput` with the names there are."""
    first, *later = name.split(";")
    start, steps = _one(first), []
    for part in later:
        at, _, other = part.partition(":")
        then = _one(other)
        try:
            if then != Condition(other, then.down, then.up, then.salt):
                raise BadInput(f"{name}: neighbours, windows and servers do not change during a load")
            steps.append(LinkChange(float(at), then.down, then.up))
        except ValueError as error:
            raise BadInput(f"{name}: each change is SECONDS:CONDITION, not {part!r}") from error
    if not all(0 <= step.at_s < inf for step in steps):
        raise BadInput(f"{name}: a change happens some seconds after the start, not before it nor never")
    if [step.at_s for step in steps] != sorted(step.at_s for step in steps):
        raise BadInput(f"{name}: changes stand in the order of their times")
    return replace(start, name=name, salt=salt(name), steps=tuple(steps))


def salt(name: str) -> int:
    """Return a number of its own for each name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big")


def hotcloud() -> tuple[Condition, ...]:
    """Return all 48 conditions."""
    return tuple(named(f"hotcloud:{mbit:g}/{rtt}/{loss:g}") for mbit, rtt, loss in product(*HOTCLOUD_GRID))


def access() -> tuple[Condition, ...]:
    """One a technology."""
    return tuple(named(f"access:{name}") for name in ACCESS)


def pantheon() -> tuple[Condition, ...]:
    """Return all 18 paths, in Pantheon's order."""
    return tuple(named(f"pantheon:{number}") for number in range(1, 19))


def _one(name: str) -> Condition:
    found = OPTION.fullmatch(name)
    if found and found["key"] in OPTIONS:
        try:
            return replace(OPTIONS[found["key"]](_one(found["rest"]), found["value"]), name=name, salt=salt(name))
        except (ValueError, OverflowError) as error:
            raise BadInput(f"no condition {name!r}; {found['key']} is {found['value']!r}") from error
    return _plain(name)


def _plain(name: str) -> Condition:
    family, _, rest = name.partition(":")
    if family not in FAMILIES:
        raise BadInput(f"no condition {name!r}; families: {', '.join(FAMILIES)}")
    try:
        down, up = FAMILIES[family](rest)
    except (ValueError, KeyError, OverflowError) as error:
        raise BadInput(f"no condition {name!r}; {USES[family]}") from error
    return Condition(name, down, up, salt(name))


def queue_bytes(mbit: float, rtt_ms: float) -> int:
    """Return a path's bandwidth times its delay, at least what any modem has."""
    return max(LEAST_QUEUE_BYTES, round(mbit * 1e6 / 8 * rtt_ms / 1e3))


def shallow_bytes(mbit: float, rtt_ms: float, divisor: float) -> int:
    """Return a part of a path's bandwidth times its delay, where no modem's least is meant to hide it."""
    if not divisor >= 1:
        raise ValueError(divisor)
    return max(LEAST_SHALLOW_BYTES, round(mbit * 1e6 / 8 * rtt_ms / 1e3 / divisor))


def _hotcloud(rest: str) -> tuple[LinkDirection, LinkDirection]:
    mbit, rtt, loss = map(float, rest.split("/"))
    if not mbit > 0:
        raise ValueError(rest)
    down = LinkDirection(mbit * 1e3, rtt / 2, round(loss / 100, 9), queue_bytes(mbit, rtt))
    return down, LinkDirection(delay_ms=rtt / 2)


def _access(rest: str) -> tuple[LinkDirection, LinkDirection]:
    name, _, part = rest.partition("/")
    down, up, rtt = ACCESS[name]

    def way(mbit: float) -> LinkDirection:
        room = shallow_bytes(mbit, rtt, float(part)) if part else queue_bytes(mbit, rtt)
        return LinkDirection(mbit * 1e3, rtt / 2, queue_bytes=room)

    return way(down), way(up)


def _pantheon(rest: str) -> tuple[LinkDirection, LinkDirection]:
    number = int(rest)
    if number in _CALIBRATED:
        kind, mbit, delay, loss, packets = _CALIBRATED[number]
        back = LinkDirection(mbit * 1e3, delay, kind=kind)
        return replace(back, loss=loss, queue_packets=packets), back
    if number in _POLICERS:
        rate, delay = _POLICERS[number]
        one = LinkDirection(rate * 1e3, delay, queue_packets=1)
        return one, one
    if number in _GATHERED:
        packets, mbit = _GATHERED[number]
        return LinkDirection(12e3, 10), LinkDirection(mbit * 1e3, 10, kind="bursts", burst_packets=packets)
    return LinkDirection(12e3, 30, queue_bytes=_SHALLOW[number]), LinkDirection(12e3, 30)


def _trace(rest: str) -> tuple[LinkDirection, LinkDirection]:
    parts = TRACE.fullmatch(rest)
    if not parts:
        raise ValueError(rest)
    file, delay, is_drawn = parts["file"], float(parts["delay"] or 0), parts["offset"] == "drawn"
    offset = 0.0 if is_drawn else float(parts["offset"] or 0)
    # as Mahimahi's link by itself: a queue without end
    down = LinkDirection(delay_ms=delay, kind="trace", trace=f"{file}.down", offset_s=offset, offset_drawn=is_drawn)
    return down, replace(down, trace=f"{file}.up")


def _emulated(rest: str) -> tuple[LinkDirection, LinkDirection]:
    rate, delay, loss, queue, *kinds = rest.split("/")
    if len(kinds) > 1 or not int(queue) > 0 or not float(rate) > 0:
        raise ValueError(rest)
    back = LinkDirection(float(rate) * 1e3, float(delay), kind=kinds[0] if kinds else "constant")
    if back.kind not in ("constant", "poisson"):
        raise ValueError(rest)
    return replace(back, loss=round(float(loss) / 100, 9), queue_packets=int(queue)), back


def _link(rest: str) -> tuple[LinkDirection, LinkDirection]:
    mbit, rtt, part = map(float, rest.split("/"))
    if not (mbit > 0 and rtt > 0 and part > 0):
        raise ValueError(rest)
    room = max(LEAST_SHALLOW_BYTES, round(mbit * 1e6 / 8 * rtt / 1e3 * part))
    return LinkDirection(mbit * 1e3, rtt / 2, queue_bytes=room), LinkDirection(delay_ms=rtt / 2)


def _policer(rest: str) -> tuple[LinkDirection, LinkDirection]:
    mbit, rtt, bucket = rest.split("/")
    down = LinkDirection(float(mbit) * 1e3, float(rtt) / 2, kind="policer", bucket_bytes=int(bucket))
    return down, LinkDirection(delay_ms=float(rtt) / 2)


def _up(found: Condition, value: str) -> Condition:
    mbit = float(value)
    if not mbit > 0:
        raise ValueError(value)
    return replace(found, up=replace(found.up, rate_kbit=mbit * 1e3, queue_bytes=queue_bytes(mbit, found.rtt_ms)))


def _down(**how: Callable[[str], object]) -> Callable[[Condition, str], Condition]:
    """Return an option that sets one field of what goes down."""
    ((field, read),) = how.items()
    return lambda found, value: replace(found, down=replace(found.down, **{field: read(value)}))  # type: ignore[arg-type]


def _whole(**how: Callable[[str], object]) -> Callable[[Condition, str], Condition]:
    """Return an option that sets one field of the condition."""
    ((field, read),) = how.items()
    return lambda found, value: replace(found, **{field: read(value)})  # type: ignore[arg-type]


def _fraction(value: str) -> float:
    return round(float(value) / 100, 9)


def _switch(value: str) -> bool:
    if value not in ("0", "1"):
        raise ValueError(value)
    return value == "1"


OPTIONS: Mapping[str, Callable[[Condition, str], Condition]] = {
    "loss": _down(loss=_fraction),
    "runs": _down(loss_run=float),
    "outage": _down(loss_run_ms=float),
    "aqm": _down(aqm=str),
    "acks": lambda found, value: replace(found, up=replace(found.up, slot_ms=float(value))),
    "up": _up,
    "neighbours": _whole(neighbours=int),
    "window": _whole(window_bytes=int),
    "spread": _whole(spread=_fraction),
    "weight": _whole(weight=float),
    "think": _whole(think_ms=float),
    "resumed": _whole(resumed=_switch),
    "warm": _whole(warm_s=float),
}
FAMILIES: Mapping[str, Callable[[str], tuple[LinkDirection, LinkDirection]]] = {
    "hotcloud": _hotcloud,
    "access": _access,
    "pantheon": _pantheon,
    "trace": _trace,
    "emulated": _emulated,
    "link": _link,
    "policer": _policer,
}
USES = {
    "hotcloud": "hotcloud:MBIT/RTT_MS/LOSS_PERCENT, as in hotcloud:1/150/2.5",
    "access": f"access:NAME or access:NAME/DIVISOR, NAME one of {', '.join(ACCESS)}",
    "pantheon": "pantheon:NUMBER, 1 to 18",
    "trace": "trace:FILE@SECONDS+DELAY_MS, where FILE.down and FILE.up are; SECONDS may be: drawn",
    "link": "link:MBIT/RTT_MS/BUFFER, BUFFER in bandwidth-delay products, as in link:20/60/0.25",
    "policer": "policer:MBIT/RTT_MS/BUCKET_BYTES, as in policer:5/50/16000",
    "emulated": "emulated:MBIT/DELAY_MS/LOSS_PERCENT/QUEUE_PACKETS, and /poisson where packets leave by chance",
}
