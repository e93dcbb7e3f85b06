# SPDX-License-Identifier: MIT
"""The head of an answer: its status line, its fields, and the facts about the server in them.

Rules for this file: pure; total (any bytes are read); a head may be cut off anywhere, so a field counts only if its
line is whole. Field names are small letters, as HTTP/2 has them on the wire. Dropped: interim answers (1xx but 101),
since the final one follows; fields but `KEPT` and `PLACES`, since none is about the stack; of cookies Path, Domain and
Secure, since only the same host is asked again. Source: RFC 9110 5, 15.2, 15.4; RFC 9112 4, 5.2; RFC 6265 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from configtron.model.nouns import Value

Fields = Sequence[tuple[str, str]]

# Reading the head of a page we were sent: enough for status line and fields, bounded against endless ones.
HEAD_LIMIT_BYTES = 32768
# The most characters kept of a field: an address with its query may be long, a joke of a server longer.
FIELD_LIMIT = 2000
# Kept as they are: where the page is, its server, the way on which it came, whether HTTP/3 is on offer.
KEPT = ("location", "server", "via", "alt-svc", "content-length")
# Field -> where in it the place stands (group 1) at which the answer was given. The names of places are the networks'
# own; those fields hold the request's number too, so the whole field would distinguish two requests, not two places.
PLACES: tuple[tuple[str, str], ...] = (
    ("cf-ray", r"-([A-Z]{3})$"), ("x-amz-cf-pop", r"^([A-Z]{3})"), ("x-served-by", r"cache-([a-z]{3})"),
    ("x-vercel-id", r"^([a-z]{3}\d)"), ("x-msedge-ref", r"Ref [BC]: ([A-Z]{3})"),
    ("x-edge-location", r"^([A-Za-z]{3,8})"),
)  # fmt: skip


def status_version(head: bytes) -> str | None:
    """Return "http/1.1" of b"HTTP/1.1 200 OK"; None if these bytes open no HTTP/1 answer."""
    found = re.match(rb"(HTTP/1\.[0-9])(?: |\Z)", head)
    return found[1].decode().lower() if found else None


def final(head: bytes) -> bytes:
    """Return what follows the interim heads that an answer begins with; b"" while nothing does."""
    while status_version(head) and head[9:10] == b"1" and head[9:12] != b"101":
        head = head.partition(b"\r\n\r\n")[2]
    return head


def head_status(head: bytes) -> int:
    """Return the status code, 0 if unreadable."""
    code = final(head)[9:12]
    return int(code) if len(code) == 3 and code.isdigit() else 0


def head_fields(head: bytes) -> Fields:
    """Return (name, value) of every whole field line, in their order."""
    head = final(head[:HEAD_LIMIT_BYTES])
    whole = head.split(b"\r\n\r\n", 1)[0] if b"\r\n\r\n" in head else head.rpartition(b"\r\n")[0]
    lines = (line.partition(b":") for line in re.sub(rb"\r\n[ \t]+", b" ", whole).split(b"\r\n")[1:])
    texts = ([part.strip().decode("latin-1") for part in line] for line in lines)
    return [(name.lower(), value) for name, colon, value in texts if colon]


def header_details(status: int, fields: Fields) -> dict[str, Value]:
    """Return details of an answer: status, the fields kept, the place, the cookies as a request gives them back."""
    details: dict[str, Value] = {"status": status}
    first = dict(reversed(fields))
    details.update({name: first[name][:FIELD_LIMIT] for name in KEPT if first.get(name)})
    if places := [found[1] for name, like in PLACES if (found := re.search(like, first.get(name, "")))]:
        details["place"] = places[0].lower()
    if cookies := _cookies(fields):
        details["cookies"] = cookies
    return details


def _cookies(fields: Fields) -> str:
    """All cookies set, as a Cookie field (RFC 6265 4.2); the last of one name counts, a deleted one does not."""
    jar: dict[str, str] = {}
    for name, value in fields:
        pair, _, attributes = value.partition(";")
        if name == "set-cookie" and "=" in pair and value.isascii() and value.isprintable():
            key = pair.partition("=")[0].strip()
            jar.pop(key, None)
            if not re.search(r"max-age\s*=\s*(0|-\d+)\s*(;|$)|expires\s*=[^;]*\W(19)?70\W", attributes, re.I):
                jar[key] = pair.strip()
    return "; ".join(jar.values())[:FIELD_LIMIT]
