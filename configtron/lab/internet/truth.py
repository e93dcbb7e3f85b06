# SPDX-License-Identifier: MIT
"""The oracle: what a prober without faults reports about each site from each region.

A setting is not yet what is seen: the kernel's own rules stand between. They are written here once, with the place
in the Linux source that makes them, so that a prober is scored against what servers do, not how they were configured.

    SYN-ACK window   segments x (announced MSS - 12 with timestamps)        tcp_minisocks.c tcp_openreq_init_rwin()
    window scale     floor(log2(largest receive buffer)) - 15               tcp_output.c tcp_select_initial_window()
    data RTO         RTT + max(rto_min, 2 RTT)                              tcp_input.c tcp_rtt_estimator()
                     from the timestamps, if the SYN-ACK was sent twice     tcp_input.c tcp_synack_rtt_meas()
                     (without them 3 s, which says nothing of the server)   tcp_metrics.c tcp_init_metrics()
    every timer      fires late by a granule of the wheel, and a tick       kernel/time/timer.c (wheel.py)
    cwnd at request  what the handshake's ACKs add                          tcp.h tcp_is_cwnd_limited() (growth.py)
    minimum RTO      twice the round trip hides a shorter one               tcp_input.c __tcp_set_rto()
    after idleness   BBR keeps its window, whatever the namespace has:      tcp.h tcp_slow_start_after_idle_check()
                     a control with cong_control is left alone

Left out: the window after the first ACK (it depends on how the stack grew its buffer) and the SYN-ACK's signature.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from configtron.lab.internet import misbehaving, provable, server_pools
from configtron.lab.internet.growth import at_request
from configtron.lab.internet.impairments import BY_NAME, Allowance
from configtron.lab.internet.links import REORDERED_LATE_MS
from configtron.lab.internet.sites import RMEM_MAX_BYTES, Internet, Plant, Region, Site, SiteServer
from configtron.lab.internet.stacks import STACKS, StackSettings
from configtron.lab.internet.wheel import late_s
from configtron.model.nouns import Value

# Two ticks of a 100 Hz kernel: one that the RTT in microseconds rounds up to, one for the tick under way.
TICKS_SLACK_S = 0.02
# A timestamps option with its padding (TCPOLEN_TSTAMP_ALIGNED).
TIMESTAMPS_BYTES = 12
# The window field has 16 bits, and a SYN-ACK's is never scaled (RFC 7323 section 2.2).
WINDOW_FIELD_MAX = 65535

# Fields of a server that truth files and recordings call otherwise: older files must open.
FIELDS_IN_FILES = {"impairment": "trouble"}
# Knob -> settings identifier.
SETTING_KNOBS = {
    "h2_header_table_size": 1,
    "h2_enable_push": 2,
    "h2_max_concurrent_streams": 3,
    "h2_initial_window_size": 4,
    "h2_max_frame_size": 5,
    "h2_max_header_list_size": 6,
}
# Without a round trip from the handshake (RFC 6298 section 5.7), and the window of a route that has none of its own
# (include/net/tcp.h, TCP_INIT_CWND), which is also where an idle connection starts again.
FALLBACK_RTO_S, DEFAULT_WINDOW = 3.0, 10
# What a listening socket's buffer of 128 KiB holds, half of it being overhead (tcp_input.c tcp_full_space()).
FREE_SPACE_BYTES = 65536
# Why load balancing is unknown where the page ends before servers with other windows could be distinguished.
UNSEEN = ("unclear:few-connections",)
# Why an HTTP/2 knob has no value: the server speaks none, or leaves the setting out (the value "absent").
NOT_H2, NOT_ANNOUNCED = "not-h2", "not-announced"
# Knobs that are fields of StackSettings.
YES_OR_NO = ("ecn", "sack", "timestamps", "tfo")
KNOBS = (
    "icw", "icw_tls", "cwnd_at_request", "synack_rto", "synack_backoff", "synack_retries", "synack_end",
    "synack_duplicates", "syn_cookies",
    "data_rto", "min_rto", "rwin", "rwin_ts", "wscale", "stack", "ecn", "sack", "timestamps", "tfo",
    "slow_start_after_idle", "load_balancing", "http_version", "http_clear", "h2c", "tls_versions",
    *SETTING_KNOBS, "h2_settings", "h2_window_update", "h2_reserved", "h2_later_settings", "h2_goaway",
)  # fmt: skip
H2_KNOBS = (*SETTING_KNOBS, *(knob for knob in KNOBS if knob.startswith("h2_") and knob not in SETTING_KNOBS))
# As the programs come: nginx 1.22 names no 1.3 by default; at Debian's security level none speaks less than 1.2.
TLS_VERSIONS = {
    "nginx": ("1.2",), "apache": ("1.2", "1.3"), "h2lib": ("1.2", "1.3"), "node": ("1.2", "1.3"),
}  # fmt: skip
# IANA's registry "HTTP/2 Settings"; of what is not in it, RFC 8701's (0x0a0a, 0x1a1a, ...) go by one name.
REGISTERED, GREASE = frozenset((*range(1, 7), 8, 9, 16)), "grease"
# RFC 9113 section 7, in the order of the codes.
GOAWAYS = (
    "no-error", "protocol-error", "internal-error", "flow-control-error", "settings-timeout", "stream-closed",
    "frame-size-error", "refused-stream", "cancel", "compression-error", "connect-error", "enhance-your-calm",
    "inadequate-security", "http-1-1-required",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expectation:
    """What may be reported.

    values     any of these is right; empty when there is nothing to report
    tolerance  a number may be larger by this share of it, and by `slack` in its unit; smaller only by `slack`
    bound      the answer ends before the window does: also right is "at least n" with n up to the value
    least      with `bound`, the largest n that the answer can prove: a smaller one claims less than could be proven
    reasons    no value is right as well, or alone, for a reason that fits one of these (* as in file names)
    """

    values: tuple[Value, ...] = ()
    tolerance: float = 0.0
    slack: float = 0.0
    bound: bool = False
    least: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def edges(self) -> tuple[Value, ...]:
        """The largest number that is right for each value; none where only the value itself is."""
        if not (self.tolerance or self.slack):
            return ()
        numbers = (value for value in self.values if isinstance(value, int | float))
        return tuple(value * (1 + self.tolerance) + self.slack for value in numbers)

    @property
    def reason(self) -> str:
        """The reasons for no value, in words."""
        return " or ".join(self.reasons)

    def admits(self, value: Value | None, *, lower_bound: bool = False, reason: str = "") -> bool:
        """Return whether a reported value (None: nothing was found, for that reason) is right."""
        if value is None:
            return any(fnmatchcase(reason, pattern) for pattern in self.reasons)
        return any(self._is(wanted, value, lower_bound) for wanted in self.values)

    def _is(self, wanted: Value, value: Value, lower_bound: bool) -> bool:
        if isinstance(wanted, str | bool | tuple) or isinstance(value, str | bool | tuple):
            return not lower_bound and wanted == value
        if lower_bound:
            return self.bound and value <= wanted
        return wanted - self.slack <= value <= wanted * (1 + self.tolerance) + self.slack


def oracle(internet: Internet, region: str, host: str) -> dict[str, Expectation]:
    """Knob -> expectation, for every knob of KNOBS."""
    site, server = internet.site(host), internet.server(region, host)
    rtt_s = internet.region(region).rtt_ms / 1000
    first, *others = (_face(site.program_of(face), face, rtt_s) for face in server.faces)
    for other in others:
        first = {knob: _either(expected, other[knob]) for knob, expected in first.items()}
    if internet.reorder_percent:
        # the handshake's packets may both be late, and Linux's timer is three round trips
        timer = first["data_rto"]
        first["data_rto"] = replace(timer, slack=timer.slack + 6 * REORDERED_LATE_MS / 1000)
    return _amended(first, BY_NAME[server.impairment].allowed) if server.impairment else first


def _face(program: str, server: SiteServer, rtt_s: float) -> dict[str, Expectation]:
    """Without what an impairment changes."""
    return _transport(program, server, rtt_s) | _version(program, server) | _settings(program, server)


def _either(one: Expectation, other: Expectation) -> Expectation:
    """Return the expectation where connections meet either server: right of one, no answer where one has none."""
    if one == other:
        return one
    return replace(
        one,
        values=tuple(dict.fromkeys((*one.values, *other.values))),
        bound=one.bound or other.bound,
        least=min((each.least for each in (one, other) if each.values), default=0),
        reasons=tuple(dict.fromkeys((*one.reasons, *other.reasons))),
    )


def _amended(expected: dict[str, Expectation], honest: Sequence[Allowance]) -> dict[str, Expectation]:
    """Return the same with what an impairment changes."""
    for line in honest:
        for knob in filter(line.fits, expected):
            old = expected[knob]
            # a probe that ends for an impairment never sees what else is missing
            before = () if line.values == () else old.reasons
            expected[knob] = replace(
                old,
                values=(*(old.values if line.values is None else line.values), *line.also),
                bound=old.bound or line.bound,
                reasons=tuple(dict.fromkeys((*before, *line.reasons))),
            )
    return expected


def _transport(program: str, server: SiteServer, rtt_s: float) -> dict[str, Expectation]:
    # no region is so near that a prober would hold back its ACK to seem farther away (a test compares)
    data_rto_s = rtt_s + max(server.rto_min_ms / 1000, 2 * rtt_s)
    odd, short, bbr = program == "odd", provable.is_short(server), server.congestion_control == "bbr"
    windows = _windows(program, server, server.icw, data_rto_s, rtt_s)
    asked = tuple(
        dict.fromkeys(
            then
            for grown in at_request(server.icw, bbr=bbr)
            for then in _windows(program, server, grown, data_rto_s, rtt_s)
        )
    )
    over_tls = provable.bound(server, min(asked), data_rto_s, mss=provable.REQUEST_MSS, odd=odd)
    return {
        "icw": Expectation(windows, bound=short, least=provable.bound(server, min(windows), data_rto_s, odd=odd)),
        # a certificate is shorter than many windows
        "icw_tls": Expectation((server.icw,), bound=True, least=provable.certificate_bound(server, server.icw)),
        "cwnd_at_request": Expectation(asked, bound=short, least=over_tls),
        "synack_rto": _timer(server.synack_rto_ms / 1000),
        "synack_backoff": Expectation(("exponential",)),
        "synack_retries": Expectation((server.synack_retries,)),
        "synack_end": Expectation(("silence",)),
        "synack_duplicates": Expectation((0,)),
        "data_rto": _timer(data_rto_s),
        "min_rto": _min_rto(server.rto_min_ms / 1000, rtt_s),
        # where no connection shows a whole window, a second one would not be seen
        "load_balancing": Expectation(("one",), reasons=UNSEEN if short else ()),
        "stack": Expectation(("one",)),
    } | _features(program, server)


def _timer(timer_s: float) -> Expectation:
    """One that never fires early, and late as the wheel has it."""
    return Expectation((timer_s,), late_s(timer_s) / timer_s, TICKS_SLACK_S)


def _windows(program: str, server: SiteServer, window: int, rto_s: float, rtt_s: float) -> tuple[int, ...]:
    """Windows at the first data: a server that thinks is idle, and halves what is above its default for each timeout.

    tcp_output.c tcp_cwnd_restart(); not with BBR, which controls its own window (tcp_slow_start_after_idle_check()).
    """
    idle_s = misbehaving.silence_s(server.impairment) if program == "odd" else 0.0
    if server.congestion_control == "bbr":
        return (window,)
    # between a timer that is late, or never learned the round trip, and a request that came late
    slowest_s = FALLBACK_RTO_S if server.synack_rto_ms / 1000 < rtt_s else rto_s + late_s(rto_s) + TICKS_SLACK_S
    least, most = (max(math.ceil(s) - 1, 0) for s in (idle_s / slowest_s, (idle_s + rtt_s + TICKS_SLACK_S) / rto_s))
    floor = min(window, DEFAULT_WINDOW)
    times = range(least, (most if idle_s else 0) + 1)
    return tuple(dict.fromkeys(max(window >> n, floor) for n in times))


def _min_rto(min_s: float, rtt_s: float) -> Expectation:
    """Twice the round trip hides a shorter minimum: the timer is the same whatever the minimum is.

    One that is longer by less than a timer may be late can be found, but need not: the wheel is unknown from outside.
    """
    timer = _timer(rtt_s + min_s)
    tolerance, hidden = late_s(rtt_s + min_s) / min_s, ("unclear:long-path",)
    if 2 * rtt_s >= min_s:
        return Expectation(reasons=hidden)
    near = rtt_s + min_s <= 3 * rtt_s + late_s(3 * rtt_s)
    # Linux's sum has to be shown at two round trips first: a verdict that it is not shown is allowed.
    reasons = (*(hidden if near else ()), "unclear:one-round-trip")
    return replace(timer, values=(min_s,), tolerance=tolerance, reasons=reasons)


def _features(program: str, server: SiteServer) -> dict[str, Expectation]:
    """Return the knobs that the namespace decides, and windows, whose arithmetic depends on it."""
    stack = STACKS[server.stack]
    restarts = stack.slow_start_after_idle and server.congestion_control != "bbr"
    stamped_mss = server.advmss - TIMESTAMPS_BYTES * stack.timestamps
    scale = RMEM_MAX_BYTES[program].bit_length() - 1 - 15
    answers = {name: Expectation(("yes" if getattr(stack, name) else "no",)) for name in YES_OR_NO}
    return answers | {
        "syn_cookies": Expectation(("yes" if stack.cookies else "no",)),
        "slow_start_after_idle": Expectation(("on" if restarts else "off",)),
        "rwin": Expectation((_window(server, server.advmss, stack),)),
        "rwin_ts": Expectation((_window(server, stamped_mss, stack),)),
        "wscale": Expectation((scale,)) if stack.scaling else Expectation(reasons=(NOT_ANNOUNCED,)),
    }


def _version(program: str, server: SiteServer) -> dict[str, Expectation]:
    versions = misbehaving.versions(server.impairment) if program == "odd" else TLS_VERSIONS[program]
    return {
        "tls_versions": Expectation((versions,)),
        "http_version": Expectation((server.http_version,)),
        "http_clear": Expectation(("http/1.1",)),
        "h2c": Expectation(("accepted" if server.h2c else "not-accepted",)),
    }


def _settings(program: str, server: SiteServer) -> dict[str, Expectation]:
    if server.http_version != "h2":
        return {knob: Expectation(reasons=(NOT_H2,)) for knob in H2_KNOBS}
    announced = server_pools.settings(program, server)
    values = dict(announced)
    absent = Expectation(reasons=(NOT_ANNOUNCED,))
    single = {knob: Expectation((values[id_],)) if id_ in values else absent for knob, id_ in SETTING_KNOBS.items()}
    increment = server_pools.window_update(program)
    code = misbehaving.goaway(server.impairment, announced) if program == "odd" else None
    found: dict[str, Value | None] = {
        "h2_settings": announced,
        "h2_window_update": increment or None,
        "h2_reserved": _reserved(announced) or None,
        "h2_later_settings": (misbehaving.later(server.impairment, announced) if program == "odd" else ()) or None,
        "h2_goaway": None if code is None else GOAWAYS[code],
    }
    return single | {knob: absent if value is None else Expectation((value,)) for knob, value in found.items()}


def _reserved(announced: Sequence[tuple[int, int]]) -> tuple[Value, ...]:
    """Identifiers that IANA does not know, each once."""
    strange = [id_ for id_, _ in announced if id_ not in REGISTERED]
    return tuple(dict.fromkeys(GREASE if id_ & 0xFF == id_ >> 8 and id_ & 0xF == 0xA else id_ for id_ in strange))


def _window(server: SiteServer, mss: int, stack: StackSettings) -> int:
    """In a SYN-ACK. A SYN that a cookie answers belongs to no listener, so no sock_ops program hears of it."""
    packets = FREE_SPACE_BYTES // mss if stack.cookies else server.rwin_packets
    return min(packets * mss, WINDOW_FIELD_MAX)


def to_json(internet: Internet) -> str:
    """Return the whole truth as a file's text; the same internet gives the same bytes."""
    return json.dumps(file_row(asdict(internet)), indent=1, sort_keys=True) + "\n"


def file_row(row: Any) -> Any:
    """Return `asdict` of an Internet, a site or a server with the names that files have for its fields."""
    if isinstance(row, dict):
        return {FIELDS_IN_FILES.get(name, name): file_row(value) for name, value in row.items()}
    return [file_row(each) for each in row] if isinstance(row, tuple | list) else row


def from_json(text: str) -> Internet:
    """Return the internet that `to_json` wrote."""
    row = json.loads(text)
    return Internet(
        row["seed"],
        tuple(Region(**region) for region in row["regions"]),
        tuple(
            Site(
                site["host"], site["provider"], site["program"], tuple(_server_of(server) for server in site["servers"])
            )
            for site in row["sites"]
        ),
        tuple(Plant(**plant) for plant in row["plants"]),
        row["loss_percent"],
        row["reorder_percent"],
        tuple(row["versions"]),
        # truths written before there were duplicates
        row.get("duplicate_percent", 0.0),
    )


def _server_of(row: dict[str, Any]) -> SiteServer:
    extra = tuple((id_, value) for id_, value in row["extra_settings"])
    other = _server_of(row["other"]) if row["other"] else None
    names = {in_file: field for field, in_file in FIELDS_IN_FILES.items()}
    named = {names.get(name, name): value for name, value in row.items()}
    return SiteServer(**{**named, "extra_settings": extra, "other": other})
