# SPDX-License-Identifier: MIT
"""Answers of a misbehaving server to an HTTP/1 request: one generator a misbehaviour, its steps in order.

An answer yields bytes (write them), a number (wait so many seconds), or an `End`; one that just stops leaves the
connection as the client asked for it. Pure: no clock, no socket; `servers/odd.py` performs it. To add one: a function
here, its row in `ANSWERS`, and a row in `lab/internet/misbehaving.py` that has its share and what is then true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum


class End(Enum):
    """How a connection is left."""

    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


Step = bytes | float | End


@dataclass(frozen=True, slots=True)
class Ask:
    """One request and what the answer may depend on.

    room     bytes that the congestion window would let out now
    amount   the misbehaviour's own number: seconds, bytes, a status code
    """

    page: bytes
    path: str = "/"
    host: str = ""
    cookie: bool = False
    secure: bool = False
    close: bool = True
    room: int = 0
    amount: float = 0.0


Answer = Callable[[Ask], Iterator[Step]]

REASONS = {200: "OK", 301: "Moved Permanently", 302: "Found", 404: "Not Found", 503: "Service Unavailable"}
# Bytes of a chunk (RFC 9112 section 7.1), and of a write of a program that does not gather its output.
CHUNK_BYTES, SMALL_WRITE_BYTES = 1000, 90
# So many writes fill any window we draw (100 segments); what is left then comes at once.
SMALL_WRITES = 128
# What a slow server lets fall at a time.
DRIP_BYTES = 40
# What a program that flushes as it goes sends at a time: some full segments.
FLUSH_BYTES = 3000
# How long a tar pit sucks on one byte.
TRICKLE_EVERY_S = 5.0
# Header fields of applications that keep their state in them: 16 kB, below the 32 kB where readers of heads give up.
HUGE_FIELDS, HUGE_FIELD_BYTES = 32, 512
# A chain longer than any client should follow (ours: two).
CHAIN_LENGTH = 4


def head(ask: Ask, length: int | None, *more: str, status: int = 200, version: str = "1.1") -> bytes:
    """Status line and header fields."""
    lines = [f"HTTP/{version} {status} {REASONS[status]}", "Server: odd", *more, "Content-Type: text/plain"]
    lines += [] if length is None else [f"Content-Length: {length}"]
    lines += ["Connection: close"] if ask.close else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def page(ask: Ask) -> Iterator[Step]:
    """The page, head and body in one write."""
    yield head(ask, len(ask.page)) + ask.page


def fit(ask: Ask) -> Iterator[Step]:
    """An answer as long as the window, or `amount` bytes longer: which MSS the client chose does not matter."""
    wanted = ask.room + int(ask.amount)
    length = max(wanted - len(head(ask, 0, "Fit: ")), 0)
    while length and len(head(ask, length, "Fit: ")) + length > wanted:
        length -= 1
    # a length that lost a digit leaves a byte over
    opening = head(ask, length, "Fit: " + "x" * (wanted - len(head(ask, length, "Fit: ")) - length))
    yield opening + (ask.page * (1 + length // max(len(ask.page), 1)))[:length]


def short(ask: Ask) -> Iterator[Step]:
    """A page that is smaller than any window, with the status `amount`."""
    body = f"{ask.path} {REASONS[int(ask.amount)].lower()}\n".encode()
    yield head(ask, len(body), status=int(ask.amount)) + body


def empty(ask: Ask) -> Iterator[Step]:
    """A body of no bytes."""
    yield head(ask, 0)


def think(ask: Ask) -> Iterator[Step]:
    """Nothing for a while, then the page."""
    yield ask.amount
    yield from page(ask)


def think_body(ask: Ask) -> Iterator[Step]:
    """The head at once, the body after a while."""
    yield head(ask, len(ask.page))
    yield ask.amount
    yield ask.page


def chunked(ask: Ask) -> Iterator[Step]:
    """Transfer-Encoding: chunked, each chunk written by itself."""
    yield head(ask, None, "Transfer-Encoding: chunked")
    for at in range(0, len(ask.page), CHUNK_BYTES):
        piece = ask.page[at : at + CHUNK_BYTES]
        yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    yield b"0\r\n\r\n"


def small_writes(ask: Ask) -> Iterator[Step]:
    """Many small writes, one after the other."""
    yield head(ask, len(ask.page))
    end = SMALL_WRITES * SMALL_WRITE_BYTES
    for at in range(0, min(end, len(ask.page)), SMALL_WRITE_BYTES):
        yield ask.page[at : min(at + SMALL_WRITE_BYTES, end)]
    yield ask.page[end:]


def drip(ask: Ask) -> Iterator[Step]:
    """A few bytes every `amount` seconds."""
    yield head(ask, len(ask.page))
    for at in range(0, len(ask.page), DRIP_BYTES):
        yield ask.amount
        yield ask.page[at : at + DRIP_BYTES]


def flush(ask: Ask) -> Iterator[Step]:
    """Some segments every `amount` seconds, as a program that computes its page while sending it."""
    yield head(ask, len(ask.page)) + ask.page[:FLUSH_BYTES]
    for at in range(FLUSH_BYTES, len(ask.page), FLUSH_BYTES):
        yield ask.amount
        yield ask.page[at : at + FLUSH_BYTES]


def silent(ask: Ask) -> Iterator[Step]:
    """Nothing, ever."""
    yield End.HANG


def trickle(ask: Ask) -> Iterator[Step]:
    """A byte at a time, so slowly that no client sees the end of the status line."""
    for byte in head(ask, 0):
        yield TRICKLE_EVERY_S
        yield bytes([byte])


def _moved(ask: Ask, location: str, *more: str, status: int = 301) -> Iterator[Step]:
    body = f"see {location}\n".encode()
    yield head(ask, len(body), f"Location: {location}", *more, status=status) + body


def to_path(ask: Ask) -> Iterator[Step]:
    """The page is elsewhere on this host."""
    return page(ask) if ask.path.startswith("/home/") else _moved(ask, "/home/")


def to_www(ask: Ask) -> Iterator[Step]:
    """The page is on the host's other name."""
    return page(ask) if ask.host.startswith("www.") else _moved(ask, f"http://www.{ask.host}{ask.path}")


def to_https(ask: Ask) -> Iterator[Step]:
    """The page is given over TLS only."""
    return page(ask) if ask.secure else _moved(ask, f"https://{ask.host}{ask.path}")


def to_cookie(ask: Ask) -> Iterator[Step]:
    """The page is for those who bring the cookie back; others are sent round."""
    return page(ask) if ask.cookie else _moved(ask, ask.path, "Set-Cookie: seen=1; Path=/", status=302)


def chain(ask: Ask) -> Iterator[Step]:
    """The page is behind more redirects than a client should follow."""
    at = ask.path.strip("/")
    step = int(at) if at.isdecimal() else 0
    return page(ask) if step >= CHAIN_LENGTH else _moved(ask, f"/{step + 1}", status=302)


def loop(ask: Ask) -> Iterator[Step]:
    """Two places that each say it is in the other."""
    return _moved(ask, "/there" if ask.path != "/there" else "/here", status=302)


def reset(ask: Ask) -> Iterator[Step]:
    """A reset instead of an answer."""
    yield End.RESET


def reset_body(ask: Ask) -> Iterator[Step]:
    """A reset after `amount` bytes of the body; what the window held back is thrown away."""
    yield head(ask, len(ask.page)) + ask.page[: int(ask.amount)]
    yield End.RESET


def close(ask: Ask) -> Iterator[Step]:
    """The end of the connection instead of an answer."""
    yield End.CLOSE


def slow_close(ask: Ask) -> Iterator[Step]:
    """A short page at once, and the end that was asked for only after a while."""
    body = b"closing soon\n"
    yield head(ask, len(body)) + body
    yield ask.amount
    yield End.CLOSE


def head_only(ask: Ask) -> Iterator[Step]:
    """A head that promises a body, and no body."""
    yield head(ask, len(ask.page))
    yield End.HANG


def http10(ask: Ask) -> Iterator[Step]:
    """HTTP/1.0: no length, the end of the connection is the end of the page."""
    yield head(ask, None, version="1.0") + ask.page
    yield End.CLOSE


def huge_head(ask: Ask) -> Iterator[Step]:
    """A head of many kilobytes."""
    fields = [f"X-State-{n}: {'s' * HUGE_FIELD_BYTES}" for n in range(HUGE_FIELDS)]
    yield head(ask, len(ask.page), *fields) + ask.page


def not_http(ask: Ask) -> Iterator[Step]:
    """The lines of a mail server to a client that sends none."""
    yield b"500 5.5.1 Command unrecognized\r\n"


ANSWERS: dict[str, Answer] = {
    "page": page,
    "fit": fit,
    "short": short,
    "empty": empty,
    "think": think,
    "think-body": think_body,
    "chunked": chunked,
    "small-writes": small_writes,
    "drip": drip,
    "flush": flush,
    "silent": silent,
    "trickle": trickle,
    "to-path": to_path,
    "to-www": to_www,
    "to-https": to_https,
    "to-cookie": to_cookie,
    "chain": chain,
    "loop": loop,
    "reset": reset,
    "reset-body": reset_body,
    "close": close,
    "slow-close": slow_close,
    "head-only": head_only,
    "http10": http10,
    "huge-head": huge_head,
    "not-http": not_http,
}
