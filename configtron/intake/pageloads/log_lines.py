# SPDX-License-Identifier: MIT
"""Lines that nginx, Apache and HAProxy send to a UNIX socket -> which connection asked for what, with which token.

Question   Which TCP connection, by its 4-tuple, carried the page with this token, and when?
Method     One form for all servers, words with a space between them; a syslog header before it is skipped:
               TAG TOKEN LOCAL LOCAL_PORT REMOTE REMOTE_PORT END TOOK NUMBER CONNECTION RTT HOST
           TAG is the unit of the server's times: `ctn` nginx (END and TOOK in seconds), `cta` Apache (microseconds),
           `cth` HAProxy (END in microseconds, TOOK in ms). NUMBER counts the connection's requests from 1, from 0 with
           Apache; "-" stands for what a server does not know.
Reads as   `RequestLine`; addresses packed, those of IPv4 in IPv6 as IPv4.
Fails as   a reason of `reasons.LINES`.
Differs    from `intake/imports/accesslog.py`, which reads log files of whole addresses for their times alone.
Source     nginx ngx_http_log_module, ngx_http_core_module ($connection_requests, $tcpinfo_rtt); Apache mod_log_config
           (%{end:usec}t, %k, %{c}L), mod_unique_id; HAProxy configuration manual 8.2.6
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

# A number of a request: the server logs every request and counts none, so the reader counts its lines.
BY_LINES = -1
# What `configtron doctor` sends in the place of a line; no server's line is like it.
TEST_LINE = b"ctd configtron doctor"
# Longest line that is read: names of hosts have 255 characters.
LONGEST_BYTES = 1024
TAG = re.compile(r"(?:^|\s)(ct[nah]) ")
# (us of END's unit, us of TOOK's unit, number of a connection's first request)
UNITS = {"ctn": (1e6, 1e6, 1), "cta": (1.0, 1.0, 0), "cth": (1.0, 1e3, 1)}
WORDS = 11
# What the servers make: hexadecimal digits, UUIDs, Apache's UNIQUE_ID; the colon is HAProxy's own form.
TOKEN = re.compile(r"[0-9A-Za-z@_:.-]{8,64}")
# Addresses that are remembered.
REMEMBERED = 20_000
MAPPED = bytes(10) + b"\xff\xff"
# Times of the years 1970 to 2262, and a request that took a day.
MOST_NS, MOST_TOOK_NS = 2**63 - 1, 86_400_000_000_000
# The longest round trip, us: as long as the longest request, a day.
MOST_RTT_US = MOST_TOOK_NS // 1000


class RequestLine(NamedTuple):
    """One answered request.

    client      the connection's remote address, packed
    begin_ns    when the request began and the answer ended, wall clock, ns since 1970
    number      of the request on its connection, from 1; 0: unknown; `BY_LINES`
    connection  the server's own number of the connection; "": unknown
    rtt_us      smoothed round trip by then; 0: unknown
    """

    token: str
    local_port: int
    client: bytes
    remote_port: int
    begin_ns: int
    end_ns: int
    number: int
    connection: str
    rtt_us: int
    host: str


def request_line(datagram: bytes) -> RequestLine | str:
    """Return the request of a datagram, or a reason of `reasons.LINES`."""
    if datagram == TEST_LINE:
        return "line-test"
    if len(datagram) > LONGEST_BYTES:
        return "line-unreadable"
    try:
        text = datagram.decode("ascii")
        found = TAG.search(text)
        words = text[found.end() :].split() if found else []
        if found is None or len(words) != WORDS:
            return "line-unreadable"
        return _line(found[1], words)
    except (ValueError, OverflowError):
        return "line-unreadable"


def _line(tag: str, words: list[str]) -> RequestLine | str:
    """Return the request of a line's words. Errors: `ValueError`, `OverflowError`."""
    token, _, local_port, remote, remote_port, end, took, number, connection, rtt, host = words
    if not TOKEN.fullmatch(token):
        return "line-without-token"
    end_unit, took_unit, first = UNITS[tag]
    end_ns, took_ns = round(float(end) * end_unit) * 1000, round(float(took) * took_unit) * 1000
    here, there = int(local_port), int(remote_port)
    if not (0 <= took_ns <= MOST_TOOK_NS and took_ns <= end_ns <= MOST_NS and 0 < here < 65536 and 0 <= there < 65536):
        return "line-unreadable"
    rtt_us = 0 if rtt == "-" else max(0, int(rtt))
    if rtt_us > MOST_RTT_US or not host.isprintable():
        return "line-unreadable"
    if not there:
        return "line-proxied"
    return RequestLine(
        token,
        here,
        packed(remote),
        there,
        end_ns - took_ns,
        end_ns,
        (BY_LINES if tag == "cth" else 0) if number == "-" else max(0, int(number) + 1 - first),
        "" if connection == "-" else connection,
        rtt_us,
        "" if host == "-" else host.lower(),
    )


def _packed(text: str) -> bytes:
    """Return an address's bytes, IPv4 also where it is written as IPv6. Errors: `ValueError`."""
    parts = text.split(".")
    if len(parts) == 4 and ":" not in text:
        return bytes(map(int, parts))
    address = ip_address(text.strip("[]")).packed
    return address[12:] if address.startswith(MAPPED) and len(address) == 16 else address


# Clients come again: pages have many objects.
packed = lru_cache(REMEMBERED)(_packed)


@lru_cache(REMEMBERED)
def prefix_of_client(client: bytes) -> str:
    """Return the prefix of a packed address as records have it: /24, of IPv6 /48."""
    if len(client) == 4:
        return f"{client[0]}.{client[1]}.{client[2]}.0/24"
    return f"{IPv6Address(client[:6] + bytes(10))}/48"
