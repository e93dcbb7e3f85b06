"""Who answered: one server, or unlike ones taking turns at one address.

Question   Do all connections to an address meet the same configuration?
Method     Compare what each connection of a target shows, whatever it was made for: SYN-ACK, certificate, ALPN,
           SETTINGS, Server field, initial window. Servers behind a balancer are chosen anew for each connection, and so
           are anycast sites where routes are shared by flow.
Stop when  the plan is through; one connection more never takes a difference back.
Reads as   "mixed" if a fact has two values; "one" if none has, and enough connections show it: of windows, of SETTINGS
           and of whatever was seen most. Details: `differs` names the facts, `connections` is the least of those
           counts, `places` are the networks' own names of where it was answered.
Fails as   unclear:few-connections (or some of them hint at another window); nothing at all below three connections.
Differs    from comparing numbers: a lost packet shortens a flight, so windows differ only beyond what loss does, and
           only if no formula of the segment size fits them all; timers, which loss lengthens, are not compared. A
           Server field is compared among answers of one status: a redirect is often made by another program.
Source     RFC 7094 (anycast), RFC 2992 (flows hashed over equal paths), RFC 6928, RFC 3390 (windows by formula).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from configtron.fingerprint.verdict import AGREE_B, count_grade, number, over
from configtron.nouns import Observation, Value

KNOBS = ("load_balancing",)
# Two servers that take turns evenly hide from so many connections with chance 2 ** (1 - n): 3 % and 1 % of them.
# From fewer than three nobody would expect an answer.
CONNECTIONS_LEAST, CONNECTIONS_B, CONNECTIONS_A = 3, 6, 8
# A flight whose last three segments were lost by chance is rarer than one in 8000 at 5 % loss; the same margin covers
# the two that a server may hold back (tcp_tso_should_defer() in net/ipv4/tcp_output.c).
LOST_MOST = 2
SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of what a connection shows that loss cannot change: a knob's value, or one of its details.

    `within` are details that must be the same for two readings to be compared.
    """

    name: str
    knob: str
    detail: str = ""
    within: tuple[str, ...] = ()


FACTS = (
    Fact("signature", "signature"),
    Fact("window", "rwin", within=("server_mss",)),
    Fact("window with timestamps", "rwin_ts", within=("server_mss",)),
    Fact("alpn", "http_version"),
    Fact("tls", "http_version", "tls"),
    Fact("tls", "tls_versions", within=("most",)),
    Fact("certificate", "http_version", "certificate"),
    Fact("certificate", "http_tls", "certificate"),
    Fact(SETTINGS, "h2_settings"),
    Fact("window update", "h2_window_update"),
    Fact("server", "http_clear", "server", ("status",)),
    Fact("server", "http_tls", "server", ("status",)),
    Fact("server", "h2_settings", "server", ("status",)),
)
ICW = "icw"
# How `fingerprint/window.py` calls that bound.
AFTER_TIMER = "after-timer"

# (fact, what its readings must share) -> value -> the trials that showed it.
Faces = dict[tuple[str, ...], dict[Value, list[Observation]]]


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """One verdict on all trials of a target; None if they show nothing."""
    faces = _faces(trials)
    windows = _windows(trials.get(ICW, ()))
    mixed = [values for values in (*faces.values(), windows) if len(values) > 1]
    shown = _shown(trials, faces)
    if not mixed and shown < CONNECTIONS_LEAST:
        return None
    details: dict[str, Value] = {"connections": shown}
    if places := {str(t.detail("place")) for several in trials.values() for t in several if t.detail("place")}:
        details["places"] = tuple(sorted(places))
    if not mixed and (shown < CONNECTIONS_B or _doubtful(trials.get(ICW, ()))):
        return over("load_balancing", (), None, "N", reason="unclear:few-connections", details=details)
    if not mixed:
        grade = "A" if shown >= CONNECTIONS_A else "B"
        return over("load_balancing", (), "one", grade, "", "all connections show the same", details=details)
    names = {key[0] for key, values in faces.items() if len(values) > 1} | ({ICW} if windows else set())
    details["differs"] = tuple(sorted(names))
    # Each reading of the rarer kind is one witness, and so is each further fact.
    witnesses = max(sorted(map(len, values.values()))[-AGREE_B] for values in mixed)
    readings = [t for values in mixed for several in values.values() for t in several]
    grade = count_grade(max(witnesses, len(names)))
    return over("load_balancing", readings, "mixed", grade, "", "connections show unlike servers", details=details)


def _shown(trials: Mapping[str, Sequence[Observation]], faces: Faces) -> int:
    """How many connections would have shown another server: in its window, in its SETTINGS, in anything."""
    told = [t for t in trials.get(ICW, ()) if t.value is not None]
    top = max(map(number, told), default=0.0)
    counts = [sum(t.grade == "C" or number(t) >= top - LOST_MOST for t in told)]
    counts.append(sum(map(len, faces.get((SETTINGS,), {}).values())))
    counts.append(max(counts[0], *(sum(map(len, values.values())) for values in faces.values()), 0))
    return min(filter(None, counts), default=0)


def _faces(trials: Mapping[str, Sequence[Observation]]) -> Faces:
    faces: Faces = {}
    for fact in FACTS:
        for trial in trials.get(fact.knob, ()):
            value = trial.detail(fact.detail) if fact.detail else trial.detail("effective", trial.value)
            if trial.value is None or value is None:
                continue
            key = (fact.name, *((fact.knob,) if fact.within else ()), *(str(trial.detail(d)) for d in fact.within))
            faces.setdefault(key, {}).setdefault(value, []).append(trial)
    return faces


def _windows(trials: Sequence[Observation]) -> dict[Value, list[Observation]]:
    """Windows by being high or low, if no one server can have shown them all; else nothing.

    A low one counts only if it is exact: a bound may be low for any reason.
    """
    exact = [t for t in trials if t.grade == "C"]
    told = [t for t in trials if t.value is not None]
    if not exact or _by_segments(exact, told) or _by_bytes(exact, told):
        return {}
    top = max(map(number, told))
    high = [t for t in told if number(t) >= top - LOST_MOST]
    return {"high": high, "low": [t for t in exact if number(t) < top - LOST_MOST]}


def _doubtful(trials: Sequence[Observation]) -> bool:
    """Whether some run looks like a lower window, and does not prove it: the server repeated itself, then went on."""
    top = max((number(t) for t in trials if t.value is not None), default=0.0)
    bounds = (t for t in trials if t.grade == "L" and t.detail("proof") == AFTER_TIMER)
    return any(number(t) < top - LOST_MOST for t in bounds)


def _by_segments(exact: Sequence[Observation], told: Sequence[Observation]) -> bool:
    """Whether one number of segments, some of them lost, explains all readings."""
    return min(map(number, exact)) >= max(map(number, told)) - LOST_MOST


def _by_bytes(exact: Sequence[Observation], told: Sequence[Observation]) -> bool:
    """Whether one number of bytes, in segments of each run's size, explains all readings."""
    least = max(_detail(t, "bytes") - _detail(t, "mss") for t in told)
    return least <= min(_detail(t, "bytes") + LOST_MOST * _detail(t, "mss") for t in exact)


def _detail(trial: Observation, name: str) -> float:
    value = trial.detail(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
