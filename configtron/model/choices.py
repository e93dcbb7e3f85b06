# SPDX-License-Identifier: MIT
"""Names and bounds that options choose from, and that other layers use too. Light, since `--help` lists them."""

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
# What a study of the papers needs: a measured tensor, root and the lab's kernel, or the learner's simulator.
TENSOR, LAB, SESSIONS = NEEDS = ("tensor", "lab", "sessions")
# Web servers that are set up, and that route prefixes to pools.
WEB_SERVERS = ("nginx", "apache", "haproxy")
# Where outcomes are from.
OUTCOME_SOURCES = ("live", "lab", "sim")
# Forms of a file of outcomes, or of contexts.
IMPORT_FORMS = (
    "outcomes", "nginx", "apache-us", "apache-ms", "apache-s", "json-ns", "json-us", "json-ms", "json-s", "haproxy",
    "envoy", "json", "boomerang", "web-vitals", "har", "contexts",
)  # fmt: skip
# Other tools' configuration that rules are written as.
EXPORT_FORMS = ("iproute2", "networkd", "sysctl")
# s; long enough to see whether the site still works, short enough to wait for if it does not.
LEASE_S = 60.0
# Prefixes of a host: more than a full table of the Internet's routes.
MAX_PREFIXES = 1_000_000
