# SPDX-License-Identifier: MIT
"""The probes of each profile: the whole plan of a run, as tables."""

from __future__ import annotations

from typing import NamedTuple

from configtron.model.choices import PROFILES, TESTS
from configtron.model.nouns import Value

__all__ = ["PROFILES", "TESTS"]

Params = tuple[tuple[str, Value], ...]
Row = tuple[str, Params]


def _row(probe: str, **params: Value) -> Row:
    return probe, tuple(sorted(params.items()))


# The probes of each profile, port 80 first. Runs that show no data timer offer timestamps: a server whose SYN-ACK was
# lost then knows its round trip still, and holds no tail back. Agreement needs windows over two MSS values, one edge
# run (SACK) and one early ACK; two held handshakes; two TLS connections. The table is the whole plan; tests of a run
# choose among its rows. `standard` is made for a thousand targets within five minutes at 50 starts a second: 13
# connections, and handshakes held for 75 s at most, which shows all repeats of a server that begins at 1 s, and the
# end.
CLEAR: dict[str, tuple[Row, ...]] = {
    "quick": (
        _row("rto", full=False, repeats=2),
        _row("icw", mss=536, sack=True, timestamps=True),
        _row("icw", mss=1460, wscale=7, repeats=2),
        _row("signature"),
    ),
    "standard": (
        _row("rto", full=False, patience_s=75.0),
        _row("rto", full=True, patience_s=75.0),
        _row("icw", mss=536, repeats=3),
        _row("icw", mss=1460, wscale=7, repeats=2, slower=True),
        _row("icw", mss=536, sack=True, timestamps=True),
        _row("icw", mss=536, early=True, timestamps=True),
        _row("rwin"),
        _row("signature"),
        _row("http_version", way="h2c"),
        _row("http_version", way="h2c"),
    ),
    "full": (
        _row("rto", full=False),
        _row("rto", full=True),
        _row("icw", mss=536, repeats=3),
        _row("icw", mss=1460, wscale=7, repeats=2, slower=True),
        _row("icw", mss=536, sack=True, timestamps=True),
        _row("icw", mss=536, early=True, timestamps=True),
        _row("icw", mss=64),
        _row("icw", mss=1460, wscale=7, sack=True, timestamps=True),
        _row("icw", mss=1460, wscale=7, early=True, timestamps=True),
        _row("icw", mss=64, sack=True, timestamps=True),
        _row("rwin"),
        _row("rwin"),
        _row("signature"),
        _row("signature", ecn=True),
        *(_row("signature", offer=offer) for offer in ("paper", "sack", "timestamps", "scale")),
        _row("delayed_ack"),
        _row("delayed_ack"),
        _row("idle"),
        _row("idle"),
        _row("ecn"),
        _row("ecn"),
        _row("tfo"),
        _row("tfo"),
        _row("http_version", way="h2c"),
        _row("http_version", way="h2c"),
    ),
    # As the paper's SYN, without timestamps: so servers show the paper's windows (29200 = 20 x 1460) again.
    "paper": (
        _row("rto", full=False, patience_s=75.0),
        _row("rto", full=False, patience_s=75.0),
        _row("icw", mss=536, repeats=2),
        _row("icw", mss=1460, repeats=2),
        _row("icw", mss=536, early=True),
        _row("icw", mss=536, sack=True),
    ),
}
SECURE: dict[str, tuple[Row, ...]] = {
    "quick": (_row("h2_settings"),),
    "standard": (_row("h2_settings"), _row("h2_settings")),
    "paper": (_row("h2_settings"), _row("h2_settings")),
    "full": (
        *(_row("h2_settings") for _ in range(7)),
        _row("h2_settings", ask=False),
        _row("http_version", way="https"),
        _row("http_version", way="https"),
        _row("icw_tls", mss=64, early=True),
        _row("icw_tls", mss=64, sack=True),
        _row("icw_tls", mss=128, early=True),
        _row("cwnd_at_request", mss=536, early=True),
        _row("cwnd_at_request", mss=536, sack=True),
        *(_row("tls_versions", most=most) for most in ("1.3", "1.2", "1.1", "1.0") for _ in range(2)),
    ),
}
# Where the SYN-ACK timer is shorter than the path, only timestamps let the server measure its round trip: these runs
# are added once two runs failed for that reason (one may be a lost ACK).
STAMPED = (
    _row("icw", mss=1460, wscale=7, timestamps=True, repeats=2),
    _row("icw", mss=536, wscale=7, timestamps=True, repeats=2, slower=True),
    _row("icw", mss=536, wscale=7, timestamps=True, early=True),
)
STAMPED_AFTER = 2
# Windows over TLS, where the answer in clear shows none: it is short, leads to https, or there is no port in clear.
WINDOW: dict[str, tuple[Row, ...]] = {
    "quick": (_row("icw_tls", mss=64, sack=True),),
    "standard": (
        _row("icw_tls", mss=64, early=True),
        _row("icw_tls", mss=64, sack=True),
        _row("cwnd_at_request", mss=536, early=True),
        _row("cwnd_at_request", mss=536, sack=True),
    ),
    "full": (),
    "paper": (),
}
# Tests that the windows over TLS belong to, besides their own.
WINDOW_TESTS = ("icw", "icw_tls")
# Probes that say nothing in HTTP, or whose answer does not matter: without a port in clear they are sent to the other.
ANYWHERE = ("signature", "rwin")
# Probes that GET a page, and bring the cookie that it wants.
BRINGS_COOKIE = ("http_version", "icw", "rwin", "cwnd_at_request")
# Probes that keep a handshake half-open: one at a time to a host, beside its other connections.
HELD = ("rto",)
# Reasons for which nothing may have been read only since packets were lost, and how often a call is made again for
# them: both SYNs, or request and answer, of two calls in a row are lost once in a hundred thousand times at 5 % loss.
AGAIN = ("no-synack", "no-data", "drops", "clock-step", "unclear:no-ack", "unclear:first-segment-lost")
AGAIN_MOST = 1
# Trials beyond the plan that a target may have where its answers leave a parameter unknown
# (`fingerprint/next_trials.py`), in each of its chains; and which rows they are, in turn. Windows are asked for at
# their edge first, which no lost tail shortens.
MORE = {"quick": 0, "standard": 2, "full": 6, "paper": 2}
# A signature varies with the options of our SYN, so no further trial makes it surer: it is not here.


class Further(NamedTuple):
    """Knobs that are asked about further, and the rows that do it, in turn."""

    knobs: tuple[str, ...]
    rows: tuple[Row, ...]


FURTHER = (
    Further(
        ("icw",),
        (
            _row("icw", mss=536, sack=True, timestamps=True),
            _row("icw", mss=1460, wscale=7, sack=True, timestamps=True),
            _row("icw", mss=536, early=True, timestamps=True),
            _row("icw", mss=1460, wscale=7),
        ),
    ),
    Further(("data_rto",), (_row("icw", mss=1460, wscale=7, repeats=2), _row("icw", mss=536))),
    Further(("icw_tls",), (_row("icw_tls", mss=64, sack=True), _row("icw_tls", mss=64, early=True))),
    Further(
        ("cwnd_at_request",),
        (_row("cwnd_at_request", mss=536, sack=True), _row("cwnd_at_request", mss=536, early=True)),
    ),
    Further(
        ("synack_rto", "synack_backoff"),
        (_row("rto", full=False, patience_s=75.0), _row("rto", full=True, patience_s=75.0)),
    ),
    Further(("rwin",), (_row("rwin"),)),
    Further(("h2c",), (_row("http_version", way="h2c"),)),
    Further(("http_version", "h2_settings"), (_row("h2_settings"),)),
)
# Trials that distinguish one server at an address from two (`fingerprint/load_balancing.py`): how many every target may
# have, and how many one may where something hints at two; and which rows show a knob again, in turn. Windows are asked
# for at their edge, and one that the page is too short for in the certificate's flight.
APART_MOST = {"quick": (0, 0), "standard": (0, 4), "full": (12, 16), "paper": (0, 0)}
APART: dict[str, tuple[Row, ...]] = {
    "icw": (
        _row("icw", mss=536, sack=True, timestamps=True),
        _row("icw", mss=1460, wscale=7, sack=True, timestamps=True),
    ),
    "icw_tls": (_row("icw_tls", mss=64, sack=True), _row("icw_tls", mss=64, early=True)),
    "h2_settings": (_row("h2_settings"),),
    "http_version": (_row("h2_settings"),),
    "http_clear": (_row("http_version", way="h2c"),),
    "rwin": (_row("rwin"),),
}


class ProbePlan(NamedTuple):
    """The rows of a profile that answer certain tests, by their place in a target's session."""

    clear_wanted: bool
    more: int
    apart: int
    apart_if_hinted: int
    held: tuple[Row, ...]
    clear: tuple[Row, ...]
    secure: tuple[Row, ...]
    window: tuple[Row, ...]


def plan(profile: str, tests: frozenset[str]) -> ProbePlan:
    """Return the probes of a profile for these tests (keys of `TESTS`)."""
    probes = {probe for test in tests for probe in TESTS[test]}
    clear = tuple(row for row in CLEAR[profile] if row[0] in probes)
    return ProbePlan(
        bool(clear) or "http_version" in probes,
        MORE[profile],
        *APART_MOST[profile],
        tuple(row for row in clear if row[0] in HELD),
        tuple(row for row in clear if row[0] not in HELD),
        tuple(row for row in SECURE[profile] if row[0] in probes),
        WINDOW[profile] if tests.intersection(WINDOW_TESTS) else (),
    )
