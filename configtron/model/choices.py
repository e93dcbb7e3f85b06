# SPDX-License-Identifier: MIT
"""Names that a run's options choose from: tests, profiles, the lab's backends. Light, since `--help` lists them."""

from __future__ import annotations

# What `--tests` may name -> the probes that answer it.
TESTS: dict[str, tuple[str, ...]] = {
    "icw": ("icw",),
    "icw_tls": ("icw_tls", "cwnd_at_request"),
    "rto": ("rto", "icw"),
    "rwin": ("rto", "icw", "rwin"),
    "signature": ("signature", "rto", "rwin"),
    "options": ("signature", "ecn", "tfo"),
    "behaviour": ("delayed_ack", "idle"),
    "http": ("http_version", "h2_settings"),
    "h2": ("h2_settings",),
    "tls": ("tls_versions",),
}
# Plans of a run (`probe/profiles.py`), named by how many connections they make.
PROFILES = ("quick", "standard", "full", "paper")
# Ways to have the lab's hosts (`lab/uml/user_mode_linux.py`), best first.
UML_VIRTUAL, UML_REAL, NETNS = BACKENDS = ("uml-virtual", "uml-real", "netns")
