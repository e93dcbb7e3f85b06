# SPDX-License-Identifier: MIT
"""Verdicts of several trials: what agreement is worth, that a bound never becomes a value, that no verdict contradicts
every trial; what another trial is worth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint.agreement import agree
from configtron.fingerprint.contradiction import REASON, upheld
from configtron.fingerprint.grades import RULES, GradeRule
from configtron.fingerprint.icw_formula import across
from configtron.fingerprint.merge import merge, merge_all
from configtron.fingerprint.next_trials import TRIALS_MAX, next_trials
from configtron.fingerprint.verdict import PASSING, canonical, over
from configtron.model.nouns import Observation, Value


def trial(
    knob: str, value: Value, grade: str = "C", unit: str = "", trace: str = "x.0", **details: Value
) -> Observation:
    """A reading of the trace na/a.example/`trace`; grade N takes `value` for the reason."""
    given, reason = (None, str(value)) if grade == "N" else (value, None)
    return Observation(knob, given, reason, unit, "", grade, f"na/a.example/{trace}", (), (), canonical(details))


def icw(value: int, grade: str = "C", mss: int = 536, sack: bool = False, proof: str = "before-timer") -> Observation:
    return trial("icw", value, grade, "segments", mss=mss, bytes=value * mss, sack=sack, proof=proof)


def late(value: int, mss: int = 536) -> Observation:
    return icw(value, "L", mss, proof="after-timer")


def failed(*reasons: str) -> list[Observation]:
    return [trial("icw", reason, "N", "segments") for reason in reasons]


def rto(value: float) -> Observation:
    return trial("data_rto", value, unit="s")


NONE, WIDE, SACK = *failed("no-data"), icw(10, mss=1460), icw(10, sack=True)
CAPTURED = replace(icw(12, "L"), method="first flight by time")


@pytest.mark.parametrize(("trials", "text", "grade"), [
    ([icw(10), WIDE, SACK], "10", "A"),
    ([icw(10), icw(10), SACK], "10", "B"),
    ([icw(10), WIDE, icw(10)], "10", "B"),
    ([icw(10), WIDE], "10", "B"),
    ([late(10), late(10, 1460)], ">= 10", "L"),
    # a bound supports what it distinguishes: a pause ends a flight at the same byte, a window after as many segments
    ([late(10, 524), late(10, 1460), SACK], "10", "A"),
    ([late(10), late(10, 1460), SACK], "10", "B"),
    ([late(10), late(10), SACK], "10", "C"),
    ([late(1, 524), late(1, 1460), icw(1, sack=True)], "1", "C"),
    ([icw(10, "L", 1460, proof="short-end"), SACK], "10", "B"),
    ([icw(2, "L", 530, proof="short-end"), icw(2, sack=True)], "2", "C"),
    ([late(9), SACK], "10", "C"),
    ([icw(10), NONE], "10", "C"),
    ([icw(10), icw(9), WIDE], "10", "C"),
    ([icw(4), icw(4), icw(24, sack=True)], "24", "C"),
    ([icw(3), icw(3, sack=True), icw(4, sack=True), icw(4, "L", proof="uneven")], "4", "C"),
    ([icw(1), icw(10)], "10", "C"),
    ([icw(10), icw(10), icw(12, "L", 64)], ">= 12", "L"),
    ([icw(10), icw(7, "L", 1460), SACK], "10", "B"),
    ([icw(7, "L"), icw(9, "L")], ">= 9", "L"),
    ([icw(12, "L", proof="server-paced"), icw(24, "L", proof="no-round-trip")], ">= 12", "L"),
    ([icw(12), icw(12), icw(24, "L", proof="no-round-trip")], "12", "B"),
    ([icw(24, "L", proof="no-round-trip"), NONE], ">= 24", "L"),
    ([icw(12), icw(12), icw(24, "L", proof="synack-repeated")], "12", "B"),
    ([icw(24, "L", proof="synack-repeated"), NONE], ">= 24", "L"),
    # in captures a bound refutes only with a second connection that shows so
    ([icw(10), icw(10), CAPTURED], "10", "C"),
    ([icw(10), icw(10), CAPTURED, CAPTURED], ">= 12", "L"),
    ([NONE, NONE], "- (no-data)", "N"),
    # of several failures the server's own is named
    (failed("no-synack", "no-synack", "refused"), "- (refused)", "N"),
    (failed("no-data", "no-synack", "no-data"), "- (no-data)", "N"),
    (failed("tls:not-tls", "not-h2", "not-h2", "closed"), "- (not-h2)", "N"),
    # of retries the largest count
    ([trial("synack_retries", 4), trial("synack_retries", 5)], "5", "C"),
])  # fmt: skip
def test_what_agreement_is_worth(trials: list[Observation], text: str, grade: str) -> None:
    verdict = merge(trials)
    assert (verdict.text, verdict.grade) == (text, grade)
    assert verdict.trials == tuple(trials)


@pytest.mark.parametrize(("readings", "value", "grade"), [
    ([1.02, 1.0], 1.0, "B"), ([1.02, 1.0, 1.1], 1.0, "A"), ([1.0, 3.0], 1.0, "C"), ([1.0, 3.0, 1.05], 1.0, "B"),
    ([1.0, 3.0, 3.1], 1.0, "C"), ([1.0, 3.0, 1.05, 1.1, 1.02], 1.0, "B"), ([1.0], 1.0, "C"),
])  # fmt: skip
def test_seconds(readings: list[float], value: float, grade: str) -> None:
    """A lost copy lengthens: longer readings are outvoted, shown, and keep A away."""
    verdict = merge([rto(t) for t in readings])
    assert (verdict.value, verdict.grade) == (value, grade)
    assert (verdict.detail("seen") is not None) == (max(readings) > 1.125 or grade == "C")


@given(
    st.floats(0.05, 10), st.lists(st.floats(1.0, 1.12), min_size=2, max_size=4),
    st.lists(st.floats(1.5, 40), max_size=6), st.randoms(use_true_random=False),
)  # fmt: skip
def test_lost_copies_make_no_other_timer(
    true: float, near: list[float], longer: list[float], order: random.Random
) -> None:
    """However many readings were lengthened, a verdict at A or B is one of those that were not."""
    trials = [rto(true * factor) for factor in (*near, *longer)]
    order.shuffle(trials)
    verdict = merge(trials)
    assert verdict.value == true * min(near)
    assert verdict.grade == ("C" if len(longer) >= len(near) else "B" if longer or len(near) < 3 else "A")


def test_what_several_trials_show_together_stands_beside_the_merged() -> None:
    def widest(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
        found = trials.get("icw", ())
        return over("icw_span", found, len({t.value for t in found}), "B") if len(found) > 1 else None

    rules = (*RULES, GradeRule(("icw_span",), agree, "never", across=widest))
    verdicts = merge_all([icw(10), icw(4), rto(1.0)], rules)
    assert [name for name in verdicts if name != "load_balancing"] == ["data_rto", "icw", "icw_span"]
    assert (verdicts["icw_span"].value, verdicts["icw_span"].grade, len(verdicts["icw_span"].trials)) == (2, "B", 2)
    assert verdicts["icw"].detail("seen") == ("10", "4")
    assert "icw_span" not in merge_all([icw(10)], rules)


@pytest.mark.parametrize(("values", "text", "grade"), [
    (["on"], "- (unclear:alone)", "N"), (["on", None], "- (unclear:alone)", "N"),
    (["on", "off"], "- (unclear:alone)", "N"), (["on", "on"], "on", "B"), (["off", "on", "off"], "off", "C"),
    (["off", "off", "off"], "off", "A"),
])  # fmt: skip
def test_one_silence_alone_shows_nothing(values: list[str | None], text: str, grade: str) -> None:
    trials = [trial("slow_start_after_idle", v or "unclear:no-growth", "C" if v else "N") for v in values]
    verdict = merge_all(trials)["slow_start_after_idle"]
    assert (verdict.text, verdict.grade, len(verdict.trials)) == (text, grade, len(values))


@pytest.mark.parametrize(("windows", "rule"), [
    ({64: 10, 536: 10, 1460: 10}, "segments"),
    ({64: 24, 1460: 24}, "segments"),
    ({64: 4, 536: 4, 1460: 3}, "rfc3390"),
    ({536: 10, 1460: 10, 8960: 2}, "rfc6928"),
    ({64: 229, 536: 28, 1460: 10}, "bytes"),
    ({64: 228, 536: 27, 1460: 10}, "bytes"),
    ({64: 2, 536: 10, 1460: 30}, "none"),
])  # fmt: skip
def test_the_formula_of_windows_at_several_sizes_is_named(windows: dict[int, int], rule: str) -> None:
    verdict = across({"icw": [icw(n, mss=mss) for mss, n in windows.items()]})
    assert verdict is not None and verdict.value == rule
    assert verdict.grade == ("A" if len(windows) == 3 else "B")


# Sizes 12 bytes apart, and windows of one segment: a number of bytes explains them as well.
@pytest.mark.parametrize("sizes", [[(10, 536), (10, 536)], [], [(10, 536), (10, 524)], [(1, 536), (1, 1460)]])
def test_what_no_size_distinguishes_asks_for_no_formula(sizes: list[tuple[int, int]]) -> None:
    assert across({"icw": [*(icw(n, mss=mss) for n, mss in sizes), icw(10, "L", 64)]}) is None


SECONDS = ("synack_rto", "data_rto", "min_rto", "delayed_ack")
COUNTS = ("synack_retries", "icw", "icw_tls", "cwnd_at_request", "synack_duplicates")
WORDS = {"synack_backoff": ("linear", "exponential"), "synack_end": ("reset", "silence"), "tfo": ("yes", "no")}
EIGHTH = 1.125
seconds = st.floats(0.01, 10).map(lambda s: round(s, 3))
gaps = st.lists(seconds, min_size=1, max_size=5).map(tuple)
details = st.fixed_dictionaries({
    "gaps": gaps, "arrival": seconds, "rtt": seconds, "trip": seconds, "timer": seconds, "regular": st.booleans(),
    "missed": st.integers(0, 2), "late": st.just(()) | gaps, "overdue": st.tuples(*[st.integers(0, 2)] * 2),
    "duplicates": st.integers(0, 1),
})  # fmt: skip


@st.composite
def trials(draw: st.DrawFn) -> Observation:
    knob, more = draw(st.sampled_from((*SECONDS, *COUNTS, *WORDS))), draw(details)
    if knob in WORDS:
        return trial(knob, draw(st.sampled_from(WORDS[knob])), **more)
    if knob in COUNTS:
        return trial(knob, draw(st.integers(1, 8)), draw(st.sampled_from("CCL")), **more)
    return trial(knob, draw(seconds), unit="s", **more)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(trials(), min_size=1, max_size=8))
def test_some_trial_admits_every_verdict(rows: list[Observation]) -> None:
    for knob, verdict in merge_all(rows).items():
        own = [t for t in rows if t.knob == knob]
        if verdict.value is None or not own:
            continue
        if verdict.grade == "L":
            assert any(float(t.value) >= float(verdict.value) for t in own)  # type: ignore[arg-type]
        elif verdict.unit == "s":
            ratios = [sorted((float(t.value), float(verdict.value))) for t in own]  # type: ignore[arg-type]
            assert any(more <= less * EIGHTH + 0.010001 for less, more in ratios), (verdict.value, own)
        else:
            assert verdict.value in [t.value for t in own if t.grade == "C"], (verdict, own)


@pytest.mark.parametrize("others", [1, 2])
def test_a_short_round_trip_of_another_connection_makes_no_shorter_timer(others: int) -> None:
    """Both runs read 0.3 s; a connection of 25 ms, not 250, would make the first answers copies of a timer of 75 ms."""
    synack = {"gaps": (0.3, 0.61, 1.2, 2.43), "arrival": 0.25, "rtt": 0.25, "late": ()}
    run = [("synack_rto", 0.3, "s"), ("synack_retries", 4, ""), ("synack_backoff", "exponential", "")]
    rows = [trial(knob, value, unit=unit, **synack) for knob, value, unit in run for _ in range(2)]
    rows += [trial("data_rto", 0.225, unit="s", gaps=(0.225,), rtt=0.025, trip=0.025)] * others
    seen = merge_all(rows)
    assert (seen["synack_rto"].value, seen["synack_rto"].grade) == (0.3, "A")
    assert (seen["synack_retries"].value, seen["synack_retries"].grade) == (4, "B")


def test_what_no_trial_read_has_no_value_and_is_asked_again_and_a_count_is_a_bound() -> None:
    rows, drawn = [trial("synack_rto", s, unit="s") for s in (2.0, 2.1)], trial("synack_rto", 1.0, "A", "s")
    left = upheld(drawn, rows)
    assert (left.value, left.reason, left.grade, left.detail("seen")) == (None, REASON, "N", ("2.0", "2.1"))
    assert REASON in PASSING
    assert upheld(drawn, [*rows, trial("synack_rto", 1.05, unit="s")]) is drawn
    left = upheld(trial("synack_retries", 7, "B"), [trial("synack_retries", n) for n in (4, 5)])
    assert (left.value, left.grade, left.detail("seen")) == (5, "L", ("4", "5"))


ICW = [trial("icw", 10, trace=f"icw.{n}", mss=536, proof="edge", sack=True) for n in (1, 2)]
VERSION = [trial("http_version", "h2", trace=f"h2_settings.{n}") for n in (1, 2)]
RWIN = [trial("rwin", 64240, trace="rto.1"), trial("rwin", 29200, trace="rwin.1")]


@pytest.mark.parametrize(("trials", "probes"), [
    ([], ()),
    (ICW, ()),
    (ICW[:1], ("icw",)),
    ([*ICW, trial("icw", 4, trace="icw.3", mss=536)], ("icw",)),
    ([*ICW, *VERSION[:1]], ("h2_settings",)),
    ([*ICW[:1], *VERSION[:1]], ("h2_settings", "icw")),
    ([trial("icw", 5, "L", trace="icw.1", proof="response-ended")], ()),
    ([trial("icw", 5, "L", trace="icw.1", proof="after-timer")], ("icw",)),
    ([*ICW, trial("icw", 12, "L", trace="icw.3", proof="response-ended")], ("icw",)),
    ([trial("h2_settings", "not-h2", "N", trace="h2_settings.1")], ()),
    ([trial("icw", "no-synack", "N", trace="icw.1")], ("icw",)),
    ([trial("address", "192.0.2.1", trace="dns.1")], ()),
    (RWIN[:1], ("rto",)),
    (RWIN, ("rwin",)),
    # who never agrees is let be
    ([trial("icw", n, trace=f"icw.{n}", mss=536) for n in range(1, TRIALS_MAX)], ("icw",)),
    ([trial("icw", n, trace=f"icw.{n}", mss=536) for n in range(1, TRIALS_MAX + 1)], ()),
])  # fmt: skip
def test_what_is_asked_again(trials: list[Observation], probes: tuple[str, ...]) -> None:
    assert next_trials(trials) == probes
