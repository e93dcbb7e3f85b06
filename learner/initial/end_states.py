# SPDX-License-Identifier: MIT
"""End states of connections as numpy columns: what an initial window is learned from.

Question   How did a connection end: its largest window, its round trip, its packets, and could it have carried more?
Method     A row for each connection, from its close record (`of_records`) or from the numbers of a capture
           (`of_capture`). A window is a lower bound of what the path carries where no segment was sent again, so that
           the connection ended before it met the path's limit; where the application or the client's receive window
           was the limit for a share of at least `LIMITED_SHARE` of the time; and in every capture, which shows a rate
           and no window: rate times round trip is the mean of what was under way, and the largest window is no less.
Reads as   `EndStates`, unknown numbers NaN; `checked` counts what is left out, by reason.
Fails as   a reason for each row without use: "clock" (no wall-clock time, or one beyond `now_s`), "round-trip" (none,
           or out of bounds), "window" (out of bounds), "packets" (none, or more than can be), "prefix"
Differs    from the paper: no latitude and longitude unless a place file is given (`placed`); the place is the prefix.
           What a driver does not record (`CloseRecord`) is unknown. A profile that is no strategy's is `OTHER`.
Source     Applied Learning Networks (ALN), its record of a connection; RFC 4898 (Web100's variables)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from ipaddress import ip_network
from typing import Any

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Floats
from configtron.model.close_records import VALIDATED, CloseRecord
from configtron.model.errors import BadInput

Flags = npt.NDArray[np.bool_]
Names = npt.NDArray[np.str_]

# An initial window of Linux, segments (RFC 6928): a connection with no more packets never leaves its first flight.
DEFAULT_WINDOW = 10
# Share of a connection's life from which the application, or the client's window, counts as its limit.
LIMITED_SHARE = 0.5
# Bounds of a row. A round trip of a minute is longer than TCP's patience for a SYN; Linux's largest window is 2^30
# bytes, so fewer segments than that of 536 bytes; 2^31 packets are a terabyte.
MOST_RTT_MS, MOST_WINDOW, MOST_PACKETS = 60_000.0, float(2**30 // 536), float(2**31)
# January 1, 2001: an earlier record's clock was not set.
EARLIEST_S = 978_307_200.0
# Full segments of Ethernet with timestamps, bytes.
SEGMENT_BYTES = 1448
REASONS = ("prefix", "clock", "round-trip", "window", "packets")
# Columns that hold text or truth; all others are numbers.
TEXTS, TRUTHS = ("prefix", "strategy", "resumed"), ("bound",)
# The strategy of the untouched stack where one is drawn, and of what a person or another policy set.
UNTOUCHED, OTHER = "null", "other"


@dataclass(frozen=True, slots=True, eq=False)
class EndStates:
    """Connections that have ended, (n,) each; unknown numbers are NaN, unknown texts "".

    at_s          when it began, wall clock, s since 1970 (UTC)
    prefix        the client's, /24 or /48
    min_rtt_ms, max_rtt_ms, max_cwnd (segments), packets_in, packets_out (data segments)
    bound         max_cwnd is a lower bound of what the path would have carried
    loss          share of data segments that were sent again
    strategy      of `initial_strategies`, "" for none: the untouched stack
    propensity    chance that this strategy had
    latitude, longitude   degrees, from a place file
    resumed      what Careful Resume came to (`close_records.RESUMPTIONS`), "" for no jump
    """

    at_s: Floats
    prefix: Names
    min_rtt_ms: Floats
    max_rtt_ms: Floats
    max_cwnd: Floats
    packets_in: Floats
    packets_out: Floats
    bound: Flags
    loss: Floats
    strategy: Names
    propensity: Floats
    latitude: Floats
    longitude: Floats
    resumed: Names

    def __len__(self) -> int:
        return len(self.at_s)

    def __getitem__(self, rows: Any) -> EndStates:
        """Return these rows: an index array, a mask or a slice."""
        return EndStates(*(getattr(self, one.name)[rows] for one in fields(self)))

    @property
    def is_long(self) -> Flags:
        """Return which connections sent more than the default initial window, so that slow start mattered."""
        return self.packets_out > DEFAULT_WINDOW

    @property
    def teaches(self) -> Flags:
        """Return which connections show the path and not a choice made by what was learned: those of the untouched
        stack, held-back clients among them, and those whose jump was acknowledged without congestion."""
        untouched = np.isin(self.strategy, ("", UNTOUCHED))
        return np.asarray(self.is_long & (untouched | (self.resumed == VALIDATED)), dtype=np.bool_)

    def row(self, at: int) -> dict[str, str | bool | float | None]:
        """Return one row by column, None for unknown."""
        found: dict[str, str | bool | float | None] = {}
        for one in fields(self):
            value = getattr(self, one.name)[at].item()
            found[one.name] = None if isinstance(value, float) and np.isnan(value) else value
        return found


NAMES = tuple(one.name for one in fields(EndStates))


def of_rows(rows: Sequence[Mapping[str, Any]]) -> EndStates:
    """Return columns of rows by name; an absent name is unknown. Errors: `BadInput` for a value of another kind."""
    columns = []
    for name in NAMES:
        kind = str if name in TEXTS else bool if name in TRUTHS else float
        columns.append(np.array([_value(row, name, kind) for row in rows], dtype=np.dtype(kind)))
    return EndStates(*columns)


def places(prefixes: Sequence[str], at_s: Sequence[float]) -> EndStates:
    """Return rows that have a prefix and a time alone: what is asked of a model."""
    count = len(prefixes)
    columns: dict[str, Any] = {name: np.full(count, np.nan) for name in NAMES}
    columns |= {name: np.full(count, "") for name in TEXTS} | {name: np.zeros(count, dtype=bool) for name in TRUTHS}
    return EndStates(**columns | {"prefix": np.array(prefixes, dtype=np.str_), "at_s": np.array(at_s, dtype=float)})


def _value(row: Mapping[str, Any], name: str, kind: type) -> str | bool | float:
    value = row.get(name)
    if value is None:
        return "" if kind is str else False if kind is bool else float("nan")
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (kind is float and isinstance(value, bool)):
        raise BadInput(f"{name} of an end state is {str(value)[:40]!r}: a {kind.__name__} is wanted")
    try:
        return kind(value)  # type: ignore[no-any-return]
    except OverflowError as error:
        raise BadInput(f"{name} of an end state is out of range") from error


def joined(parts: Sequence[EndStates]) -> EndStates:
    """Return the rows of all, in order of their beginning."""
    if not parts:
        return of_rows(())
    whole = EndStates(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))
    return whole[np.argsort(whole.at_s, kind="stable")]


def end_of(record: CloseRecord, since_boot_ns: int) -> dict[str, Any]:
    """Return a close record's columns but for the strategy, None for unknown.

    since_boot_ns   wall clock less CLOCK_BOOTTIME, ns: records have no other clock
    """
    opened = record.opened
    rtt_us = record.min_rtt_us if record.min_rtt_us is not None else opened.rtt_us
    limits = (record.app_limited or 0.0, record.rwnd_limited or 0.0)
    backwards = record.end_ns < opened.start_ns
    return {
        "at_s": None if backwards else (opened.start_ns + since_boot_ns) / 1e9,
        "prefix": opened.prefix,
        "min_rtt_ms": None if rtt_us is None else rtt_us / 1e3,
        "max_rtt_ms": None if record.max_rtt_us is None else record.max_rtt_us / 1e3,
        "max_cwnd": None if record.max_cwnd is None else float(record.max_cwnd),
        "packets_in": None if record.packets_in is None else float(record.packets_in),
        "packets_out": float(record.segments),
        "bound": max(limits) >= LIMITED_SHARE or not record.retransmits,
        "loss": record.retransmits / record.segments if record.segments else None,
        "resumed": record.resumed,
    }


def of_capture(connections: Iterable[Mapping[str, Any]]) -> EndStates:
    """Return the end states of connections as `fingerprint pcap -f jsonl` writes them; addresses are cut to prefixes.

    The round trip is the handshake's. Packets in and out are the server's, as in close records.
    """
    return of_rows([_of_connection(one) for one in connections])


def _of_connection(one: Mapping[str, Any]) -> dict[str, Any]:
    client, server, handshake = (one.get(side) or {} for side in ("client", "server", "handshake"))
    rtt_s, rate = handshake.get("rtt"), server.get("goodput_kbps")
    segment = server.get("mss") or SEGMENT_BYTES
    under_way = None if rtt_s is None or rate is None else rate * 125.0 * rtt_s / segment
    return {
        "at_s": one.get("started_at"),
        "prefix": prefix_of(str(client.get("address", ""))),
        "min_rtt_ms": None if rtt_s is None else rtt_s * 1e3,
        "max_cwnd": None if under_way is None else max(under_way, 1.0),
        "packets_in": client.get("packets"),
        "packets_out": server.get("data"),
        "bound": True,
        "loss": server.get("loss"),
    }


def prefix_of(address: str) -> str:
    """Return the /24 or /48 around an address or in a longer prefix; "" for what is none."""
    try:
        network = ip_network(address, strict=False)
    except ValueError:
        return ""
    length = 24 if network.version == 4 else 48
    return str(network if network.prefixlen <= length else network.supernet(new_prefix=length))


def checked(states: EndStates, now_s: float) -> tuple[EndStates, Counter[str]]:
    """Return the rows in bounds, and how many are left out, by the first of `REASONS` that holds. Unknown windows
    stay; a place that is not on Earth becomes unknown."""
    with np.errstate(invalid="ignore"):
        faults = (
            np.array([not _is_prefix(prefix) for prefix in states.prefix.tolist()], dtype=bool),
            ~((states.at_s >= EARLIEST_S) & (states.at_s <= now_s)),
            ~((states.min_rtt_ms > 0) & (states.min_rtt_ms <= MOST_RTT_MS))
            | (states.max_rtt_ms < states.min_rtt_ms)
            | (states.max_rtt_ms > MOST_RTT_MS),
            (states.max_cwnd < 1) | (states.max_cwnd > MOST_WINDOW),
            ~((states.packets_out >= 1) & (states.packets_out <= MOST_PACKETS))
            | (states.packets_in < 0)
            | (states.packets_in > MOST_PACKETS),
        )
    first = np.full(len(states), len(faults))
    for number in range(len(faults) - 1, -1, -1):
        first[faults[number]] = number
    left_out = Counter({REASONS[at]: int((first == at).sum()) for at in range(len(faults)) if (first == at).any()})
    return _without_false_places(states[first == len(faults)]), left_out


def _is_prefix(text: str) -> bool:
    """Return whether this is a /24 or a /48, written as `prefix_of` does."""
    return text.endswith("/48" if ":" in text else "/24") and prefix_of(text) == text


def _without_false_places(states: EndStates) -> EndStates:
    """Return the same without places that are not on Earth; infinities among them."""
    with np.errstate(invalid="ignore"):
        known = (np.abs(states.latitude) <= 90) & (np.abs(states.longitude) <= 180)
    return replace(
        states, latitude=np.where(known, states.latitude, np.nan), longitude=np.where(known, states.longitude, np.nan)
    )


def placed(states: EndStates, locate: Callable[[str], tuple[float, float] | None]) -> EndStates:
    """Return the same with latitude and longitude by prefix, where `locate` knows them and they are on Earth."""
    known = {prefix: locate(prefix) for prefix in set(states.prefix.tolist())}
    places = np.array([known[prefix] or (np.nan, np.nan) for prefix in states.prefix.tolist()]).reshape(-1, 2)
    return _without_false_places(replace(states, latitude=places[:, 0], longitude=places[:, 1]))
