"""What each profile asks of a target: the whole plan of a run, as tables."""

from __future__ import annotations

from configtron.nouns import Value

Params = tuple[tuple[str, Value], ...]
Row = tuple[str, Params]


def _row(probe: str, **params: Value) -> Row:
    return probe, tuple(sorted(params.items()))


# What each profile asks, port 80 first. Agreement needs windows over two MSS values, one edge run (SACK) and one early
# ACK; two held handshakes; two TLS connections. The table is the whole plan; tests of a run choose among its rows.
CLEAR: dict[str, tuple[Row, ...]] = {
    "quick": (
        _row("rto", full=False, repeats=2),
        _row("icw", mss=536, sack=True),
        _row("icw", mss=1460, wscale=7),
        _row("signature"),
    ),
    "standard": (
        _row("rto", full=False),
        _row("rto", full=True),
        _row("icw", mss=536),
        _row("icw", mss=1460, wscale=7),
        _row("icw", mss=536, sack=True),
        _row("icw", mss=536, early=True),
        _row("rwin"),
        _row("signature"),
        _row("http_version", way="h2c"),
        _row("http_version", way="h2c"),
    ),
    "full": (
        _row("rto", full=False),
        _row("rto", full=True),
        _row("icw", mss=536),
        _row("icw", mss=1460, wscale=7),
        _row("icw", mss=536, sack=True),
        _row("icw", mss=536, early=True),
        _row("icw", mss=64),
        _row("icw", mss=1460, wscale=7, sack=True),
        _row("rwin"),
        _row("rwin"),
        _row("signature"),
        _row("signature", ecn=True),
        _row("http_version", way="h2c"),
        _row("http_version", way="h2c"),
    ),
}
SECURE: dict[str, tuple[Row, ...]] = {
    "quick": (_row("h2_settings"),),
    "standard": (_row("h2_settings"), _row("h2_settings")),
    "full": (
        _row("h2_settings"),
        _row("h2_settings"),
        _row("h2_settings", ask=False),
        _row("http_version", way="https"),
        _row("http_version", way="https"),
        *(_row("tls_versions", most=most) for most in ("1.3", "1.2", "1.1", "1.0") for _ in range(2)),
    ),
}
# Where the SYN-ACK timer is shorter than the path, only timestamps let the server tell its round trip: these runs are
# added once two runs failed for that reason (one may be a lost ACK).
STAMPED = (
    _row("icw", mss=1460, wscale=7, timestamps=True),
    _row("icw", mss=536, wscale=7, timestamps=True),
    _row("icw", mss=536, wscale=7, timestamps=True, early=True),
)
STAMPED_AFTER = 2
PROFILES = tuple(CLEAR)
# What `--tests` may name -> the probes that answer it.
TESTS: dict[str, tuple[str, ...]] = {
    "icw": ("icw",),
    "rto": ("rto", "icw"),
    "rwin": ("rto", "icw", "rwin"),
    "signature": ("signature", "rto", "rwin"),
    "http": ("http_version", "h2_settings"),
    "h2": ("h2_settings",),
    "tls": ("tls_versions",),
}
