# SPDX-License-Identifier: MIT
"""TLS in the clear: versions, ALPN and server name of the two hellos.

Rules for this file: total; a hello captured in part gives the fields of that part. From TLS 1.3 on the server's
ALPN answer is encrypted, so it is unknown here, which is not the same as none. A HelloRetryRequest is a ServerHello,
and its version binds. Dropped: all other extensions; ECH, as browsers send it with random bytes (GREASE) to all, so the
server's name may be its provider's.

Source     RFC 8446 4.1, 4.2; RFC 5246 7.4.1; RFC 7301; RFC 6066 3
"""

from __future__ import annotations

from typing import NamedTuple

ALERT, HANDSHAKE, CLIENT_HELLO, SERVER_HELLO = 21, 22, 1, 2
# Bytes before the body of a record, which end in its length.
RECORD_HEADER = 5
# An alert's two bytes begin with its level (RFC 5246 7.2); a server that warns goes on (unrecognized_name is usual).
ALERT_BYTES, WARNING = 2, 1
SERVER_NAME, ALPN, SUPPORTED_VERSIONS = 0, 16, 43
NAMES = {0x0300: "SSLv3", 0x0301: "TLSv1", 0x0302: "TLSv1.1", 0x0303: "TLSv1.2", 0x0304: "TLSv1.3"}
# Reserved values that clients mix in, so that servers stay tolerant (RFC 8701): 0x?A?A.
_GREASE = frozenset(0x0A0A + 0x1010 * n for n in range(16))


class Hello(NamedTuple):
    """A ClientHello or ServerHello. `versions` best first; `whole`: captured to its end."""

    kind: int
    versions: tuple[str, ...]
    alpn: tuple[str, ...]
    server_name: str
    whole: bool


def hello(data: bytes) -> Hello | None:
    """Return the hello that a stream opens with; None if it opens otherwise."""
    body = _handshake(data)
    if len(body) < 6 or body[0] not in (CLIENT_HELLO, SERVER_HELLO):
        return None
    kind, size = body[0], int.from_bytes(body[1:4], "big")
    whole = len(body) >= 4 + size
    body = body[4 : 4 + size]
    legacy = NAMES.get(int.from_bytes(body[:2], "big"), "")
    found = _extensions(body, kind)
    versions = _versions(found.get(SUPPORTED_VERSIONS), kind) or ((legacy,) if legacy else ())
    return Hello(kind, versions, _alpn(found.get(ALPN, b"")), _server_name(found.get(SERVER_NAME, b"")), whole)


def _handshake(data: bytes) -> bytes:
    """Return the handshake bytes of the records that a stream opens with, behind warnings."""
    parts, at = [], 0
    while at + RECORD_HEADER <= len(data) and data[at + 1] == 3 and (data[at] == HANDSHAKE or is_warning(data[at:])):
        size = int.from_bytes(data[at + 3 : at + RECORD_HEADER], "big")
        if data[at] == HANDSHAKE:
            parts.append(data[at + RECORD_HEADER : at + RECORD_HEADER + size])
        at += RECORD_HEADER + size
    return b"".join(parts)


def is_warning(data: bytes) -> bool:
    """Return whether these bytes begin with an alert in clear that does not end the connection."""
    alert = data[:1] == bytes((ALERT,)) and int.from_bytes(data[3:RECORD_HEADER], "big") == ALERT_BYTES
    return alert and data[RECORD_HEADER : RECORD_HEADER + 1] == bytes((WARNING,))


def missing(data: bytes) -> int:
    """Return bytes that a stream's first handshake record still lacks; 0 if it is whole, or there is none."""
    while is_warning(data):
        data = data[RECORD_HEADER + ALERT_BYTES :]
    if data[:1] != bytes((HANDSHAKE,)):
        return 0
    return max(RECORD_HEADER + int.from_bytes(data[3:RECORD_HEADER], "big") - len(data), 0)


def _extensions(body: bytes, kind: int) -> dict[int, bytes]:
    at = 2 + 32
    at += 1 + (body[at] if at < len(body) else 0)
    if kind == CLIENT_HELLO:
        at += 2 + int.from_bytes(body[at : at + 2], "big")
        at += 1 + (body[at] if at < len(body) else 0)
    else:
        at += 3
    at += 2
    found: dict[int, bytes] = {}
    while at + 4 <= len(body):
        name, size = int.from_bytes(body[at : at + 2], "big"), int.from_bytes(body[at + 2 : at + 4], "big")
        if at + 4 + size > len(body):
            break
        found.setdefault(name, body[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def _versions(data: bytes | None, kind: int) -> tuple[str, ...]:
    if data is None:
        return ()
    listed = data[1:] if kind == CLIENT_HELLO else data[:2]
    numbers = [int.from_bytes(listed[at : at + 2], "big") for at in range(0, len(listed) - 1, 2)]
    return tuple(NAMES.get(number, f"0x{number:04x}") for number in numbers if number not in _GREASE)


def _alpn(data: bytes) -> tuple[str, ...]:
    names, at = [], 2
    while at < len(data) and at + 1 + data[at] <= len(data):
        name = data[at + 1 : at + 1 + data[at]]
        if len(name) != 2 or int.from_bytes(name, "big") not in _GREASE:
            names.append(name.decode("latin-1"))
        at += 1 + data[at]
    return tuple(names)


def _server_name(data: bytes) -> str:
    if len(data) < 5 or data[2] != 0:
        return ""
    return data[5 : 5 + int.from_bytes(data[3:5], "big")].decode("latin-1")
