# SPDX-License-Identifier: MIT
"""Names that a run's options choose from: tests, profiles, the lab's backends. Light, since `--help` lists them."""

from __future__ import annotations

# Each name that `--tests` takes -> the probes that run for it.
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
# Profiles of a run; `probe/profiles.py` sets which connections each makes.
PROFILES = ("quick", "standard", "full", "paper")
# Backends of the lab, best first: User-Mode Linux with virtual time, the same in real time
# (`configtron/lab/uml/user_mode_linux.py`), network namespaces of this host.
UML_VIRTUAL, UML_REAL, NETNS = BACKENDS = ("uml-virtual", "uml-real", "netns")
