# SPDX-License-Identifier: MIT
"""What every nginx of the lab is told, whoever writes the rest of its configuration."""

from __future__ import annotations


def nginx_temporary(start: str) -> str:
    """nginx's own folders, each path beginning so: Debian's, under /var/lib, cannot be made in a read-only guest."""
    return "\n".join(f"{k}_temp_path {start}{k};" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
