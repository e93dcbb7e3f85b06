# SPDX-License-Identifier: MIT
"""What can go wrong between a prober and a server, as a table: which share of sites has it, and what may be said then.

Question   How does a site misbehave, and what is an honest verdict about it?
Method     With troubles, each site has at most one, by seed: a row of TROUBLES sets fields of its servers, or has a
           part of the laboratory treat its addresses specially, and names the knobs whose truth changes with it.
Truth      A row's `honest` amends the oracle of the same server without the trouble (truth.py). Knobs that no line of
           it names keep their truth in full: a trouble excuses nothing that it does not touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from configtron.lab import oddities
from configtron.lab.box import Rule
from configtron.lab.mixes import OTHER_PROGRAM, Mix
from configtron.lab.sites import Site
from configtron.model.nouns import Value


@dataclass(frozen=True, slots=True)
class Honest:
    """What else may be said of some knobs.

    knobs    names, with * as in file names, parted by spaces; several lines may fit one knob and are applied in order
    values   the right values, instead of those without the trouble; (): there is nothing to find
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
        """Whether this line is about that knob."""
        return any(fnmatchcase(knob, pattern) for pattern in self.knobs.split())


@dataclass(frozen=True, slots=True)
class Trouble:
    """One way to be difficult.

    name      as in `Server.trouble`
    share     per cent of the sites that get it, if so many can have it
    note      what happens
    fields    what it sets in each of the site's servers
    program   the server program that the site moves to; "" leaves it where it is
    only      the programs whose sites can have it; () is all
    only_h2   whether only sites that agree to HTTP/2 can have it
    box       what a middlebox before its addresses does
    mix       what the other server behind each address is, if there are two
    honest    what may be said
    """

    name: str
    share: float
    note: str
    fields: tuple[tuple[str, int | str | bool], ...] = ()
    program: str = ""
    only: tuple[str, ...] = ()
    only_h2: bool = False
    box: Rule | None = None
    mix: Mix | None = None
    honest: tuple[Honest, ...] = ()

    def suits(self, site: Site) -> bool:
        """Whether that site can have it."""
        agrees = not self.only_h2 or all(server.http_version == "h2" for server in site.servers)
        return agrees and (not self.only or site.program in self.only)


# Knobs that need any data from the server, and what can be said of data that never came.
DATA_KNOBS = "icw* cwnd_at_request data_rto min_rto slow_start_after_idle http_version http_clear h2c h2_* tls_versions"
# Knobs that need data to be sure of, and may be told without.
WHO_KNOBS = "ecn stack load_balancing tfo"
SILENCE = ("no-data", "synack-repeated")
# Knobs that need a page in clear, TLS, or HTTP/2.
CLEAR_KNOBS = f"icw cwnd_at_request data_rto min_rto slow_start_after_idle http_clear h2c {WHO_KNOBS}"
TLS_KNOBS = "http_version h2_*"
# What hangs on the server's first frame being its SETTINGS; a GOAWAY does not.
FIRST_SETTINGS = "h2_[!g]*"
# What is said of HTTP/2 where TLS leaves open what is spoken.
NOT_AGREED = "not-h2"
# Who sees one of two servers only has seen no mixture: a reason is honest, "one" is not.
MIXED = (Honest("load_balancing", values=("mixed",), reasons=("unclear:*",)),)
# Each thing that an odd server does, with each amount: about 30 % of the sites in all.
ODD_SHARE = 0.4


def _odd() -> Iterator[Trouble]:
    """What the odd servers do (oddities.py), a row for each thing and amount."""
    for name in oddities.names():
        oddity, _ = oddities.named(name)
        fields = (("http_version", oddity.http_version),) if oddity.http_version else ()
        yield Trouble(name, ODD_SHARE, oddity.note, fields, program="odd", honest=tuple(_honest(name)))


def _honest(name: str) -> Iterator[Honest]:
    oddity, amount = oddities.named(name)
    if oddity.bound:
        yield Honest("icw cwnd_at_request", bound=True)
    if oddity.clear:
        yield Honest(CLEAR_KNOBS, reasons=oddity.clear)
    if oddity.speechless:
        yield Honest("icw http_clear", values=(), reasons=oddity.clear)
    if oddity.clear and oddity.secure:
        # no byte of data, on any port
        yield Honest("data_rto min_rto slow_start_after_idle cwnd_at_request", values=(), reasons=oddity.clear)
    if oddity.clear or oddity.bound:
        # no connection shows a whole window, so a second one would not be seen
        yield Honest("load_balancing", reasons=("unclear:few-connections",))
    if oddity.secure:
        yield Honest(TLS_KNOBS, values=(), reasons=oddity.secure)
    if oddity.secure and (oddity.alert or oddity.at_tls != "serve"):
        yield Honest("icw_tls cwnd_at_request", values=(), reasons=oddity.secure)
        # an alert may still refuse old versions by name
        yield Honest("tls_versions", values=((),), bound=True, reasons=oddity.secure)
    if oddity.unsettled:
        unsettled = tuple(reason.format(amount=amount) for reason in oddity.unsettled)
        yield Honest(FIRST_SETTINGS, values=(), reasons=unsettled)
        # nor is there a GOAWAY, or none that is heard
        yield Honest("h2_goaway", reasons=unsettled)
    if not oddity.alpn:
        yield Honest("h2_*", reasons=(NOT_AGREED,))
    for knob, value in oddity.instead.items():
        yield Honest(knob, values=(value,))


TROUBLES: tuple[Trouble, ...] = (
    # The network's.
    Trouble(
        "lossy",
        2.0,
        "one packet in twenty is lost before this server, each way",
        box=Rule(loss_per_mille=50),
    ),
    Trouble(
        "late",
        2.0,
        "one packet in twenty of the server is overtaken by those behind it",
        box=Rule(late_per_mille=50, late_ms=6),
    ),
    Trouble(
        "syn-dropped",
        1.0,
        "a filter drops every SYN",
        box=Rule(drop="syn"),
        honest=(Honest("*", values=(), reasons=("no-synack",)),),
    ),
    Trouble(
        "ack-dropped",
        1.0,
        "half open: a filter passes SYNs and nothing after them, so the SYN-ACK comes again and again",
        box=Rule(drop="ack"),
        honest=(Honest(DATA_KNOBS, values=(), reasons=SILENCE), Honest(WHO_KNOBS, reasons=(*SILENCE, "unclear:*"))),
    ),
    Trouble(
        "request-dropped",
        1.0,
        "half open: the connection stands, and whatever we say in it is dropped",
        box=Rule(drop="request"),
        honest=(Honest(DATA_KNOBS, values=(), reasons=SILENCE), Honest(WHO_KNOBS, reasons=(*SILENCE, "unclear:*"))),
    ),
    Trouble(
        "mss-raised",
        1.0,
        "the client's MSS arrives as 536 if it is smaller, as a SYN proxy and some stacks have it",
        box=Rule(mss_least=536),
    ),
    Trouble(
        "mss-lowered",
        1.0,
        "a tunnel's end lowers the client's MSS to 1360",
        box=Rule(mss_most=1360),
    ),
    # Proxies before the server's kernel.
    Trouble(
        "synack-twice",
        1.0,
        "each SYN-ACK comes a second time 10 ms later",
        box=Rule(copy_ms=10),
        honest=(Honest("synack_duplicates", values=(1,)),),
    ),
    Trouble(
        "synack-twice-later",
        1.0,
        "each SYN-ACK comes a second time 65 ms later",
        box=Rule(copy_ms=65),
        honest=(Honest("synack_duplicates", values=(1,)),),
    ),
    Trouble(
        "synack-linear",
        1.0,
        "the SYN-ACK comes again every second; the server's kernel, which doubles, is quick enough to be held back",
        # the kernel's own repeats, 0.41, 0.82 and 1.64 s apart, are ready before the first, second and third second
        fields=(("synack_rto_ms", 410),),
        # at three repeats the sum of its gaps stays below the steps'; the first gap is above the longest round trip
        only=("apache",),
        box=Rule(step_ms=1000),
        honest=(Honest("synack_rto", values=(1.0,)), Honest("synack_backoff", values=("linear",))),
    ),
    Trouble(
        "stack-split",
        1.0,
        "another machine than the server answers SYNs: other TTL, window and order of options",
        box=Rule(rewrite=True, window=8192, ttl=128, rotate=True),
        honest=(Honest("rwin rwin_ts", values=(8192,)), Honest("stack", values=("split",))),
    ),
    Trouble(
        "stack-split-near",
        1.0,
        "a machine like the server answers SYNs, some hops nearer",
        box=Rule(rewrite=True, window=5840, ttl=70),
        honest=(Honest("rwin rwin_ts", values=(5840,)), Honest("stack", values=("split",))),
    ),
    Trouble(
        "zero-window",
        1.0,
        "the SYN-ACK offers no window; it opens with the first acknowledgement",
        box=Rule(rewrite=True, window=0),
        honest=(Honest("rwin rwin_ts", values=(0,)),),
    ),
    Trouble(
        "narrow-window",
        1.0,
        "the SYN-ACK offers 64 bytes, less than any request",
        box=Rule(rewrite=True, window=64),
        honest=(Honest("rwin rwin_ts", values=(64,)),),
    ),
    # Two servers behind one address.
    Trouble(
        "mixed-icw",
        1.5,
        "half of the connections meet a server with another initial window",
        mix=Mix("icw"),
        honest=MIXED,
    ),
    Trouble(
        "mixed-settings",
        1.5,
        "half of the connections meet a server that announces other HTTP/2 settings",
        only_h2=True,
        mix=Mix("settings"),
        honest=MIXED,
    ),
    Trouble(
        "mixed-programs",
        1.5,
        "two connections of five meet another server program",
        only=tuple(OTHER_PROGRAM),
        mix=Mix("program", 40),
        honest=MIXED,
    ),
    Trouble(
        "mixed-abroad",
        2.0,
        "in one region, away from the baseline, two connections of five meet another initial window",
        mix=Mix("icw", 40, abroad=True),
        honest=MIXED,
    ),
    # The server's own kernel.
    Trouble(
        "syn-cookies",
        2.0,
        "the kernel keeps nothing of a SYN: one SYN-ACK, and an MSS from a table of four",
        fields=(("stack", "cookies"),),
        only=("nginx",),
        honest=(
            Honest("synack_rto synack_backoff synack_retries synack_end", values=(), reasons=("no-repeat",)),
            # it does not know when its SYN-ACK left, so it has no round trip but the timestamps', whose low bits the
            # cookie takes for itself (syncookies.c, cookie_init_timestamp()): no timer of a request can be proven
            Honest("data_rto min_rto", values=(), reasons=("unclear:syn-cookies", "synack-repeated")),
            Honest("min_rto", reasons=("unclear:long-path",)),
        ),
    ),
    Trouble(
        "tiny-window",
        1.0,
        "the window on offer holds one segment: a long request does not fit in it",
        fields=(("rwin_packets", 1),),
    ),
    Trouble(
        "paced",
        1.0,
        "BBR with a large initial window: past ten segments the flight is spread over a third of a round trip",
        fields=(("congestion_control", "bbr"), ("icw", 45)),
        # the prober may stop at a pause that pacing made
        honest=(Honest("icw", bound=True),),
    ),
    *_odd(),
)
BY_NAME = {trouble.name: trouble for trouble in TROUBLES}
