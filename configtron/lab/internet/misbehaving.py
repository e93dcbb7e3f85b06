# SPDX-License-Identifier: MIT
"""What the lab's misbehaving servers do, and what is then true: one row a misbehaviour.

Question   Does a prober stay right, or honestly silent, where a server answers in an unusual way?
Method     A site of the program "odd" does one thing of this table, by seed; all else about it is drawn as for any
           site. `servers/odd.py` does it with the real TCP stack and the real OpenSSL.
Reads as   `bound`: the answer may end, or pause, before the window does, so "at least n" is all that must be reported;
           `clear`: reasons with which what needs a page in clear may be missing; `secure`, `unsettled`: those with
           which what needs TLS, or SETTINGS, must be; `instead`: values unlike a well-behaved server's.
Source     Servers met by web measurements: RFC 9110 and 9112 (redirects, lengths, HTTP/1.0), RFC 9113 (frames),
           RFC 8701 (GREASE), RFC 8446 section 6 (alerts).

Pure: rows go to the server as JSON (`row`), to the oracle as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from configtron.lab.internet.shares import ENABLE_PUSH, MAX_CONCURRENT_STREAMS
from configtron.model.nouns import Value

Pairs = tuple[tuple[int, int], ...]
# A frame as servers/odd.py reads it: its kind, and its content.
Frame = tuple[object, ...]
# (announced settings, the amount) -> (frames sent first, frames before the answer to the first request).
Frames = Callable[[Pairs, int], tuple[tuple[Frame, ...], tuple[Frame, ...]]]

VERSIONS = ("1.0", "1.1", "1.2", "1.3")
# Alerts (RFC 8446 section 6, RFC 7301 section 3.2).
HANDSHAKE_FAILURE, INTERNAL_ERROR, UNRECOGNIZED_NAME, NO_APPLICATION_PROTOCOL = 40, 80, 112, 120
# Two of those reserved to keep clients used to what they do not know (RFC 8701), a newer one that is known (RFC 8441),
# and one that is not registered.
GREASE_SETTINGS = ((0x1A1A, 0xDEAD), (0x8, 1), (0xFAFA, 0), (0x4242, 7))
# Added to the first value of a setting that is sent twice; the last one counts (RFC 9113 section 6.5.3).
SECOND_VALUE_MORE = 28
# GOAWAY codes that servers send (RFC 9113 section 7): no error, protocol error, enhance your calm, HTTP/1.1 required.
GOAWAY_CODES = (0, 1, 11, 13)
# The answer of an HTTP/1 server to HTTP/2's preface.
H1_WORDS = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """One row. The first part is what the server does (`servers/odd.py`, `Site`), the second what is then true."""

    note: str
    amounts: tuple[float, ...] = (0.0,)
    accept: str = "serve"
    at_tls: str = "serve"
    answer: str = "page"
    versions: tuple[str, str] = ("1.2", "1.3")
    alpn: bool = True
    alert: int = 0
    frames: Frames | None = None
    leaves: str = ""
    http_version: str = ""

    bound: bool = False
    clear: tuple[str, ...] = ()
    secure: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    instead: dict[str, Value] = field(default_factory=dict)

    @property
    def speechless(self) -> bool:
        """Whether no byte ever comes in clear text."""
        return self.accept in ("reset", "silent") or self.answer in ("silent", "reset", "close")


def _first(*frames: Frame) -> Frames:
    """These frames instead of a greeting."""
    return lambda pairs, amount: (frames, ())


def _goaway_first(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("goaway", amount),), ()


def _goaway_second(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("settings", pairs), ("goaway", amount)), ()


def _goaway_asked(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("settings", pairs),), (("goaway", amount),)


def _later(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("settings", pairs),), (("settings", ((MAX_CONCURRENT_STREAMS, amount),)),)


def _greased(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("settings", (GREASE_SETTINGS[0], *pairs, *GREASE_SETTINGS[1:])),), ()


def _twice(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    streams = dict(pairs)[MAX_CONCURRENT_STREAMS]
    return (("settings", (*pairs, (MAX_CONCURRENT_STREAMS, streams + SECOND_VALUE_MORE))),), ()


def _pushing(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("settings", (*(pair for pair in pairs if pair[0] != ENABLE_PUSH), (ENABLE_PUSH, 1))),), ()


def _update_first(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("window-update", 1 << 20), ("settings", pairs)), ()


def _ping_first(pairs: Pairs, amount: int) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    return (("ping",), ("settings", pairs)), ()


# Reasons for which nothing is found where a connection stood and carried nothing of use.
MUTE = ("no-data",)
GONE = ("reset", "closed", "no-data")
# After a reset nothing is repeated; a lone byte that comes late may be a repeat itself.
CUT, LONE = (*GONE, "no-repeat"), (*MUTE, "unclear:slow-answer")
TLS_GONE = ("reset", "closed")
NO_HTTP = ("not-http",)
OUT_OF_ORDER = ("h2:first-frame-not-settings",)
NO_SETTINGS = ("h2:no-settings", "closed")

MISBEHAVIOURS: dict[str, Misbehaviour] = {
    # Answers that end before the window does.
    "short-page": Misbehaviour("a page below any window", (200,), answer="short", bound=True),
    "short-404": Misbehaviour("not found, in few words", (404,), answer="short", bound=True),
    "short-503": Misbehaviour("unavailable, in few words", (503,), answer="short", bound=True),
    "empty-body": Misbehaviour("a body of no bytes", answer="empty", bound=True),
    "head-only": Misbehaviour("a head that promises a body that never comes", answer="head-only", bound=True),
    "exact-fit": Misbehaviour("an answer exactly as long as the window", answer="fit", bound=True),
    "fit-less-one": Misbehaviour("one byte shorter than the window", (-1,), answer="fit", bound=True),
    "fit-and-one": Misbehaviour("one byte longer than the window", (1,), answer="fit", bound=True),
    "slow-close": Misbehaviour("a short page, closed late", (0.15, 0.5, 2), answer="slow-close", bound=True),
    # Answers at a pace of their own.
    "think": Misbehaviour("silence before the answer", (0.05, 0.3, 1, 3), answer="think"),
    "think-body": Misbehaviour("silence between head and body", (0.03, 0.15, 0.6, 3), answer="think-body", bound=True),
    "chunked": Misbehaviour("a chunk at a time", answer="chunked"),
    "small-writes": Misbehaviour("many small writes", answer="small-writes"),
    "drip": Misbehaviour("a few bytes now and then", (0.02, 0.1, 0.4), answer="drip", bound=True),
    "flush": Misbehaviour("some segments now and then", (0.05, 0.1, 0.25), answer="flush", bound=True),
    "tar-pit": Misbehaviour("accepts and never answers, nor shakes hands", accept="silent", at_tls="silent",
                            clear=MUTE, secure=MUTE),
    "no-answer": Misbehaviour("takes the request and says nothing", answer="silent", clear=MUTE),
    "tar-drop": Misbehaviour("a byte every five seconds", answer="trickle", bound=True, clear=LONE),
    # Answers that point elsewhere.
    "to-path": Misbehaviour("the page is on another path", answer="to-path"),
    "to-www": Misbehaviour("the page is on another host", answer="to-www"),
    "to-https": Misbehaviour("the page is behind TLS", answer="to-https", bound=True),
    "to-cookie": Misbehaviour("the page is for those who keep a cookie", answer="to-cookie", bound=True),
    "redirects": Misbehaviour("more redirects than one should follow", answer="chain", bound=True),
    "loop": Misbehaviour("redirects in a circle", answer="loop", bound=True),
    # No answer.
    "reset-accept": Misbehaviour("resets what it accepts", accept="reset", clear=GONE),
    "reset-request": Misbehaviour("resets instead of answering", answer="reset", clear=GONE),
    "reset-body": Misbehaviour("resets within the answer", (100, 1000, 4000), answer="reset-body", bound=True,
                               clear=CUT),
    "close-request": Misbehaviour("closes instead of answering", answer="close", clear=GONE),
    # Answers in another language.
    "mail": Misbehaviour("a mail server on the web's port", accept="banner", bound=True, clear=NO_HTTP),
    "no-http": Misbehaviour("an answer that is not HTTP", answer="not-http", bound=True, clear=NO_HTTP),
    "http-1.0": Misbehaviour("HTTP/1.0", answer="http10", instead={"http_clear": "http/1.0"}),
    "huge-head": Misbehaviour("a head of 16 kB", answer="huge-head"),
    # TLS.
    "tls-failure": Misbehaviour("alert handshake_failure", alert=HANDSHAKE_FAILURE,
                                secure=("tls:alert-handshake-failure",)),
    "tls-internal": Misbehaviour("alert internal_error", alert=INTERNAL_ERROR, secure=("tls:alert-internal-error",)),
    "tls-name": Misbehaviour("alert unrecognized_name", alert=UNRECOGNIZED_NAME,
                             secure=("tls:alert-unrecognized-name",)),
    "tls-protocol": Misbehaviour("alert no_application_protocol", alert=NO_APPLICATION_PROTOCOL,
                                 secure=("tls:alert-no-application-protocol",)),
    "tls-no-alpn": Misbehaviour("TLS that leaves ALPN unanswered", alpn=False, secure=("tls:no-alpn",)),
    "tls-not": Misbehaviour("HTTP in clear on TLS's port", at_tls="clear", secure=("tls:not-tls",)),
    "tls-silent": Misbehaviour("never answers a ClientHello", at_tls="silent", secure=MUTE),
    "tls-reset": Misbehaviour("resets before TLS", at_tls="reset", secure=TLS_GONE),
    "tls-close": Misbehaviour("closes at a ClientHello", at_tls="close", secure=TLS_GONE),
    "tls-1.0": Misbehaviour("TLS 1.0 and nothing newer", versions=("1.0", "1.0"), http_version="http/1.1"),
    "tls-1.2": Misbehaviour("TLS 1.2 only", versions=("1.2", "1.2")),
    "tls-1.3": Misbehaviour("TLS 1.3 only", versions=("1.3", "1.3")),
    # HTTP/2.
    "h2-grease": Misbehaviour("settings that nobody knows", frames=_greased, http_version="h2"),
    "h2-twice": Misbehaviour("a setting said twice", frames=_twice, http_version="h2"),
    "h2-push": Misbehaviour("a server that allows push", frames=_pushing, http_version="h2"),
    "h2-empty": Misbehaviour("SETTINGS without a setting", frames=_first(("settings", ())), http_version="h2"),
    "h2-later": Misbehaviour("other SETTINGS after a request", (7,), frames=_later, http_version="h2"),
    "h2-goaway": Misbehaviour("GOAWAY after its SETTINGS", GOAWAY_CODES, frames=_goaway_second, leaves="greeting",
                              http_version="h2"),
    "h2-goaway-asked": Misbehaviour("GOAWAY instead of an answer", GOAWAY_CODES, frames=_goaway_asked, leaves="request",
                                    http_version="h2"),
    "h2-goaway-first": Misbehaviour("GOAWAY instead of SETTINGS", GOAWAY_CODES, frames=_goaway_first, leaves="greeting",
                                    unsettled=("h2:goaway-{amount:g}",), http_version="h2"),
    "h2-update-first": Misbehaviour("WINDOW_UPDATE before its SETTINGS", frames=_update_first, unsettled=OUT_OF_ORDER,
                                    http_version="h2"),
    "h2-ping-first": Misbehaviour("PING before its SETTINGS", frames=_ping_first, unsettled=OUT_OF_ORDER,
                                  http_version="h2"),
    "h2-no-settings": Misbehaviour("no SETTINGS of its own", frames=_first(), unsettled=(*OUT_OF_ORDER, *NO_SETTINGS),
                                   http_version="h2"),
    "h2-mute": Misbehaviour("agrees to HTTP/2 and says nothing", frames=_first(), leaves="mute", unsettled=NO_SETTINGS,
                            http_version="h2"),
    "h2-http1": Misbehaviour("agrees to HTTP/2 and speaks HTTP/1", frames=_first(("text", H1_WORDS)), leaves="greeting",
                             unsettled=(*OUT_OF_ORDER, *NO_SETTINGS), http_version="h2"),
}  # fmt: skip
# What a server without a row does.
PLAIN = Misbehaviour("nothing unusual")


def names() -> tuple[str, ...]:
    """Return every misbehaviour with each of its amounts: "think:0.3", or just "loop" where there is but one."""
    return tuple(
        f"{name}:{amount:g}" if len(misbehaviour.amounts) > 1 else name
        for name, misbehaviour in MISBEHAVIOURS.items()
        for amount in misbehaviour.amounts
    )


def named(impairment: str) -> tuple[Misbehaviour, float]:
    """Return the row behind a name of `names`, and its amount. Any other name is a server that behaves well."""
    name, _, amount = impairment.partition(":")
    misbehaviour = MISBEHAVIOURS.get(name, PLAIN)
    return misbehaviour, float(amount) if amount else misbehaviour.amounts[0]


def settings(impairment: str, pairs: Pairs) -> Pairs:
    """Return the first SETTINGS that such a server announces, when `pairs` are those of a plain one."""
    misbehaviour, amount = named(impairment)
    if misbehaviour.frames is None:
        return pairs
    first, _ = misbehaviour.frames(pairs, int(amount))
    return next((_pairs(frame) for frame in first if frame[0] == "settings"), ())


def _pairs(frame: Frame) -> Pairs:
    """Return the pairs of a SETTINGS frame."""
    return frame[1]  # type: ignore[return-value]


def later(impairment: str, pairs: Pairs) -> tuple[Pairs, ...]:
    """Return all SETTINGS after the first one."""
    rows = [_pairs(frame) for frame in _sent_frames(impairment, pairs) if frame[0] == "settings"]
    return tuple(rows[1:])


def goaway(impairment: str, pairs: Pairs) -> int | None:
    """Return the code of the GOAWAY that such a server sends, if it sends one."""
    sent = _sent_frames(impairment, pairs)
    return next((int(str(code)) for kind, *codes in sent if kind == "goaway" for code in codes), None)


def _sent_frames(impairment: str, pairs: Pairs) -> tuple[Frame, ...]:
    """Return all frames but those of the answers, in order."""
    misbehaviour, amount = named(impairment)
    first, asked = misbehaviour.frames(pairs, int(amount)) if misbehaviour.frames is not None else ((), ())
    return (*first, *asked)


def silence_s(impairment: str) -> float:
    """Return the seconds for which such a server is silent before its answer."""
    misbehaviour, amount = named(impairment)
    return amount if misbehaviour.answer == "think" else 0.0


def versions(impairment: str) -> tuple[str, ...]:
    """Return the TLS versions that such a server speaks."""
    oldest, newest = named(impairment)[0].versions
    return VERSIONS[VERSIONS.index(oldest) : VERSIONS.index(newest) + 1]


def row(impairment: str, http_version: str, pairs: Pairs, window_update: int) -> dict[str, object]:
    """Return the fields of `servers/odd.py`'s `Site` but page, certificate and key."""
    misbehaviour, amount = named(impairment)
    greeting: tuple[Frame, ...] = (("settings", pairs), ("window-update", window_update))
    on_request: tuple[Frame, ...] = ()
    if misbehaviour.frames is not None:
        greeting, on_request = misbehaviour.frames(pairs, int(amount))
        after = next((i for i, (kind, *_) in enumerate(greeting, 1) if kind == "settings"), 0)
        if after:
            greeting = (*greeting[:after], ("window-update", window_update), *greeting[after:])
    alpn = (["h2"] if http_version == "h2" else []) + ["http/1.1"]
    tls = {
        "minimum": misbehaviour.versions[0],
        "maximum": misbehaviour.versions[1],
        "alpn": alpn if misbehaviour.alpn else [],
        "alert": misbehaviour.alert,
    }
    return {
        "accept": misbehaviour.accept, "at_tls": misbehaviour.at_tls, "answer": misbehaviour.answer, "amount": amount,
        "tls": tls, "greeting": greeting, "on_request": on_request, "leaves": misbehaviour.leaves,
    }  # fmt: skip
