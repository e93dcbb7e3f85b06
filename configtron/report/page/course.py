# SPDX-License-Identifier: MIT
"""The course of a connection as a picture: what one side sent, its repeats by cause, bytes in flight, round trips.

Question   When did what go wrong, and what held the sender back?
Method     Drawings share one axis of time: bytes sent, with the other side's acknowledgements and the right edge of its
           receive window; events, a lane for each kind; bytes in flight, with the window; round trips. In each of
           `TIME_COLUMNS` columns, a line keeps its smallest, its largest and its last value, and data its lowest and
           its highest byte. An event is left out only if an equal one stands in the same column and at the same height;
           the number beside its lane counts all. The picture ends with the last data, timed acknowledgement or event.
Reads as   the view from the capture: at the receiver, bytes are acknowledged as soon as they are seen.
Fails as   None where the side sent nothing, or all at one time. No window where its scale was not captured.
Differs    from tcptrace's graphs, which have a mark for each packet: with a million packets they are solid and large.
Source     RFC 9293 3.4, RFC 7323 2.2; tcptrace, xplot (time-sequence graphs)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from xml.etree.ElementTree import Element

import numpy as np

from configtron.fingerprint.passive.columns import Column
from configtron.fingerprint.passive.connections import NEVER, Connections
from configtron.fingerprint.passive.retransmissions import HOLE, KINDS, REORDERED, retransmissions, sent_by
from configtron.fingerprint.passive.round_trips import sampled
from configtron.fingerprint.passive.summary import SIDES
from configtron.model.nouns import FIN, RST, SYN
from configtron.report.page.markup import add, el, percent, stretched
from configtron.report.page.ticks import log_ticks, ticks
from configtron.report.printed import size

# Columns of time: about a pixel each on a large screen.
TIME_COLUMNS = 900
# Pixels: heights of the drawings, of their titles, of a lane and its name, of the axis of time.
SEQUENCE, FLIGHT, TRIPS, TITLE, LANE, NAME, AXIS = 240, 110, 90, 28, 7, 20, 22
# Space above the highest value, as a factor; space on both sides of round trips, as a logarithm.
ROOM, LOG_ROOM = 1.06, 0.2
# A drawing shows at least so many bytes, so that its ticks are whole bytes.
LEAST = 5.0
# A window may make a drawing so many times as high as the bytes in flight; a larger one would press them flat.
HIGH = 2.0
# Names and classes of events, in the order of their lanes.
EVENTS = {
    "rto": ("repeat after a timeout", "e-timer"), "tlp": ("tail loss probe", "e-timer"),
    "fast": ("fast repeat", "e-fast"), "unneeded": ("repeat of acknowledged bytes", "e-other"),
    "other": ("repeat, cause not captured", "e-other"), HOLE: ("gap before the segment", "e-gap"),
    REORDERED: ("overtaken segment", "e-gap"), "opening": ("SYN or SYN-ACK again", "e-timer"),
    "closed": ("window closed", "e-window"), "reset": ("reset", "e-other"),
}  # fmt: skip
Marks = Sequence[tuple[float, str]]
Paths = Sequence[tuple[str, str]]


def drawn(found: Connections, side: int, scale: int, numbers: Mapping[str, float | None]) -> Element | None:
    """Return the picture of what a side of one connection sent, with a summary as its label; None if the side sent no
    data, or all at one time.

    side      0 client, 1 server
    scale     shift of the other side's windows; negative: unknown
    numbers   `ConnectionReport.numbers` of the connection
    """
    rows, flags, sent = found.rows, found.rows.flags, sent_by(found, found.way(side))
    at, rtt_ns = (rows.at - rows.at[0]) / 1e9, round((numbers["rtt"] or 0.0) * 1e9)
    repeats = retransmissions(found, side, sent, np.array([rtt_ns]), np.array([numbers["sack"] == 1]))
    new = np.flatnonzero((rows.length[sent.row] > 0) & ~sent.old)
    acks = np.flatnonzero((found.server != bool(side)) & (found.ack > NEVER) & ((flags & RST) == 0))
    syns = [np.flatnonzero(((flags & (SYN | RST)) == SYN) & (found.server == other))[1:] for other in (False, True)]
    events = {name: repeats.row[repeats.kind == place] for place, name in enumerate(KINDS)} | {
        "opening": np.concatenate(syns), "reset": np.flatnonzero((flags & RST) != 0),
        "closed": acks[(rows.window[acks] == 0) & ((flags[acks] & SYN) == 0)],
    }  # fmt: skip
    events = {name: events[name] for name in EVENTS if len(events[name])}
    samples = sampled(found, side, RST | SYN)
    timed = acks[:0] if samples is None else samples.acks.row
    trips = at[timed] if samples is None else at[timed] - at[samples.sent.row[samples.held]]
    span = max((float(at[row].max()) for row in (sent.row[new], timed, *events.values()) if len(row)), default=0.0)
    if not len(new) or span <= 0.0:
        return None
    top, una = np.zeros((2, rows.size), np.int64)
    # a FIN has a sequence number, and is no byte
    end = sent.end - ((flags[sent.row] & FIN) != 0)
    top[sent.row], una[acks] = end, found.ack[acks]
    top, una = np.maximum.accumulate(top), np.maximum.accumulate(una)
    flight, ends, offers = np.maximum(top - una, 0), end[new], acks if scale >= 0 else acks[:0]
    window = rows.window[offers].astype(np.int64) << np.where(flags[offers] & SYN, 0, max(scale, 0))
    words = [f"The {SIDES[side]} sent {size(int(ends.max()) - 1)} within {lasting(span)}"]
    words += [f"{len(row)} × {EVENTS[name][0]}" for name, row in events.items()]
    words.append(f"at most {size(int(flight.max()))} in flight")
    words.append(f"receive window up to {size(int(window.max()))}" if len(window) else "receive window unknown")
    if len(trips):
        words.append("round trips from {} to {}, median {}".format(*map(lasting, np.quantile(trips, (0, 1, 0.5)))))
    made = _Drawings(at, span)
    most = max(float(ends.max()), LEAST) * ROOM
    made.panel("stream", SEQUENCE, _marks(most), [
        ("edge", _line(made.x[offers], _y((found.ack[offers] + window) / most, SEQUENCE))),
        ("acked", _line(made.x[acks], _y(una[acks] / most, SEQUENCE))),
        ("data", _bars(made.x[sent.row[new]], _y(sent.start[new] / most, SEQUENCE), _y(ends / most, SEQUENCE))),
        *((EVENTS[name][1], _dots(made.x[row], _y((found.seq + rows.length)[row] / most, SEQUENCE)))
          for name, row in events.items() if name in KINDS),
    ])  # fmt: skip
    for name, row in events.items():
        x = np.unique(made.x[row])
        strokes = _bars(x, np.zeros_like(x), np.full_like(x, LANE))
        made.panel(f"{len(row)} × {EVENTS[name][0]}", LANE, [(0.0, "")], [(f"{EVENTS[name][1]} lane", strokes)], NAME)
    most = max(float(flight.max()), LEAST)
    most = ROOM * min(max(most, int(window.max(initial=0))), HIGH * most)
    made.panel("in flight, and the receive window", FLIGHT, _marks(most), [
        ("edge", _line(made.x[offers], _y(window / most, FLIGHT))),
        ("flight", _line(made.x, _y(flight / most, FLIGHT))),
    ])  # fmt: skip
    if len(trips):
        high = np.log(np.maximum(trips * 1e3, 1e-3))
        low, tall = float(high.min()) - LOG_ROOM, float(np.ptp(high)) + 2 * LOG_ROOM
        marks = [((log(ms) - low) / tall, word) for ms, word in log_ticks(exp(low), exp(low + tall))]
        y = _y((high - low) / tall, TRIPS)
        made.panel("round trips [ms], logarithmic", TRIPS, marks, [("trip", _bars(made.x[timed], y, y))])
    return made.svg("; ".join(words) + ".")


def opening(found: Connections, span_s: float) -> Connections:
    """Return the segments of one connection within its first `span_s` seconds."""
    end = int(np.searchsorted(found.rows.at, found.rows.at[0] + span_s * 1e9))
    some = {name: getattr(found, name)[:end] for name in ("of", "server", "seq", "ack")}
    return found._replace(rows=found.rows.take(np.arange(end)), end=np.array([end]), **some)


def lasting(seconds: float) -> str:
    """Return a duration as text, in s or ms."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


class _Drawings:
    """Drawings, one below the other; `x` is the column of each row of the connection."""

    def __init__(self, at: Column, span: float) -> None:
        self.x = np.clip(np.rint(at * (TIME_COLUMNS / span)), 0, TIME_COLUMNS).astype(np.int64)
        self._span, self._y, self._shapes = span, 0, list[Element]()

    def svg(self, words: str) -> Element:
        """Return them all, above an axis of time."""
        svg, many, unit = stretched(self._y + AXIS, words), *((1.0, "s") if self._span >= 1 else (1e3, "ms"))
        for tick, word in ticks(0.0, self._span * many):
            x = percent(100 * tick / many / self._span)
            add(svg, el("line", x1=x, x2=x, y1=TITLE, y2=self._y, class_="grid"),
                el("text", f"{word} {unit}", x=x, y=self._y + 16, class_="t-soft", text_anchor="middle"))  # fmt: skip
        return add(svg, *self._shapes)

    def panel(self, title: str, height: int, marks: Marks, paths: Paths, above: int = TITLE) -> None:
        """Add a drawing.

        marks   (share of the height, text)
        paths   (class, path data)
        above   pixels for the title
        """
        self._y += above
        for share, word in marks:
            y = self._y + height * (1 - share)
            self._shapes += [el("line", x1=0, x2="100%", y1=y, y2=y, class_="grid" if share else "axis"),
                             el("text", word, x=-6, y=y + 4, class_="t-soft", text_anchor="end")]  # fmt: skip
        shapes, box = [el("path", d=d, class_=kind) for kind, d in paths if d], f"0 0 {TIME_COLUMNS} {height}"
        svg = el("svg", *shapes, y=self._y, width="100%", height=height, viewBox=box, preserveAspectRatio="none")
        self._shapes += [svg, el("text", title, x=0, y=self._y - 6, class_="halo")]
        self._y += height


def _marks(most: float) -> Marks:
    """Return marks of bytes from 0 to `most`."""
    return [(tick / most, size(int(tick))) for tick, _ in ticks(0.0, most)]


def _y(share: Column, height: int) -> Column:
    """Return pixels from the top of a drawing; values outside are cut to just outside."""
    places: Column = np.rint(height * (1 - np.clip(share, -0.1, 1.1))).astype(np.int64)
    return places


def _line(x: Column, y: Column) -> str:
    """Return the path of a line in steps; in each column it keeps the smallest, the largest and the last value."""
    if not len(x):
        return ""
    begin = np.flatnonzero(np.diff(x, prepend=-1))
    stops = np.minimum.reduceat(y, begin), np.maximum.reduceat(y, begin), y[np.append(begin[1:], len(y)) - 1]
    before, now = int(x[0]), int(y[0])
    made = [f"M{before} {now}"]
    for column, *places in zip(*(part.tolist() for part in (x[begin], *stops)), strict=True):
        if any(place != now for place in places):
            made.append(f"h{column - before}")
            before = column
        for place in places:
            made.append(f"v{place - now}" if place != now else "")
            now = place
    return "".join((*made, f"H{TIME_COLUMNS}"))


def _bars(x: Column, y: Column, end: Column) -> str:
    """Return an upright line in each column, from the lowest byte to the highest; a dot where both are the same."""
    begin = np.flatnonzero(np.diff(x, prepend=-1))
    low, high = np.minimum.reduceat(np.minimum(y, end), begin), np.maximum.reduceat(np.maximum(y, end), begin)
    return _strokes(zip(x[begin].tolist(), low.tolist(), (high - low).tolist(), strict=True))


def _dots(x: Column, y: Column) -> str:
    """Return a dot at each place."""
    return _strokes((column, row, 0) for column, row in np.unique(np.stack((x, y), axis=1), axis=0).tolist())


def _strokes(strokes: Iterable[tuple[int, int, int]]) -> str:
    made, x, y = ["M0 0"], 0, 0
    for column, row, tall in strokes:
        made.append(f"m{column - x} {row - y}v{tall}")
        x, y = column, row + tall
    return "".join(made)
