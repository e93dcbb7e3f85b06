# SPDX-License-Identifier: MIT
"""Load balancing: whether one server answers at an address, or unlike ones take turns.

Question   Do all connections to an address meet the same configuration?
Method     Compare all connections of a target, whatever their purpose: SYN-ACK, certificate, ALPN,
           SETTINGS, Server field, initial window. Servers behind a balancer are chosen anew for each connection, and so
           are anycast sites where routes are shared by flow.
Stop when  `CONNECTIONS_B` connections show the window, and as many the SETTINGS where there are any; or when two
           connections showed the difference. `lacking` names the readings that are missing until then.
Reads as   "mixed" if a fact has two values; "one" if none has, and enough connections show so. Three counts must be
           enough: connections that show the window, that show the SETTINGS (if any do), that show the fact seen most.
           Details: `differs` names the facts, `connections` is the least of the three counts, `places` are the names
           that networks give to the places that answered.
Fails as   unclear:few-connections (too few, or some of them hint at another window, or none shows a whole window);
           nothing at all below three connections.
Differs    from comparing numbers: windows differ only if neither one number of segments nor one of bytes explains all
           readings, and bounds count as bounds; timers, which loss lengthens, are not compared. A Server field is
           compared among answers of one status: a redirect is often made by another program.
Source     RFC 7094 (anycast), RFC 2992 (flows hashed over equal paths), RFC 6928, RFC 3390 (windows by formula).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from configtron.fingerprint.verdict import AGREE_B, as_number, by_knob, count_grade, number, over
from configtron.fingerprint.window_proofs import SUPPORTS
from configtron.model.nouns import Observation, Value

KNOBS = ("load_balancing",)
# Two servers of which one has 60 % of the connections hide from eight of them with chance 0.6 ** 8 + 0.4 ** 8 = 1.7 %,
# from twelve with 0.2 %. Fewer than three give no answer.
CONNECTIONS_LEAST, CONNECTIONS_B, CONNECTIONS_A = 3, 8, 12
# Segments by which a proven window may still be wrong. Loss does not change one: fresh data follows the flight's last
# byte (`window_proofs.py`). But where segments are small, tcp_tso_should_defer() holds back the tail
# (net/ipv4/tcp_output.c). Runs of one segment size that show two windows twice each exclude that (`_split_windows`).
AMISS = 1
# A flight in segments smaller than this is many packets: loss both ways can make a low window look proven, so such a
# window counts once it was seen twice. The segments that paths set, and 536 bytes less timestamps, are larger.
SMALL_MSS = 512
SETTINGS, WINDOW, ANYTHING = "settings", "window", "anything"
# The name that `fingerprint/window_proofs.py` gives a bound that came after a timer.
AFTER_TIMER = "after-timer"


@dataclass(frozen=True, slots=True)
class ServerFact:
    """A reading of a connection that loss cannot change: a knob's value, or one of its details.

    `within` are details that must be the same for two readings to be compared.
    """

    name: str
    knob: str
    detail: str = ""
    within: tuple[str, ...] = ()


FACTS = (
    ServerFact("signature", "signature"),
    # set by the route alone, whatever we offer (net/ipv4/route.c, ipv4_default_advmss())
    ServerFact("mss", "rwin", "server_mss"),
    ServerFact("mss", "rwin_ts", "server_mss"),
    ServerFact("window", "rwin", within=("server_mss",)),
    ServerFact("window with timestamps", "rwin_ts", within=("server_mss",)),
    ServerFact("alpn", "http_version"),
    ServerFact("tls", "http_version", "tls"),
    ServerFact("tls", "tls_versions", within=("most",)),
    ServerFact("certificate", "http_version", "certificate"),
    ServerFact("certificate", "http_tls", "certificate"),
    ServerFact(SETTINGS, "h2_settings"),
    ServerFact("window update", "h2_window_update"),
    ServerFact("server", "http_clear", "server", ("status",)),
    ServerFact("server", "http_tls", "server", ("status",)),
    ServerFact("server", "h2_settings", "server", ("status",)),
)
# Readings of a response's head, which may name the place that answered.
HEADED = tuple(fact.knob for fact in FACTS if fact.detail == "server")
# Each is compared with itself: the ports of an address may have servers of their own.
WINDOWS = ("icw", "icw_tls")

# (fact, details that its readings must share) -> value -> the trials that showed it.
Faces = dict[tuple[str, ...], dict[Value, list[Observation]]]


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return one verdict on all trials of a target; None if they show nothing."""
    faces = _group_by_fact(trials) | {(knob,): values for knob, values in _windows(trials).items()}
    unlike = {key: values for key, values in faces.items() if len(values) > 1}
    seen = [sum(map(len, values.values())) for values in faces.values()]
    # Most servers of a capture have fewer connections than could show anything.
    if not unlike and max(sum(len(trials.get(knob, ())) for knob in WINDOWS), *seen, 0) < CONNECTIONS_LEAST:
        return None
    counts = _counts(trials, faces)
    shown = min(filter(None, counts.values()), default=0)
    if not unlike and counts[ANYTHING] < CONNECTIONS_LEAST:
        return None
    details: dict[str, Value] = {"connections": shown}
    if places := {str(t.detail("place")) for knob in HEADED for t in trials.get(knob, ()) if t.detail("place")}:
        details["places"] = tuple(sorted(places))
    if unlike:
        names = {key[0] for key in unlike}
        details["differs"] = tuple(sorted(names))
        # Each reading of the rarer value is one witness. A further fact is one more only if another connection shows
        # it: one SYN-ACK of another server differs in its options, its window and its MSS at once.
        witnesses = max(sorted(map(len, values.values()))[-AGREE_B] for values in unlike.values())
        further = min(len(names), len(_find_odd(unlike)))
        readings = [t for values in unlike.values() for several in values.values() for t in several]
        grade = count_grade(max(witnesses, further))
        return over("load_balancing", readings, "mixed", grade, "", "connections show unlike servers", details=details)
    if shown < CONNECTIONS_B or counts[WINDOW] < _needed(trials):
        return over("load_balancing", (), None, "N", reason="unclear:few-connections", details=details)
    grade = "A" if shown >= CONNECTIONS_A else "B"
    return over("load_balancing", (), "one", grade, "", "all connections show the same", details=details)


def _find_odd(unlike: Faces) -> set[str]:
    """Return the connections (trace ids) that show another value of some fact than most do; of two values as frequent,
    the later one's."""
    usual = (max(values.values(), key=len) for values in unlike.values())
    return {
        trial.trace_id
        for values, most in zip(unlike.values(), usual, strict=True)
        for several in values.values()
        if several is not most
        for trial in several
    }


def lacking(trials: Iterable[Observation]) -> tuple[str, ...]:
    """Return knobs whose further readings could show one server or two, the most conclusive first; () once settled."""
    known = by_knob(trials)
    verdict = across(known)
    if verdict is None or verdict.grade in ("A", "B"):
        return ()
    if verdict.value is not None:
        return tuple(sorted({trial.knob for trial in verdict.trials}))
    counts = _counts(known, _group_by_fact(known))
    # the knob whose runs show the window most often
    best = max(WINDOWS, key=lambda knob: _count_shown(known.get(knob, ())) / max(len(known.get(knob, ())), 1))
    short = {best: (counts[WINDOW], _needed(known)), "h2_settings": (counts[SETTINGS], CONNECTIONS_B)}
    return tuple(knob for knob, (shown, least) in short.items() if 0 < shown < least)


def hints(trials: Iterable[Observation]) -> bool:
    """Return whether a reading hints at unlike servers without proof: a single witness, or a low bound."""
    known = by_knob(trials)
    verdict = across(known)
    return verdict is not None and (verdict.grade == "C" or (verdict.value is None and _needed(known) > CONNECTIONS_B))


def _needed(trials: Mapping[str, Sequence[Observation]]) -> int:
    """Return how many connections must agree on the window: more where a run suggests another."""
    return CONNECTIONS_A if _suggests_another(trials) else CONNECTIONS_B


def _counts(trials: Mapping[str, Sequence[Observation]], faces: Faces) -> dict[str, int]:
    """Return how many connections would have shown another server: in its window, in its SETTINGS, in anything."""
    windows = sum(_count_shown(trials.get(knob, ())) for knob in WINDOWS)
    every = [sum(map(len, values.values())) for values in faces.values()]
    every += [sum(t.value is not None for t in trials.get(knob, ())) for knob in WINDOWS]
    return {
        WINDOW: windows,
        SETTINGS: sum(map(len, faces.get((SETTINGS,), {}).values())),
        ANYTHING: max(windows, *every, 0),
    }


def _count_shown(trials: Sequence[Observation]) -> int:
    """Return how many runs show the window: they prove it, or show with less than a proof what others prove.

    Every server sends one segment, so a bound of one shows nothing.
    """
    exact = {number(t) for t in trials if t.grade == "C"} - {1.0}
    return sum(t.grade == "C" or (t.detail("proof") in SUPPORTS and number(t) in exact) for t in trials)


def _group_by_fact(trials: Mapping[str, Sequence[Observation]]) -> Faces:
    faces: Faces = {}
    for fact in (fact for fact in FACTS if fact.knob in trials):
        last = None
        for trial in trials[fact.knob]:
            # Readings of a capture are often one object (`ConnectionReports.without_frames`).
            if trial is not last:
                last, alike = trial, list[Observation]()
                value = trial.detail(fact.detail) if fact.detail else trial.detail("effective", trial.value)
                if trial.value is not None and value is not None:
                    among = (fact.knob, *(str(trial.detail(name)) for name in fact.within)) if fact.within else ()
                    alike = faces.setdefault((fact.name, *among), {}).setdefault(value, [])
            alike.append(trial)
    return faces


def _windows(trials: Mapping[str, Sequence[Observation]]) -> dict[str, dict[Value, list[Observation]]]:
    """Return the high and low windows of each knob, if no one server can have shown them all; else nothing.

    A low one counts only if it is exact and, in small segments, seen twice: a bound may be low for any reason.
    """
    exact = [t for knob in WINDOWS for t in trials.get(knob, ()) if t.grade == "C"]
    if not exact:
        return {}
    small = Counter(number(t) for t in exact if _is_small(t))
    return {
        knob: _split_windows(
            [t for t in trials.get(knob, ()) if t.grade == "C" and (not _is_small(t) or small[number(t)] >= AGREE_B)],
            [t for t in trials.get(knob, ()) if t.value is not None],
        )
        for knob in WINDOWS
    }


def _is_small(trial: Observation) -> bool:
    return as_number(trial.detail("mss")) < SMALL_MSS


def _split_windows(exact: Sequence[Observation], valued: Sequence[Observation]) -> dict[Value, list[Observation]]:
    """Return the high and low windows of one knob; {} if one server explains them."""
    if not exact:
        return {}
    amiss = 0 if _repeats_two_windows(exact) else AMISS
    if _fits_segments(exact, valued, amiss) or _fits_bytes(exact, valued, amiss):
        return {}
    top = max(map(number, valued))
    high = [t for t in valued if number(t) >= top - amiss]
    low = [t for t in exact if number(t) < top - amiss]
    return {"high": high, "low": low}


def _repeats_two_windows(exact: Sequence[Observation]) -> bool:
    """Return whether runs of one segment size, not a small one, prove two windows twice each, thus by no accident."""
    counts = Counter((as_number(t.detail("mss")), number(t)) for t in exact if not _is_small(t))
    twice = Counter(mss for (mss, _), times in counts.items() if times >= AGREE_B)
    return any(values > 1 for values in twice.values())


def _suggests_another(trials: Mapping[str, Sequence[Observation]]) -> bool:
    """Return whether a run suggests a lower window and proves none: the server repeated itself, then went on."""
    for knob in WINDOWS:
        valued = [t for t in trials.get(knob, ()) if t.value is not None]
        top = max(map(number, valued), default=0.0)
        low = (t for t in valued if number(t) < top - AMISS)
        if any(t.grade == "C" or t.detail("proof") == AFTER_TIMER for t in low):
            return True
    return False


def _fits_segments(exact: Sequence[Observation], valued: Sequence[Observation], amiss: int) -> bool:
    """Return whether one number of segments explains all readings."""
    return min(map(number, exact)) >= max(map(number, valued)) - amiss


def _fits_bytes(exact: Sequence[Observation], valued: Sequence[Observation], amiss: int) -> bool:
    """Return whether one number of bytes, in segments of each run's size, explains all readings.

    Servers round it up or down, but always alike: the reading is less than a segment away.
    """
    sizes = {as_number(t.detail("mss")) for t in exact}
    groups = [[t for t in valued if as_number(t.detail("mss")) == size] for size in sizes]
    if not all(_fits_segments([t for t in exact if t in alike], alike, amiss) for alike in groups):
        return False
    least = max(as_number(t.detail("bytes")) - as_number(t.detail("mss")) for t in valued)
    return least < min(as_number(t.detail("bytes")) + as_number(t.detail("mss")) for t in exact)
