# SPDX-License-Identifier: MIT
"""HTTP/1 requests from bytes as they arrive: the few forms that browsers and web servers send to a beacon endpoint.

Question   Which requests are in these bytes?
Method     A head of `MOST_HEAD` bytes at most, then a body of Content-Length, `MOST_BODY` at most; several requests may
           follow one another. What could be read in two ways is refused: two lengths, a transfer coding, folded lines,
           spaces before a colon.
Stop when  a request is refused: the connection's other bytes have no meaning then.
Reads as   `HttpRequest`; header names in lower case.
Fails as   `RefusedRequest` with a status and a reason of `reasons.FLOODS`.
Source     RFC 9112 (2.2, 3, 5, 6.3: message body length); Beacon API (64 KiB)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

# Browsers send 64 KiB by sendBeacon at most; heads of browsers with cookies have some kilobytes.
MOST_BODY, MOST_HEAD = 65_536, 16_384
REQUEST = re.compile(r"(GET|POST|OPTIONS) (/[!-~]*) HTTP/1\.([01])")
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpRequest(NamedTuple):
    """A request; `lasting`: the connection may carry another."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    lasting: bool


class RefusedRequest(NamedTuple):
    """What is no request that this endpoint reads."""

    status: int
    reason: str


class HttpReader:
    """The requests of one connection."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._head: tuple[str, str, str, dict[str, str], bool] | None = None
        self._wanted = 0
        self._refused = False

    def feed(self, data: bytes) -> Iterator[HttpRequest | RefusedRequest]:
        """Yield the requests that these bytes complete; after a refusal none."""
        if self._refused:
            return
        held = self._held
        held += data
        while held or self._head:
            if self._head is None:
                found = self._take_head()
                if found is None:
                    return
                if isinstance(found, RefusedRequest):
                    self._refused = True
                    held.clear()
                    yield found
                    return
            if len(held) < self._wanted or self._head is None:
                return
            method, path, query, headers, lasting = self._head
            body, self._head = bytes(held[: self._wanted]), None
            del held[: self._wanted]
            yield HttpRequest(method, path, query, headers, body, lasting)

    def _take_head(self) -> RefusedRequest | bool | None:
        """Take a head from the bytes; None where it is not whole yet."""
        held = self._held
        end = held.find(b"\r\n\r\n", 0, MOST_HEAD + 4)
        if end < 0:
            return RefusedRequest(431, "too-large") if len(held) > MOST_HEAD else None
        try:
            lines = held[:end].decode("latin-1").split("\r\n")
        finally:
            del held[: end + 4]
        found = REQUEST.fullmatch(lines[0])
        if found is None:
            return RefusedRequest(400, "not-http")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            key = name.lower()
            # a name twice is a list of values, which no header read here may be
            if not colon or not NAME.fullmatch(name) or (key in headers and key in ("content-length", "host")):
                return RefusedRequest(400, "not-http")
            headers[key] = value.strip()
        return self._body_of(found, headers)

    def _body_of(self, found: re.Match[str], headers: dict[str, str]) -> RefusedRequest | bool:
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return RefusedRequest(411, "not-http")
        if not (length.isascii() and length.isdigit() and len(length) < 12):
            return RefusedRequest(400, "not-http")
        if int(length) > MOST_BODY:
            return RefusedRequest(413, "too-large")
        path, _, query = found[2].partition("?")
        asked = headers.get("connection", "").lower()
        lasting = asked != "close" if found[3] == "1" else asked == "keep-alive"
        self._head, self._wanted = (found[1], path, query, headers, lasting), int(length)
        return True
