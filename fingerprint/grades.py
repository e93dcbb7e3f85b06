# SPDX-License-Identifier: MIT
"""The grade rules of all parameters: one table, from which `docs/fingerprint.md` is printed.

One trial is exact (grade C), a lower bound (L) or nothing (N): its reader says which. Several trials of one target from
one vantage are settled by the row's function: `agreement` gets the readings of one parameter; `across`, where a row has
one, gets all trials of the target, and its verdict takes precedence (None: the trials show nothing of its question).

Rules for this file: a table and its text; pure. A row's numbers are those that its functions use
(tests/fingerprint/test_grades.py compares them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from configtron.fingerprint import (
    data_rto,
    h2_settings,
    icw_formula,
    idle,
    load_balancing,
    stack,
    syn_cookies,
    synack_rto,
    tfo,
    tls_versions,
)
from configtron.fingerprint.agreement import agree, agree_largest, agree_seconds, agree_window
from configtron.fingerprint.verdict import AGREE_A, AGREE_B
from configtron.model.nouns import Observation

Agreement = Callable[[Sequence[Observation], Sequence[Observation], Sequence[Observation]], Observation]
Across = Callable[[Mapping[str, Sequence[Observation]]], Observation | None]

# The verdict of trials that disagree.
COMMONEST = "the commonest value, C"
LARGEST = "the largest, C"
SHORTEST = "the shortest; B where two or more, and most, agree on it, else C"


class GradeRule(NamedTuple):
    """The grade rule of some parameters.

    counts   the trials counted towards B and A, and how many each grade needs; `also`: a further condition
    unlike   the verdict of exact trials that disagree
    exact    the condition of an exact trial; `bound`: that of a lower bound, "" where there is none
    """

    knobs: tuple[str, ...]
    agreement: Agreement
    exact: str
    bound: str = ""
    unlike: str = COMMONEST
    counts: str = "trials with the same value"
    b: int = AGREE_B
    a: int = AGREE_A
    also: str = ""
    across: Across | None = None


RULES = (
    GradeRule(("icw", "icw_tls", "cwnd_at_request"), agree_window,
              "fresh data came one round trip after our ACK, which left before any timer or after a tail loss probe; "
              "the flight ended in full segments; no doubt holds",
              "every other end of the flight, and every doubt (`fingerprint/window_proofs.py`)", LARGEST,
              "exact trials with the same number, and bounds of that number, above 1, that ended at another byte",
              also="one trial is exact; A: at two segment sizes, and one exact trial offered SACK"),
    GradeRule(("icw_formula",), agree, "never: it needs several trials of `icw`",
              counts="segment sizes with an exact window", across=icw_formula.across),
    GradeRule(("synack_rto",), agree_seconds, "a repeat of the SYN-ACK came (its retransmission timeout, RTO)",
              unlike="C if most agree on the shortest, else none", counts="trials within an eighth of the shortest",
              also=f"one of them sure (the first answer was the original, two gaps or more); A: or {AGREE_B} sure ones",
              across=synack_rto.across),
    GradeRule(("synack_backoff",), agree, "two gaps or more", unlike="the commonest, C, if most agree; else none",
              across=synack_rto.across_backoff),
    GradeRule(("synack_retries",), agree_largest,
              "the end was seen: a RST, or an echo that finds the connection forgotten", "the end was not seen",
              "the largest, by the timer of all trials; C where that timer is C", across=synack_rto.across_retries),
    GradeRule(("synack_end",), agree, "the end was seen", unlike="reset, by its count", across=synack_rto.across_end),
    GradeRule(("synack_duplicates",), agree, "a SYN-ACK came",
              unlike="the largest count, or 0 if most answers had none",
              counts="trials that heard duplicates (or none)", across=syn_cookies.across),
    GradeRule(("syn_cookies",), agree, "copies of the SYN-ACK came, or the answers after two farewells were compared"),
    GradeRule(("data_rto",), agree_seconds,
              "the first segment of the flight came again (the retransmission timeout of data, RTO)",
              unlike="the shortest that two agree on; C if a regular trial shows another",
              counts="trials within an eighth of the shortest that two agree on",
              also="one of them regular (its gaps double); the handshake took no longer than the path",
              across=data_rto.across),
    GradeRule(("min_rto",), agree_seconds, "never: the minimum RTO needs two round trips",
              unlike="the smallest; C if half or more show another",
              counts="trials that give the same minimum at unlike round trips", across=data_rto.across_least),
    GradeRule(("rwin", "rwin_ts", "wscale"), agree, "the first SYN-ACK came"),
    GradeRule(("rwin_first_ack",), agree, "the request was acknowledged"),
    GradeRule(("signature",), agree, "the first SYN-ACK came"),
    GradeRule(("stack",), agree, "a handshake and data came",
              unlike="split if two trials show it (B); else one, B where two or more show it", across=stack.across),
    GradeRule(("ecn", "sack", "timestamps"), agree, "the SYN-ACK to a SYN with the option came"),
    GradeRule(("tfo",), agree, "the SYN-ACK, or the acknowledgement of data in a SYN, came",
              unlike="yes, by its count; a SYN-ACK that may be a copy shows no `no`", across=tfo.across),
    GradeRule(("craft",), agree, "an answer, or the end of the wait, came"),
    GradeRule(("delayed_ack",), agree_seconds, "one lone segment's ACK was delayed", unlike=SHORTEST,
              counts="trials within an eighth of the shortest"),
    GradeRule(("slow_start_after_idle",), agree,
              "a window came after the silence, clearly smaller or as large as before",
              unlike="C if most agree, else none", also="one trial alone gives no value", across=idle.across),
    GradeRule(("http_version", "http_tls", "http_clear", "h2c"), agree, "ALPN, or an answer, came"),
    GradeRule(("h2_settings",), agree, "the first SETTINGS frame came",
              unlike=f"{COMMONEST}; lists that differ in GREASE alone agree", across=h2_settings.across),
    GradeRule(("h2_header_table_size", "h2_enable_push", "h2_max_concurrent_streams", "h2_initial_window_size",
               "h2_max_frame_size", "h2_max_header_list_size", "h2_reserved", "h2_window_update"),
              agree, "the first SETTINGS frame came; `absent` is a value"),
    GradeRule(("h2_later_settings", "h2_goaway"), agree, "the frame, or the answer without it, came"),
    GradeRule(("tls_versions",), agree, "a ServerHello came", "a version was neither taken nor refused",
              "a version both taken and refused: C",
              "trials that took or refused each version, the fewest of any version", across=tls_versions.across),
    GradeRule(("load_balancing",), agree, "never: it needs several connections",
              unlike="mixed, by the connections that show the rarer value", counts="connections that show the same",
              b=load_balancing.CONNECTIONS_B, a=load_balancing.CONNECTIONS_A,
              also=f"mixed: {AGREE_B} and {AGREE_A} connections, or facts, that differ", across=load_balancing.across),
)  # fmt: skip

RULE_OF = {knob: rule for rule in RULES for knob in rule.knobs}


def agreement_of(knob: str, unit: str) -> Agreement:
    """Return the function that settles exact readings of a parameter; one without a row by its unit (s: a timer)."""
    rule = RULE_OF.get(knob)
    return rule.agreement if rule is not None else agree_seconds if unit == "s" else agree


# The table stands between these lines of `docs/fingerprint.md`.
BEGIN, END = "<!-- the table of fingerprint/grades.py: make man -->", "<!-- end of the table -->"


def printed(page: str) -> str:
    """Return the page `docs/fingerprint.md` with the table of this file."""
    before, _, rest = page.partition(BEGIN)
    return "\n".join([before + BEGIN, "", *table(), "", END + rest.partition(END)[2]])


def table() -> Iterator[str]:
    """Yield the lines of the table in `docs/fingerprint.md`."""
    yield "| parameter | one trial is exact (C) if | a bound (L) if | counted | B | A | also | trials that disagree |"
    yield "|---|---|---|---|---|---|---|---|"
    for rule in RULES:
        knobs = ", ".join(f"`{knob}`" for knob in rule.knobs)
        yield (
            f"| {knobs} | {rule.exact} | {rule.bound or '-'} | {rule.counts} | {rule.b} | {rule.a} | "
            f"{rule.also or '-'} | {rule.unlike} |"
        )
