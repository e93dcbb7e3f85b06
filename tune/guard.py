# SPDX-License-Identifier: MIT
"""The guard: refuse wanted rules that are harmful or out of bounds.

Question   Which rules harm this host, its operator's plans, or other people's traffic?
Method     Four checks of the target rules, before the first write; the guard reports all refusals at once.

           reach     the driver reaches the knob, and the value lies in the driver's range
           bounds    the operator's own range per knob (`--bound initcwnd=1..30`)
           size      at most so many prefixes
           fairness  the table below: profiles that take other people's cubic flows their share; a measured loss of
                     neighbours alone decides, where there is one

           What a learner chooses is checked besides: no window outside `LEARNED_WINDOWS`, with the exceptions
           of `unasked`.

Stop when  All refusals are known.
Reads as   One line a refusal; without a line the rules pass.
Fails as   A knob without a row below counts as fair.
Differs    from a check of single values: the guard judges a whole profile (a large window with pacing is no burst, but
           the same window without pacing is).
Source     named in each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from configtron.model.choices import MAX_PREFIXES
from configtron.model.congestion import FAIR
from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach, Rules
from configtron.model.tuning_json import value_text

# Congestion controls that share a queue with cubic as cubic does with itself, or yield to it.
FAIR_CONTROLS = FAIR
# Segments in one burst, without an ACK: RFC 6928 tried 10; Table 1 of the paper ends at 30.
MOST_WINDOW = 30
# The same, spread over a round trip: Rüth and Hohlfeld (arXiv 1902.08937) found CDNs that send up to 100.
MOST_PACED_WINDOW = 100
# Segments of a saved window, half of which a connection sends in the round trip of its jump (RFC 9959): five doublings
# of the default window of 10. A larger jump saves no more round trips than a path of 100 Mbit/s and 40 ms has use for.
MOST_SAVED_WINDOW = 640
# Segments of such a connection's initial window: RFC 6928's.
MOST_INITIAL_OF_RESUMED = 10
# Segments of a first round trip, paced or not, that a learner may try of its own accord: 100 is for a person who knows
# the path, and a learner tries it on every path. Table 1 of the paper ends at 30; 32 are 46 kB.
MOST_LEARNED_WINDOW = 32
# The kernel's own (TCP_INIT_CWND, RFC 6928): a smaller one costs each client round trips while it is tried.
# Of a clamp too, which bounds the first window. Default's first receive window is 64 KiB: 45 segments of 1460 bytes.
LEARNED_WINDOWS = {"initcwnd": (10, MOST_LEARNED_WINDOW), "cwnd_clamp": (10, 2**31 - 1), "initrwnd": (45, 2**31 - 1)}
# s; RFC 6298 section 2.4 asks for 1, Linux takes 0.2. A timer below the delayed ACK of 40 ms repeats segments that were
# not lost, and fills the queue that other flows share.
LEAST_RTO_S = 0.04
# Bytes that neighbours may lose for each byte of a page, where that was measured: a quarter more than the page's own.
MOST_DAMAGE = 1.25


class Unfair(NamedTuple):
    """A rule of fairness: its name, a test whether settings break it, the fault in words, and its source."""

    name: str
    broken: Callable[[Mapping[str, Value]], bool]
    wrong: str
    source: str


def _number(settings: Mapping[str, Value], knob: str, otherwise: float) -> float:
    value = settings.get(knob, otherwise)
    return value if isinstance(value, int | float) else otherwise


def _paced(settings: Mapping[str, Value]) -> bool:
    return settings.get("pacing") == "fq" or "max_pacing_rate" in settings


UNFAIR: tuple[Unfair, ...] = (
    Unfair(
        "bbr",
        lambda settings: settings.get("tcp_congestion_control") in ("bbr", "bbr1"),
        "bbr (version 1) takes a fixed share from any number of cubic flows where the buffer is shallow",
        "Hock et al., ICNP 2017; Ware et al., IMC 2019",
    ),
    Unfair(
        "control",
        lambda settings: settings.get("tcp_congestion_control", "cubic") not in (*FAIR_CONTROLS, "bbr", "bbr1"),
        "not known to share a queue with cubic (dctcp: not outside a data centre)",
        "RFC 5033; RFC 8257 section 5",
    ),
    Unfair(
        "window",
        lambda settings: not _paced(settings) and _number(settings, "initcwnd", 0) > MOST_WINDOW,
        f"more than {MOST_WINDOW} segments in one burst overflow other people's queues; pace it (pacing=fq)",
        "RFC 6928 section 5; Table 1",
    ),
    Unfair(
        "paced-window",
        lambda settings: _paced(settings) and _number(settings, "initcwnd", 0) > MOST_PACED_WINDOW,
        f"more than {MOST_PACED_WINDOW} segments in the first round trip, more than any server was seen to send",
        "Rüth and Hohlfeld, arXiv 1902.08937",
    ),
    Unfair(
        "resumed-window",
        lambda settings: _number(settings, "resume_cwnd", 0) > MOST_SAVED_WINDOW,
        f"a saved window of more than {MOST_SAVED_WINDOW} segments lets a connection jump past what five round trips of"
        " slow start reach",
        "RFC 9959 section 3; RFC 6928",
    ),
    Unfair(
        "resumed-burst",
        lambda settings: "resume_cwnd" in settings and _number(settings, "initcwnd", 0) > MOST_INITIAL_OF_RESUMED,
        f"a connection that resumes begins with at most {MOST_INITIAL_OF_RESUMED} segments, by which it learns whether"
        " the path is the saved one",
        "RFC 9959 section 3 (reconnaissance); RFC 6928",
    ),
    Unfair(
        "rto",
        lambda settings: any(
            _number(settings, knob, 1.0) < LEAST_RTO_S for knob in ("min_rto", "data_rto", "synack_rto")
        ),
        f"a timeout under {LEAST_RTO_S} s repeats what only a delayed ACK kept",
        "RFC 6298 section 2; RFC 8961",
    ),
)


class Bound(NamedTuple):
    """The operator's own range of a knob: least and most, or the values that may be."""

    least: float | None = None
    most: float | None = None
    values: tuple[str, ...] = ()

    def holds(self, value: Value) -> bool:
        """Return whether a value lies within."""
        if self.values:
            return value_text(value) in self.values
        if isinstance(value, str | bool | tuple):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def text(self) -> str:
        """As it is typed."""
        return "|".join(self.values) if self.values else _range(self.least, self.most)


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's limits.

    allow_unfair   the operator answers for fairness
    damage         of profiles: bytes that neighbours lose for each byte of a page, as measured where they are used
    """

    bounds: Mapping[str, Bound] = field(default_factory=dict)
    max_prefixes: int = MAX_PREFIXES
    allow_unfair: bool = False
    damage: Mapping[str, float] = field(default_factory=dict)


class DriverReach(NamedTuple):
    """A driver's name, the knobs that it sets here, and why it cannot set others, or a whole profile."""

    driver: str
    settable: Mapping[str, Reach]
    unreachable: Mapping[str, str]
    unfit: Callable[[Profile], str] | None = None


def refusals(rules: Rules, limits: Limits, reach: DriverReach) -> Iterator[str]:
    """Yield the reasons against the rules, one line each."""
    if len(rules.prefixes) > limits.max_prefixes:
        yield f"{len(rules.prefixes)} prefixes are more than --max-prefixes {limits.max_prefixes}"
    for _, profile in sorted(rules.profiles.items()):
        yield from why_not(profile, limits, reach)


def why_not(
    profile: Profile, limits: Limits, reach: DriverReach | None = None, *, learned: bool = False
) -> Iterator[str]:
    """Yield why a profile may not be used, one line each; nothing if it may.

    reach    of the driver that is to put it in force; None: any driver
    learned  a learner chooses it, not a person
    """
    for knob, value in profile.settings:
        wrong, bound = reach and _out_of_reach(knob, value, reach), limits.bounds.get(knob)
        if not wrong and bound is not None and not bound.holds(value):
            wrong = f"is beyond your bound, {bound.text} (--bound)"
        if wrong:
            yield f"profile {profile.name}: {knob}={value_text(value)} {wrong}"
    if reach and reach.unfit and (whole := reach.unfit(profile)):
        yield whole
    if not limits.allow_unfair:
        yield from _unfair(profile, limits)
    if learned and (alone := unasked(profile, limits)):
        yield alone


def unasked(profile: Profile, limits: Limits) -> str:
    """Return why a learner may not choose a profile of its own accord, though a person may set it; "": it may.

    Two kinds of window are exempt: one within the operator's own bound (`--bound initcwnd=1..64`); and a wide one, if
    the operator answers for it (`allow_unfair`) or neighbours were measured to lose little (`Limits.damage`).
    """
    harmless = limits.allow_unfair or limits.damage.get(profile.name, MOST_DAMAGE + 1) <= MOST_DAMAGE
    for knob, (least, most) in LEARNED_WINDOWS.items():
        window, bound = _number(dict(profile.settings), knob, least), limits.bounds.get(knob)
        if not (least <= window <= most or (bound and bound.holds(window)) or (window > most and harmless)):
            return (f"profile {profile.name}: {knob}={window:.0f} is outside what a learner may try unasked,"
                    f" {least}..{most}; --bound {knob}={min(window, least):.0f}..{max(window, most):.0f} if you answer"
                    " for it")  # fmt: skip
    return ""


def check_reach(profile: Profile, reach: DriverReach) -> None:
    """Check that a driver takes every setting of a profile, for a caller who asked no guard. Errors: `BadInput`."""
    for knob, value in profile.settings:
        if wrong := _out_of_reach(knob, value, reach):
            raise BadInput(f"profile {profile.name}: {knob}={value_text(value)} {wrong}")


def _out_of_reach(knob: str, value: Value, reach: DriverReach) -> str:
    beyond, one = f"is out of reach of the driver {reach.driver}", reach.settable.get(knob)
    if one is None:
        why = reach.unreachable.get(knob) or ("" if knob in KNOBS else "no knob is called so")
        return f"{beyond}: {why}" if why else beyond
    if why := one.why_not(value):
        return f"{beyond}: {why}"
    if not one.takes(value):
        return f"{beyond}, which takes {reach_text(one)}"
    is_whole = not isinstance(value, float) or KNOBS[knob].unit == "s" or value == int(value)
    return "" if is_whole else f"{beyond}, which takes whole numbers"


def reach_text(reach: Reach) -> str:
    """Return the values that a driver takes, in few words."""
    if reach.values:
        return ", ".join(map(value_text, reach.values))
    return _range(reach.least, reach.most) if reach.least is not None or reach.most is not None else "any number"


def _range(least: float | None, most: float | None) -> str:
    ends = ("" if end is None else f"{end:.0f}" if end == int(end) else f"{end:g}" for end in (least, most))
    return "..".join(ends)


def _unfair(profile: Profile, limits: Limits) -> Iterator[str]:
    lost, settings = limits.damage.get(profile.name), dict(profile.settings)
    if lost is not None:
        if lost > MOST_DAMAGE:
            why = f"neighbours lose {lost:.2f} bytes for each byte of a page, more than {MOST_DAMAGE:g}"
            yield f"profile {profile.name} is unfair as measured: {why}; --allow-unfair if you answer for it"
        return
    for rule in UNFAIR:
        if rule.broken(settings):
            why = f"{rule.wrong} ({rule.source}); --allow-unfair if you answer for it"
            yield f"profile {profile.name} is unfair to cubic: {why}"


def limits_of(bounds: Iterable[str], allow_unfair: bool, max_prefixes: int = MAX_PREFIXES) -> Limits:
    """Return limits from bounds as they are typed, KNOB=LEAST..MOST or KNOB=VALUE|VALUE. Errors: `BadInput`."""
    return Limits(dict(_bound(text) for text in bounds), max_prefixes, allow_unfair)


def _bound(text: str) -> tuple[str, Bound]:
    knob, equals, span = text.partition("=")
    if not equals or not span:
        raise BadInput(f"--bound {text!r}: write KNOB=LEAST..MOST or KNOB=VALUE|VALUE")
    if knob not in KNOBS:
        raise BadInput(f"--bound {text!r}: no knob is called {knob!r}; `configtron tune doctor` lists them")
    if ".." not in span:
        return knob, Bound(values=tuple(span.split("|")))
    try:
        least, most = (float(end) if end else None for end in span.split(".."))
    except ValueError as error:
        raise BadInput(f"--bound {text!r}: the ends of a range are numbers") from error
    if least is not None and most is not None and not least <= most:
        raise BadInput(f"--bound {text!r}: nothing lies in that range; write KNOB=LEAST..MOST")
    return knob, Bound(least, most)
