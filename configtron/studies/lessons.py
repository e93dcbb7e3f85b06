# SPDX-License-Identifier: MIT
"""The study `lessons`: why a larger initial window helps on some paths and hurts on others, and why HTTP/2 loses.

Question   A tensor shows which of two configurations is faster; which events on the wire cause the difference?
Method     Two configurations that differ in one knob load one page under one condition, several times, each time with
           the same losses for both; the guest logs every packet at both ends (`guests/captured.py`). The study draws
           the repeat with the median ratio of page load times, both configurations on the same axes, and reads
           figures from its packets (`guests/time_sequence.py`).
Reads as   A claim holds when its faster configuration was faster in every repeat; in part when in most.
Fails as   a failed load counts for neither; a failed part leaves its lesson out, and the result names it.
Source     HC sections 1 and 2; Dukkipati et al., An Argument for Increasing TCP's Initial Congestion Window, 2010
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from configtron.lab.testbed import families
from configtron.model.nouns import Profile, Value
from configtron.studies.guests import captured
from configtron.studies.guests.captured import CaptureOrders, LoadRow
from configtron.studies.guests.parts import Part, PartResult, performed
from configtron.studies.guests.time_sequence import ROUNDS, Risen, risen
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, Cell, Evaluated, Fact, Sequences, Table
from configtron.studies.registry.kinds import Arguments, ClaimsStudy

# Whose `perform` the guest calls.
GUEST = "configtron.studies.guests.captured"
# Loads of each configuration: six are what a median's interval needs; one shows that it works.
REPEATS, SMOKE_REPEATS = 6, 1
PLAIN: Mapping[str, Value] = {
    "http_version": "http/1.1", "initcwnd": 10, "pacing": "pfifo_fast", "tcp_congestion_control": "cubic",
}  # fmt: skip


class Lesson(NamedTuple):
    """slow and fast: one knob's two values in words and what they change; `fast` is who the claim says wins."""

    name: str
    claim: str
    paper: str
    condition: str
    site: str
    slow: tuple[str, Mapping[str, Value]]
    fast: tuple[str, Mapping[str, Value]]

    def wanted(self, arguments: Arguments) -> CaptureOrders:
        """The loads."""
        profiles = tuple(Profile(name, tuple(sorted({**PLAIN, **knobs}.items()))) for name, knobs in self.pair)
        repeats = SMOKE_REPEATS if arguments.smoke else REPEATS
        return CaptureOrders(self.condition, self.site, profiles, repeats, arguments.seed)

    @property
    def pair(self) -> tuple[tuple[str, Mapping[str, Value]], tuple[str, Mapping[str, Value]]]:
        """Both, the slow one first."""
        return self.slow, self.fast


LESSONS = (
    Lesson("icw-helps", "a larger initial window saves round trips of a short page on a long path",
           "30 < 10 < 1 at a long round trip", "hotcloud:5/500/0", "search",
           ("initial window 10", {}), ("initial window 30", {"initcwnd": 30})),
    Lesson("icw-hurts", "a larger initial window of six connections drowns a shallow buffer",
           "no configuration dominates", "access:dsl/10", "shop",
           ("initial window 30", {"initcwnd": 30}), ("initial window 10", {})),
    Lesson("h2-loses", "HTTP/2's one connection an origin loses to HTTP/1.1's six where packets are lost",
           "HTTP/1.1 beats HTTP/2 with cubic at 1 % loss and 5 Mbit/s", "hotcloud:5/150/1", "shop",
           ("HTTP/2", {"http_version": "h2"}), ("HTTP/1.1", {})),
)  # fmt: skip


class LessonOutcome(NamedTuple):
    """A lesson's loads: (slow, fast) page load times of each repeat in s, and the median pair as it rose."""

    lesson: Lesson
    pairs: Sequence[tuple[float, float]]
    slow: Risen
    fast: Risen


def run(arguments: Arguments, lessons: Sequence[Lesson] = LESSONS) -> Evaluated:
    """The study. Errors: those of parts."""
    wanted = [Part(one.name, GUEST, one.wanted(arguments).to_json()) for one in lessons]
    done = performed(arguments, wanted)
    found = [found for lesson, one in zip(lessons, done, strict=True) if (found := read(lesson, one)) is not None]
    missing = "; ".join(f"{one.part.name}: {one.why or 'no load of both ended well'}" for one in done
                        if one.part.name not in {found.lesson.name for found in found})  # fmt: skip
    method = (
        "Two configurations that differ in one knob load one page, each repeat with the same losses for both. Drawn is "
        "the repeat with the median ratio: each segment where it left the servers, its bytes at the height at which "
        "they were first sent, a colour a connection; dashed: the page is there."
    )
    return Evaluated(
        "lessons", "Why it is faster", "HotCloud 2017, sections 1 and 2", method, [_figures(found), _sent(found)],
        [_drawn(one) for one in found], [fact(one) for one in found], DIFFERS,
        (("seed", str(arguments.seed)),), missing,
    )  # fmt: skip


DIFFERS = "The paper tells these effects from page load times; here each is shown by the loads' own packets."


def read(lesson: Lesson, done: PartResult) -> LessonOutcome | None:
    """A part's loads; None where no repeat ended well for both. Errors: `BadInput` for logs that cannot be read."""
    if not done.text:
        return None
    by: dict[int, dict[int, LoadRow]] = {}
    for one in captured.loads_of(done.text):
        if not one.failed:
            by.setdefault(one.repeat, {})[one.configuration] = one
    whole = [(pair[0], pair[1]) for _, pair in sorted(by.items()) if len(pair) == len(lesson.pair)]
    if not whole:
        return None
    # the lower of two middle ones: a repeat that was really seen
    drawn = sorted(whole, key=lambda pair: pair[0].plt_ms / pair[1].plt_ms)[(len(whole) - 1) // 2]
    rtt_s = families.named(lesson.condition).rtt_ms / 1e3
    both = [risen(*captured.logs(done.folder, one), one.plt_ms / 1e3, rtt_s) for one in drawn]
    return LessonOutcome(lesson, [(slow.plt_ms / 1e3, fast.plt_ms / 1e3) for slow, fast in whole], both[0], both[1])


def fact(found: LessonOutcome) -> Fact:
    """Holds: faster in every repeat; in part: in most."""
    lesson, faster = found.lesson, sum(fast < slow for slow, fast in found.pairs)
    verdict = HOLDS if faster == len(found.pairs) else PARTLY if 2 * faster > len(found.pairs) else ABSENT
    names = [name for name, _ in lesson.pair]
    times = [median(times) for times in zip(*found.pairs, strict=True)]
    ours = (
        f"{names[1]} {times[1]:.2f} s, {names[0]} {times[0]:.2f} s in the median; faster in {faster} of "
        f"{len(found.pairs)} repeats ({lesson.site}, {lesson.condition})"
    )
    pairs = zip(names, (found.slow, found.fast), strict=True)
    return Fact(lesson.claim, lesson.paper, ours, verdict, " ".join(f"{name} {one.words}" for name, one in pairs))


def _drawn(found: LessonOutcome) -> Sequences:
    lesson = found.lesson
    panels = [
        (name, one.marks, one.plt_s) for (name, _), one in zip(lesson.pair, (found.slow, found.fast), strict=True)
    ]
    title = f"{lesson.claim} ({lesson.site}, {lesson.condition})."
    return Sequences(title, panels)


def _figures(found: Sequence[LessonOutcome]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        for (name, _), load in zip(one.lesson.pair, (one.slow, one.fast), strict=True):
            rows.append((one.lesson.name, name, round(load.plt_s, 3), round(load.rounds, 1), load.connections,
                         load.segments, load.lost, load.again, round(load.under_way / 1e3, 1),
                         round(load.idle_s, 2), round(load.stuck_s, 2)))  # fmt: skip
    columns = ("lesson", "configuration", "page, s", "round trips", "connections", "segments", "lost", "sent again",
               "under way, kB", "nothing under way, s", "stuck, s")  # fmt: skip
    return Table("loads", "The loads that are drawn", columns, rows)


def _sent(found: Sequence[LessonOutcome]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (one.lesson.name, name, *(round(size / 1e3, 1) for size in load.sent_by[1:]))
        for one in found
        for (name, _), load in zip(one.lesson.pair, (one.slow, one.fast), strict=True)
    ]
    columns = ("lesson", "configuration", *(f"{n} RTT" for n in range(1, ROUNDS + 1)))
    return Table("rounds", "kB first sent so many round trips after the page was wanted", columns, rows)


STUDY = ClaimsStudy(
    "lessons",
    "HotCloud 2017, sections 1 and 2",
    "why a larger initial window helps here and HTTP/2 loses there, from captures",
    "a minute",
    run,
)
