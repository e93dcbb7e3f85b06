# SPDX-License-Identifier: MIT
"""SYN cookies, and SYN-ACKs that come twice: two habits that would be mistaken for a timer.

Question   Does the server keep nothing of a half-open connection (SYN cookies, a SYN proxy)? Does it send each SYN-ACK
           more than once at a time?
Method     A withheld handshake. Where no copy ever comes: RST, the same SYN again, and the answers' sequence numbers.
Stop when  as `synack_rto.py`.
Reads as   syn_cookies: "no" if copies came (something remembers us) or the number after the RST is another one; "yes"
           if it is the same: it was computed from our SYN. synack_duplicates: how many more SYN-ACKs came within 0.1 s
           of an answer, in most answers: a server doubles them all, a network some.
Fails as   no-synack, refused, no-repeat (nothing repeated, and no answer after the RST), drops.
Differs    from counting SYN-ACKs: a server that does not repeat, or whose copies were lost, is not taken for one with
           cookies, nor a duplicate for a timer of some ms.
Source     RFC 4987 3.6; net/ipv4/syncookies.c (secure_tcp_syn_cookie: addresses, ports, our number, the minute).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configtron.fingerprint.halfopen import half_open
from configtron.fingerprint.verdict import count_grade, no, over, seen, yes
from configtron.model.nouns import Observation, Trace, Value

PROBES = ("rto",)
KNOBS = ("syn_cookies", "synack_duplicates")


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one withheld handshake: the observations of `KNOBS`."""
    opening = half_open(trace.packets)
    if not opening.answers:
        reason = "refused" if opening.refused else "no-synack"
        return tuple(no(knob, reason, trace) for knob in KNOBS)
    first = trace.packets[opening.answers[0]].frame
    if opening.duplicates is None:
        duplicates = no("synack_duplicates", "no-repeat", trace)
    else:
        method = "SYN-ACKs within 0.1 s of an answer"
        counted: dict[str, Value] = {"doubled": opening.doubled}
        duplicates = yes("synack_duplicates", opening.duplicates, trace, "", method, "C", (first,), counted)
    numbers = opening.numbers
    if len(opening.answers) > 1:
        cookies = yes("syn_cookies", "no", trace, "", "copies of the SYN-ACK came", "C", (first,))
    elif trace.tainted or not numbers or opening.reset is not None:
        cookies = no("syn_cookies", trace.tainted[0] if trace.tainted else "no-repeat", trace)
    else:
        same = len({0, *numbers}) < 1 + len(numbers)
        details: dict[str, Value] = {"numbers": (0, *numbers)}
        method = "sequence number of the SYN-ACK to the same SYN after a RST"
        cookies = yes("syn_cookies", "yes" if same else "no", trace, "", method, "C", (first,), details)
    return cookies, duplicates


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Return duplicates out of all runs: the most, since each copy may be lost; none, if most answers of all runs had
    none."""
    every = trials.get("synack_duplicates", ())
    exact = [t for t in every if t.grade == "C"]
    if not exact:
        return None
    doubled, answers = (sum(counts) for counts in zip(*map(_doubled, exact), strict=True))
    most = max(t.value for t in exact if isinstance(t.value, int)) if 2 * doubled > answers else 0
    agreeing = sum(t.value == most for t in exact)
    # One lost copy does not undo the others: a trial with any copy at all counts.
    grade = count_grade(sum(bool(t.value) == bool(most) for t in exact))
    details: dict[str, Value] = {"agreeing": agreeing, **(seen(exact) if agreeing < len(exact) else {})}
    return over("synack_duplicates", every, most, grade, "", exact[0].method, details=details)


def _doubled(trial: Observation) -> tuple[int, int]:
    """Return how many answers of a run came twice or more, of how many."""
    match trial.detail("doubled"):
        case (int(doubled), int(answers)):
            return doubled, answers
        case _:
            return int(bool(trial.value)), 1
