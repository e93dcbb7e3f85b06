# SPDX-License-Identifier: MIT
"""Where a redirect leads: the next place to ask for the page, read from an answer in clear. Pure.

A redirect is followed to another path, another name, or with the cookie that it has just set; one to https ends the
search, since TLS probes ask the rest. A redirect to a place already asked, or to a host that is no name, is not
followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from configtron.model.errors import BadInput
from configtron.model.nouns import Observation, Target
from configtron.probe.targets import hostname

# RFC 9110 15.4: those that say where else to ask.
REDIRECTS = (301, 302, 303, 307, 308)


class PageStep(NamedTuple):
    """Where to ask next: host (a name that may have to be looked up), path, the cookie to bring, whether over TLS."""

    host: str
    path: str
    cookie: str
    secure: bool


def redirected(target: Target, cookie: str, found: Iterable[Observation]) -> PageStep | None:
    """Return the step that an answer asks for, None if it is the page, or leads nowhere that we follow."""
    seen = next((o for o in found if o.knob == "http_clear"), None)
    status, location = (seen.detail("status", 0), seen.detail("location", "")) if seen else (0, "")
    if seen is None or status not in REDIRECTS or not isinstance(location, str) or not location:
        return None
    try:
        parts = urlsplit(urljoin(f"http://{target.host}{target.path}", location))
        port, host = parts.port, hostname(parts.hostname or "")
    except (ValueError, BadInput):
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    secure = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or (port or (443 if secure else 80)) != (443 if secure else target.port):
        return None
    if not path.isascii() or not path.isprintable() or " " in path:
        return None
    jar = joined(cookie, str(seen.detail("cookies", ""))) if host == target.host else ""
    step = PageStep(host, path, jar, secure)
    return None if step == (target.host, target.path, cookie, False) else step


def joined(old: str, new: str) -> str:
    """Return two Cookie fields as one; of cookies with one name the newer counts (RFC 6265 5.3)."""
    jar = {}
    for pair in f"{old}; {new}".split("; "):
        if pair:
            jar[pair.partition("=")[0]] = pair
    return "; ".join(jar.values())
