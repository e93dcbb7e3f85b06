# SPDX-License-Identifier: MIT
"""What can go wrong between a prober and a server: a table of shares of sites and of the verdicts allowed then.

Question   How does a site misbehave, and what is an honest verdict about it?
Method     With impairments, each site has at most one, by seed: a row of IMPAIRMENTS sets fields of its servers, or has
           a part of the laboratory treat its addresses specially, and names the knobs whose truth changes with it.
Truth      A row's `allowed` amends the oracle of the same server without the impairment (truth.py). Knobs that no line
           of it names keep their truth in full: an impairment excuses nothing that it does not touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from configtron.lab.internet import misbehaving
from configtron.lab.internet.middlebox import MiddleboxRule
from configtron.lab.internet.mixes import OTHER_PROGRAM, ServerMix
from configtron.lab.internet.sites import Site
from configtron.model.nouns import Value


@dataclass(frozen=True, slots=True)
class Allowance:
    """Verdicts that are right besides, for some knobs.

    knobs    names, with * as in file names, parted by spaces; several lines may fit one knob and are applied in order
    values   the right values, instead of those without the impairment; (): there is nothing to find
    also     values that are right besides
    bound    "at least n" is right as well, for any n up to a right value
    reasons  no value is right as well, for any of these reasons (* as above)
    """

    knobs: str
    values: tuple[Value, ...] | None = None
    also: tuple[Value, ...] = ()
    bound: bool = False
    reasons: tuple[str, ...] = ()

    def fits(self, knob: str) -> bool:
        """Return whether this line is about that knob."""
        return any(fnmatchcase(knob, pattern) for pattern in self.knobs.split())


@dataclass(frozen=True, slots=True)
class Impairment:
    """One way to be difficult.

    name      as in `Server.impairment`
    share     per cent of the sites that get it, if so many can have it
    note      what happens
    fields    what it sets in each of the site's servers
    program   the server program that the site moves to; "" leaves it where it is
    only      the programs whose sites can have it; () is all
    only_h2   whether only sites that agree to HTTP/2 can have it
    middlebox what a middlebox before its addresses does
    mix       what the other server behind each address is, if there are two
    allowed   verdicts that are right with it
    """

    name: str
    share: float
    note: str
    fields: tuple[tuple[str, int | str | bool], ...] = ()
    program: str = ""
    only: tuple[str, ...] = ()
    only_h2: bool = False
    middlebox: MiddleboxRule | None = None
    mix: ServerMix | None = None
    allowed: tuple[Allowance, ...] = ()

    def suits(self, site: Site) -> bool:
        """Return whether that site can have it."""
        agrees = not self.only_h2 or all(server.http_version == "h2" for server in site.servers)
        return agrees and (not self.only or site.program in self.only)


# Knobs that need any data from the server, and the reasons for which data never came.
DATA_KNOBS = "icw* cwnd_at_request data_rto min_rto slow_start_after_idle http_version http_clear h2c h2_* tls_versions"
# Knobs that need data to be sure of, and may be reported without.
WHO_KNOBS = "ecn stack load_balancing tfo"
SILENCE = ("no-data", "synack-repeated")
# Knobs that need a page in clear, TLS, or HTTP/2.
CLEAR_KNOBS = f"icw cwnd_at_request data_rto min_rto slow_start_after_idle http_clear h2c {WHO_KNOBS}"
TLS_KNOBS = "http_version h2_*"
# What hangs on the server's first frame being its SETTINGS; a GOAWAY does not.
FIRST_SETTINGS = "h2_[!g]*"
# The reason for every HTTP/2 knob where TLS negotiated no protocol.
NOT_AGREED = "not-h2"
# A prober that meets one of two servers only saw no mixture: a reason is right, "one" is not.
MIXED = (Allowance("load_balancing", values=("mixed",), reasons=("unclear:*",)),)
NO_DATA = (Allowance(DATA_KNOBS, values=(), reasons=SILENCE), Allowance(WHO_KNOBS, reasons=(*SILENCE, "unclear:*")))
# Each thing that a misbehaving server does, with each amount: about 30 % of the sites in all.
ODD_SHARE = 0.4


def _odd() -> Iterator[Impairment]:
    """Yield a row for each thing that misbehaving servers do (misbehaving.py), and each amount."""
    for name in misbehaving.names():
        misbehaviour, _ = misbehaving.named(name)
        fields = (("http_version", misbehaviour.http_version),) if misbehaviour.http_version else ()
        yield Impairment(name, ODD_SHARE, misbehaviour.note, fields, program="odd", allowed=tuple(_allowances(name)))


def _allowances(name: str) -> Iterator[Allowance]:
    misbehaviour, amount = misbehaving.named(name)
    if misbehaviour.bound:
        yield Allowance("icw cwnd_at_request", bound=True)
    if misbehaviour.clear:
        yield Allowance(CLEAR_KNOBS, reasons=misbehaviour.clear)
    if misbehaviour.speechless:
        yield Allowance("icw http_clear", values=(), reasons=misbehaviour.clear)
    if misbehaviour.clear and misbehaviour.secure:
        # no byte of data, on any port
        yield Allowance("data_rto min_rto slow_start_after_idle cwnd_at_request", values=(), reasons=misbehaviour.clear)
    if misbehaviour.clear or misbehaviour.bound:
        # no connection shows a whole window, so a second one would not be seen
        yield Allowance("load_balancing", reasons=("unclear:few-connections",))
    if misbehaviour.secure:
        yield Allowance(TLS_KNOBS, values=(), reasons=misbehaviour.secure)
    if misbehaviour.secure and (misbehaviour.alert or misbehaviour.at_tls != "serve"):
        yield Allowance("icw_tls cwnd_at_request", values=(), reasons=misbehaviour.secure)
        # an alert may still refuse old versions by name
        yield Allowance("tls_versions", values=((),), bound=True, reasons=misbehaviour.secure)
    if misbehaviour.unsettled:
        unsettled = tuple(reason.format(amount=amount) for reason in misbehaviour.unsettled)
        yield Allowance(FIRST_SETTINGS, values=(), reasons=unsettled)
        # nor is there a GOAWAY, or none that is heard
        yield Allowance("h2_goaway", reasons=unsettled)
    if not misbehaviour.alpn:
        yield Allowance("h2_*", reasons=(NOT_AGREED,))
    for knob, value in misbehaviour.instead.items():
        yield Allowance(knob, values=(value,))


IMPAIRMENTS: tuple[Impairment, ...] = (
    # The network's.
    Impairment(
        "lossy",
        2.0,
        "one packet in twenty is lost before this server, each way",
        middlebox=MiddleboxRule(loss_per_mille=50),
    ),
    Impairment(
        "late",
        2.0,
        "one packet in twenty of the server is overtaken by those behind it",
        middlebox=MiddleboxRule(late_per_mille=50, late_ms=6),
    ),
    Impairment(
        "syn-dropped",
        1.0,
        "a filter drops every SYN",
        middlebox=MiddleboxRule(drop="syn"),
        allowed=(Allowance("*", values=(), reasons=("no-synack",)),),
    ),
    Impairment(
        "ack-dropped",
        1.0,
        "half open: a filter passes SYNs and nothing after them, so the SYN-ACK comes again and again",
        middlebox=MiddleboxRule(drop="ack"),
        allowed=NO_DATA,
    ),
    Impairment(
        "request-dropped",
        1.0,
        "half open: the connection stands, and whatever we say in it is dropped",
        middlebox=MiddleboxRule(drop="request"),
        allowed=NO_DATA,
    ),
    Impairment(
        "mss-raised",
        1.0,
        "the client's MSS arrives as 536 if it is smaller, as a SYN proxy and some stacks have it",
        middlebox=MiddleboxRule(mss_least=536),
    ),
    Impairment(
        "mss-lowered",
        1.0,
        "a tunnel's end lowers the client's MSS to 1360",
        middlebox=MiddleboxRule(mss_most=1360),
    ),
    # Proxies before the server's kernel.
    Impairment(
        "synack-twice",
        1.0,
        "each SYN-ACK comes a second time 10 ms later",
        middlebox=MiddleboxRule(copy_ms=10),
        allowed=(Allowance("synack_duplicates", values=(1,)),),
    ),
    Impairment(
        "synack-twice-later",
        1.0,
        "each SYN-ACK comes a second time 65 ms later",
        middlebox=MiddleboxRule(copy_ms=65),
        allowed=(Allowance("synack_duplicates", values=(1,)),),
    ),
    Impairment(
        "synack-linear",
        1.0,
        "the SYN-ACK comes again every second; the server's kernel, which doubles, is quick enough to be held back",
        # the kernel's own repeats, 0.41, 0.82 and 1.64 s apart, are ready before the first, second and third second
        fields=(("synack_rto_ms", 410),),
        # at three repeats the sum of its gaps stays below the steps'; the first gap is above the longest round trip
        only=("apache",),
        middlebox=MiddleboxRule(step_ms=1000),
        allowed=(Allowance("synack_rto", values=(1.0,)), Allowance("synack_backoff", values=("linear",))),
    ),
    Impairment(
        "stack-split",
        1.0,
        "another machine than the server answers SYNs: other TTL, window and order of options",
        middlebox=MiddleboxRule(rewrite=True, window=8192, ttl=128, rotate=True),
        allowed=(Allowance("rwin rwin_ts", values=(8192,)), Allowance("stack", values=("split",))),
    ),
    Impairment(
        "stack-split-near",
        1.0,
        "a machine like the server answers SYNs, some hops nearer",
        middlebox=MiddleboxRule(rewrite=True, window=5840, ttl=70),
        allowed=(Allowance("rwin rwin_ts", values=(5840,)), Allowance("stack", values=("split",))),
    ),
    Impairment(
        "zero-window",
        1.0,
        "the SYN-ACK offers no window; it opens with the first acknowledgement",
        middlebox=MiddleboxRule(rewrite=True, window=0),
        allowed=(Allowance("rwin rwin_ts", values=(0,)),),
    ),
    Impairment(
        "narrow-window",
        1.0,
        "the SYN-ACK offers 64 bytes, less than any request",
        middlebox=MiddleboxRule(rewrite=True, window=64),
        allowed=(Allowance("rwin rwin_ts", values=(64,)),),
    ),
    # Two servers behind one address.
    Impairment(
        "mixed-icw",
        1.5,
        "half of the connections meet a server with another initial window",
        mix=ServerMix("icw"),
        allowed=MIXED,
    ),
    Impairment(
        "mixed-settings",
        1.5,
        "half of the connections meet a server that announces other HTTP/2 settings",
        only_h2=True,
        mix=ServerMix("settings"),
        allowed=MIXED,
    ),
    Impairment(
        "mixed-programs",
        1.5,
        "two connections of five meet another server program",
        only=tuple(OTHER_PROGRAM),
        mix=ServerMix("program", 40),
        allowed=MIXED,
    ),
    Impairment(
        "mixed-abroad",
        2.0,
        "in one region, away from the baseline, two connections of five meet another initial window",
        mix=ServerMix("icw", 40, abroad=True),
        allowed=MIXED,
    ),
    # The server's own kernel.
    Impairment(
        "syn-cookies",
        2.0,
        "the kernel keeps nothing of a SYN: one SYN-ACK, and an MSS from a table of four",
        fields=(("stack", "cookies"),),
        only=("nginx",),
        allowed=(
            Allowance("synack_rto synack_backoff synack_retries synack_end", values=(), reasons=("no-repeat",)),
            # it does not know when its SYN-ACK left, so it has no round trip but the timestamps', whose low bits the
            # cookie takes for itself (syncookies.c, cookie_init_timestamp()): no timer of a request can be proven
            Allowance("data_rto min_rto", values=(), reasons=("unclear:syn-cookies", "synack-repeated")),
            Allowance("min_rto", reasons=("unclear:long-path",)),
        ),
    ),
    Impairment(
        "tiny-window",
        1.0,
        "the window on offer holds one segment: a long request does not fit in it",
        fields=(("rwin_packets", 1),),
    ),
    Impairment(
        "paced",
        1.0,
        "BBR with a large initial window: past ten segments the flight is spread over a third of a round trip",
        fields=(("congestion_control", "bbr"), ("icw", 45)),
        # the prober may stop at a pause that pacing made
        allowed=(Allowance("icw", bound=True),),
    ),
    *_odd(),
)
BY_NAME = {impairment.name: impairment for impairment in IMPAIRMENTS}
