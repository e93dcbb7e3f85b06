# SPDX-License-Identifier: MIT
"""Directives that every nginx of the lab has in its configuration."""

from __future__ import annotations


def nginx_temporary(start: str) -> str:
    """Return the directives for nginx's own folders under `start`; a read-only guest cannot make Debian's /var/lib."""
    return "\n".join(f"{k}_temp_path {start}{k};" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
