# SPDX-License-Identifier: MIT
"""The unit that the initial window is counted in.

Question   Is the initial window a number of segments, a number of bytes, or one of the RFCs' formulae?
Method     No conversation of its own: the windows that were read at several segment sizes, beside the rules.
Stop when  every run that was asked for has been read.
Reads as   the rule that explains every exact run: "segments" (N, Linux), "bytes" (N bytes, rounded up to segments),
           "rfc6928" (min(10 MSS, max(2 MSS, 14600))), "rfc3390" (min(4 MSS, max(2 MSS, 4380))), or "none". Three
           segment sizes with exact runs give A, two B. Where several rules explain all, the one with less freedom:
           the RFCs' before the numbers.
Fails as   nothing: without exact runs at two segment sizes, or if these are so near, or the window so small, that a
           number of bytes explains as well what a number of segments does, there is no question yet, and no verdict.
Differs    from cs244's icw_test.py, which divides bytes by the segment size and so cannot distinguish them.
Source     RFC 6928 section 2; RFC 3390 section 1; RFC 2414.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from configtron.fingerprint.verdict import AGREE_B, count_grade, number, over
from configtron.model.nouns import Observation

KNOBS = ("icw_formula",)
# RFC 6928 section 2 and RFC 3390 section 1, in bytes.
RULES_FIXED: dict[str, Callable[[int], int]] = {
    "rfc6928": lambda mss: min(10 * mss, max(2 * mss, 14600)),
    "rfc3390": lambda mss: min(4 * mss, max(2 * mss, 4380)),
}
METHOD = "windows over segment sizes"


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """One verdict out of the trials of `icw`; none without exact runs at two segment sizes."""
    exact = [t for t in trials.get("icw", ()) if t.grade == "C" and _mss(t) > 0]
    sizes = {_mss(t) for t in exact}
    if len(sizes) < AGREE_B:
        return None
    if len({t.value for t in exact}) == 1 and _is_bytes({(_mss(t), int(number(t))) for t in exact}):
        return None
    details = {"windows": tuple(sorted({f"{t.text} x {_mss(t)}" for t in exact}))}
    return over("icw_formula", exact, _rule(exact), count_grade(len(sizes)), "", METHOD, "", details)


def _rule(exact: Sequence[Observation]) -> str:
    pairs = {(_mss(t), int(number(t))) for t in exact}
    for name, window in RULES_FIXED.items():
        # Where 10 MSS or 4 MSS is the least at every size, the rule is a number of segments like any other.
        counts = {_segments(window(mss), mss) for mss, _ in pairs}
        if len(counts) > 1 and all(_segments(window(mss), mss) == n for mss, n in pairs):
            return name
    if len({n for _, n in pairs}) == 1:
        return "segments"
    return "bytes" if _is_bytes(pairs) else "none"


def _is_bytes(pairs: Collection[tuple[int, int]]) -> bool:
    """Return whether so many bytes fill n segments whole, or n - 1 and a part of one that may also be left unsent."""
    return any(
        max((n - less) * mss for mss, n in pairs) < min((n - less + 1) * mss for mss, n in pairs) + less
        for less in (0, 1)
    )


def _segments(window: int, mss: int) -> int:
    return -(-window // mss)


def _mss(trial: Observation) -> int:
    mss = trial.detail("mss")
    return mss if isinstance(mss, int) else 0
