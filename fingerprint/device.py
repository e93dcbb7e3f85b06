# SPDX-License-Identifier: MIT
"""A web server's access log -> device classes: the kind of device in a client's User-Agent.

Question   Is this client a phone, a tablet, a computer, a television, or a program?
Method     Lines of the combined format (Apache, nginx), with or without a virtual host before them. A User-Agent has
           the class of the first rule below with one of its words.
Reads as   a class, or "" with a reason: unlike-any. Clients that share an address may have several.
Fails as   None for a line that is not of that format; the reader of the log counts them.
Differs    from databases of User-Agents, which name models and versions: a learner needs the class only, and the words
           of these rules have been stable for a decade. Browsers on iPads say that they are Macs.
Source     RFC 9110 10.1.5; Apache mod_log_config (combined)
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

# class, words in lower case; the first rule that fits counts: crawlers name the phones they pretend to be, and
# televisions the system that they share with phones.
RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("program", ("bot", "crawl", "spider", "slurp", "curl/", "wget/", "python", "go-http", "java/", "okhttp", "libwww",
                 "headless", "lighthouse", "apache-httpclient", "monitor")),
    ("tv", ("smart-tv", "smarttv", "hbbtv", "appletv", "apple tv", "googletv", "android tv", "bravia", "web0s",
            "webos.tv", "roku", "crkey", "aftt", "aftm", "playstation", "xbox", "nintendo")),
    ("tablet", ("ipad", "tablet", "kindle", "silk/", "playbook")),
    ("phone", ("iphone", "ipod", "windows phone", "mobile", "opera mini", "blackberry", "kaios")),
    # Android without "mobile" is a tablet by the platform's own rule.
    ("tablet", ("android",)),
    ("computer", ("windows nt", "macintosh", "x11", "cros ", "linux x86_64")),
)  # fmt: skip
# The same for browsers: each that is built on another's engine names that one too, so the others come first.
BROWSERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("edge", ("edg/", "edga/", "edgios/", "edge/")), ("opera", ("opr/", "opera")), ("samsung", ("samsungbrowser/",)),
    ("firefox", ("firefox/", "fxios/")), ("chrome", ("chrome/", "crios/", "chromium/")), ("safari", ("safari/",)),
)  # fmt: skip
CLASSES = tuple(dict.fromkeys(name for name, _ in RULES))

# [vhost[:port] ]client[, proxy] identity user [time] "request" status size "referer" "agent"; quotes are escaped.
LINE = re.compile(
    r'^(?:[^\s,]+ )?(?P<client>[0-9a-fA-F.:]+)(?:, *[^\s,]+)* \S+ [^\[]*\[[^\]]*\] "(?:[^"\\]|\\.)*" \d{3} \S+'
    r' "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)"'
)


# User-Agents whose class is remembered: logs repeat a few.
REMEMBERED = 20_000


class LogLine(NamedTuple):
    """A request of the log: its client and User-Agent, "" if it has none."""

    client: str
    agent: str


def logged(line: str) -> LogLine | None:
    """One line of an access log."""
    found = LINE.match(line)
    if found is None:
        return None
    agent = found["agent"]
    return LogLine(found["client"], "" if agent == "-" else agent)


@lru_cache(REMEMBERED)
def device_of(agent: str) -> str:
    """Return the class of a User-Agent; "" if no rule knows it."""
    words = agent.lower()
    return next((name for name, signs in RULES if any(sign in words for sign in signs)), "")


@lru_cache(REMEMBERED)
def browser_of(agent: str) -> str:
    """Return the browser of a User-Agent; "" if no rule knows it."""
    words = agent.lower()
    return next((name for name, signs in BROWSERS if any(sign in words for sign in signs)), "")
