"""Who answered: one server, or unlike ones taking turns at one address.

Question   Do all connections to an address meet the same configuration?
Method     Compare what each connection of a target shows, whatever it was made for: SYN-ACK, certificate, ALPN,
           SETTINGS, Server field, initial window. Servers behind a balancer are chosen anew for each connection, and so
           are anycast sites where routes are shared by flow.
Stop when  the plan is through; one connection more never takes a difference back.
Reads as   "mixed" if a fact has two values; "one" if at least three connections show some fact and none has two.
           Details: `differs` names the facts, `connections` counts those that show the commonest fact, `places` are the
           networks' own names of where it was answered.
Fails as   nothing at all below three connections.
Differs    from comparing numbers: a lost packet shortens a flight, so windows differ only beyond what loss does, and
           only if no formula of the segment size fits them all; timers, which loss lengthens, are not compared. A
           Server field is compared among answers of one status: a redirect is often made by another program.
Source     RFC 7094 (anycast), RFC 2992 (flows hashed over equal paths), RFC 6928, RFC 3390 (windows by formula).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from configtron.fingerprint.verdict import AGREE_B, count_grade, number, over
from configtron.nouns import Observation, Value

KNOBS = ("load_balancing",)
# Two servers that take turns evenly hide from n connections with chance 2 ** (1 - n): 25 %, 3 % and 1 % of them.
CONNECTIONS_C, CONNECTIONS_B, CONNECTIONS_A = 3, 6, 8
# A flight of which more than so many last segments were lost by chance is rarer than one in 100 000 at 5 % loss; the
# same margin covers segments that a server held back.
LOST_MOST = 3
# A window read once otherwise among so many readings is rather a connection that went badly (a repeated handshake, a
# pause) than a second server: taking turns evenly, that one would show itself only once with chance 2 %.
READINGS_MANY = 10


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
    Fact("scale", "wscale"),
    Fact("alpn", "http_version"),
    Fact("tls", "http_version", "tls"),
    Fact("tls", "tls_versions", within=("most",)),
    Fact("certificate", "http_version", "certificate"),
    Fact("certificate", "http_tls", "certificate"),
    Fact("settings", "h2_settings"),
    Fact("window update", "h2_window_update"),
    Fact("server", "http_clear", "server", ("status",)),
    Fact("server", "http_tls", "server", ("status",)),
    Fact("server", "h2_settings", "server", ("status",)),
)
ICW = "icw"

# (fact, what its readings must share) -> value -> the trials that showed it.
Faces = dict[tuple[str, ...], dict[Value, list[Observation]]]


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """One verdict on all trials of a target; None if they are too few to tell."""
    faces = _faces(trials)
    windows = _windows(trials)
    mixed = [values for values in faces.values() if len(values) > 1]
    if windows:
        mixed.append(windows)
    shown = max((sum(map(len, values.values())) for values in faces.values()), default=0)
    shown = max(shown, sum(t.grade == "C" for t in trials.get(ICW, ())))
    if not mixed and shown < CONNECTIONS_C:
        return None
    details: dict[str, Value] = {"connections": shown}
    if places := {str(t.detail("place")) for t in _all(trials) if t.detail("place")}:
        details["places"] = tuple(sorted(places))
    if not mixed:
        grade = "A" if shown >= CONNECTIONS_A else "B" if shown >= CONNECTIONS_B else "C"
        return over("load_balancing", (), "one", grade, "", "all connections show the same", details=details)
    names = {key[0] for key, values in faces.items() if len(values) > 1} | ({ICW} if windows else set())
    details["differs"] = tuple(sorted(names))
    # Each reading of the rarer kind is one witness, and so is each further fact.
    witnesses = max(sorted(map(len, values.values()))[-AGREE_B] for values in mixed)
    readings = [t for values in mixed for several in values.values() for t in several]
    grade = count_grade(max(witnesses, len(names)))
    return over("load_balancing", readings, "mixed", grade, "", "connections show unlike servers", details=details)


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


def _windows(trials: Mapping[str, Sequence[Observation]]) -> dict[Value, list[Observation]]:
    """Initial windows by value, if no one server can have shown them all; else nothing."""
    exact = [t for t in trials.get(ICW, ()) if t.grade == "C"]
    bounds = [t for t in trials.get(ICW, ()) if t.grade == "L"]
    if not exact or _by_segments(exact, bounds) or _by_bytes(exact, bounds):
        return {}
    found: dict[Value, list[Observation]] = {}
    top = max(number(t) for t in (*exact, *bounds))
    for trial in (*exact, *bounds):
        near = number(trial) >= top - LOST_MOST
        if trial.grade == "C" or near:
            found.setdefault("high" if near else "low", []).append(trial)
    alone = min(map(len, found.values())) < AGREE_B
    return {} if alone and sum(map(len, found.values())) >= READINGS_MANY else found


def _by_segments(exact: Sequence[Observation], bounds: Sequence[Observation]) -> bool:
    """Whether one number of segments, some of them lost, explains all readings."""
    return min(map(number, exact)) >= max(map(number, (*exact, *bounds))) - LOST_MOST


def _by_bytes(exact: Sequence[Observation], bounds: Sequence[Observation]) -> bool:
    """Whether one number of bytes, in segments of each run's size, explains all readings."""
    least = max(_detail(t, "bytes") - _detail(t, "mss") for t in (*exact, *bounds))
    return least <= min(_detail(t, "bytes") + LOST_MOST * _detail(t, "mss") for t in exact)


def _detail(trial: Observation, name: str) -> float:
    value = trial.detail(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _all(trials: Mapping[str, Sequence[Observation]]) -> Iterator[Observation]:
    for several in trials.values():
        yield from several
