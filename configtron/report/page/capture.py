# SPDX-License-Identifier: MIT
"""The page of a capture: what it holds, its connections by trouble and volume, and pictures of the worst and largest.

Rules for this file: a page opens without a network, on a telephone too, and stays below some megabytes whatever the
capture holds: `MOST_LISTED` connections are listed, `WORST` and `LARGEST` drawn, and the page says so. Its one script
sorts and filters the list; without it all rows stand there. What the capture says (names, addresses) is text only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from configtron import __version__
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports
from configtron.fingerprint.passive.summary import SIDES, scales_of
from configtron.model.wording import count_of
from configtron.report.connection_choice import REPEATS, ConnectionChoice, summed, volume
from configtron.report.connection_rows import tls_names
from configtron.report.connection_table import CAPTION, RIGHT, TABLE, table_rows
from configtron.report.connections import counted
from configtron.report.page.charts import BAR_HEIGHT, BarPart, legend, split
from configtron.report.page.course import drawn, lasting, opening
from configtron.report.page.markup import add, document, el, scrolled, short, stretched
from configtron.report.printed import shown, size
from configtron.report.slow_because import frame_name, slow_because

SCRIPT = Path(__file__).with_name("list.js")
# Connections that are listed (about 600 bytes each), and drawn (about 50 kB each at most).
MOST_LISTED, WORST, LARGEST = 1000, 30, 10
# Pictures that are open at first; round trips of an opening that has a picture of its own.
OPEN, EARLY = 3, 12
HEADS = (*TABLE, "name")
KINDS = ["num" if head in RIGHT.union(("up again", "down again", "shut", "icw")) else None for head in HEADS]
# Limits by colour: alike ones share one, and their words stand beside.
FAMILIES = {"path": ("handshake", "round-trip"), "server": ("server", "sender"), "client": ("client", "receive-window"),
            "congestion": ("congestion",), "loss": ("timeout", "tail-probe", "fast-retransmit", "loss", "path-mtu"),
            "end, unknown": ("end", "unknown")}  # fmt: skip
LINES = {"data": "new data", "acked": "acknowledged", "edge": "receive window", "flight": "in flight"}
READING = (
    "They show the direction that carried more, on one axis of time; dots are repeats, in the colour of their lane. In "
    "flight is what was sent and not acknowledged, seen where the capture stood: at the receiver it is acknowledged at "
    "once, and round trips are short. Each of 900 columns of time keeps its least and its most; no event is left out."
)


def page(
    batches: Sequence[ConnectionReports], files: Sequence[str], counts: Mapping[str, int], warnings: Sequence[str],
    choice: ConnectionChoice,
) -> str:  # fmt: skip
    """Return the whole page. batches: the chosen connections in one batch, with all their segments; or none."""
    title = f"Capture {short(', '.join(files))}"
    foot = f"configtron {__version__}: configtron fingerprint pcap -f html. This page loads nothing."
    # A long path breaks where it may.
    head = el("h1", *[part for piece in title.split("/") for part in ("/", el("wbr"), piece)][2:])
    notes = [el("p", text, class_="warn") for text in warnings]
    notes += [el("p", f"{counted(counts)}.", class_="soft"), el("footer", foot)]
    if not any(map(len, batches)):
        return document(title, [head, el("p", "No connection to show.", class_="lead"), *notes])
    (reports,) = batches
    keys = choice.keys(reports, files)
    chosen = reports.only(np.array(sorted(range(len(reports)), key=keys.__getitem__)[:MOST_LISTED]))
    largest = sorted(range(WORST, len(chosen)), key=(-volume(chosen)).__getitem__)[:LARGEST]
    places, start_ns = [*range(min(WORST, len(chosen))), *sorted(largest)], int(reports.columns["started"].min())
    span_s = (int(reports.columns["ended"].max()) - start_ns) / 1e9
    since = datetime.fromtimestamp(start_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    lead = f"{count_of(len(reports), 'connection')}, {size(int(volume(reports).sum()))}, {span_s:.1f} s from {since}."
    order = f"{choice.sort or 'worst'} first"
    shown_rows = enumerate(table_rows(chosen, len(files) > 1))
    cells = [[*row_cells, *tls_names(*chosen.read(row)[1])[2:]] for row, row_cells in shown_rows]
    listed = el("section", el("h2", "Connections", id="connections"),
                el("p", f"{order.capitalize()}: {len(chosen)} of {len(reports)}. {CAPTION}.", class_="soft"),
                *_list(cells, set(places), order))  # fmt: skip
    rest = f", and the {len(largest)} largest of the others" if largest else ""
    drawn_ = f"Drawn: {len(places) - len(largest)}, {order}{rest}. {READING}"
    key = el("ul", *(el("li", el("i", class_=kind), name) for kind, name in LINES.items()), class_="legend key")
    pictures = el("section", el("h2", "Pictures", id="pictures"), el("p", drawn_, class_="soft"), key)
    scales = scales_of(chosen.columns, chosen.columns["options_cut"] == 0)
    for place, row in zip(places, chosen.only(np.array(places)), strict=True):
        found, side = chosen.alone(place), int((row.numbers["server_bytes"] or 0) >= (row.numbers["client_bytes"] or 0))
        scale = int(scales[1 - side][place]) if found.opened.all() else -1
        early_s = EARLY * (row.numbers["rtt"] or 0.0)
        spans = [found, *([opening(found, early_s)] if 0.0 < early_s < (row.duration_s or 0.0) / 2 else [])]
        made = [None if row.clock else drawn(span, side, scale, row.numbers) for span in spans]
        add(pictures, el("details", *_picture(row, cells[place], side, *made), id=f"c{cells[place][0]}",
                         open="" if place < OPEN else None))  # fmt: skip
    nav = el("nav", el("a", "Connections", href="#connections"), el("a", "Pictures", href="#pictures"))
    head = el("header", head, el("p", lead, class_="lead"), _tiles(reports), *notes[:-1], nav)
    body = [head, el("main", listed, pictures), notes[-1]]
    return document(title, body, rules=_rules(cells), script=SCRIPT.read_text())


def _tiles(reports: ConnectionReports) -> Element:
    tiles = []
    for side in SIDES:
        sent, data, *again = (int(reports.columns[f"{side}_{name}"].sum()) for name in ("bytes", "data", *REPEATS))
        share = f"{sum(again)} of {count_of(data, 'segment')} sent again ({100 * sum(again) / max(data, 1):.2f} %)"
        tiles.append((f"{side.capitalize()}s sent", size(sent), share))
    rto, fast, shut = (int((summed(reports, name) > 0).sum()) for name in ("rto", "fast", "zero_windows"))
    every = count_of(len(reports), "connection")
    reset, left = (int((reports.endings == name).sum()) for name in ("reset", "open"))
    tiles += [("With timeouts", str(rto), f"of {every}; {fast} with fast repeats; {shut} with a closed window"),
              ("Reset", str(reset), f"of {every}; {left} open at the end")]  # fmt: skip
    if len(trips := reports.columns["rtt"][reports.columns["rtt"] > 0] / 1e9):
        middle, most = map(lasting, np.quantile(trips, (0.5, 0.95)))
        tiles.append(("Round trip", middle, f"median of handshakes; 95 % below {most}"))
    boxes = (el("div", el("dt", name), el("dd", value, el("small", words))) for name, value, words in tiles)
    return el("dl", *boxes, class_="tiles")


def _list(rows: Sequence[Sequence[str]], linked: Collection[int], order: str) -> Iterator[Element]:
    options = [el("option", order, value=-1)]
    options += [el("option", head, value=n, data_text=None if KINDS[n] else 1) for n, head in enumerate(HEADS)
                if any(row[n] for row in rows)]  # fmt: skip
    field = el("input", id="filter", type="search", placeholder="address, name, end …")
    tools = [el("label", "Filter ", field), el("label", "Sort by ", el("select", *options, id="sort"))]
    yield el("p", *tools, el("span", id="said", role="status", class_="soft"), id="tools", hidden="")
    body = el("tbody")
    for place, (frame, *cells) in enumerate(rows):
        first = el("a", frame, href=f"#c{frame}") if place in linked else frame
        others = (el("td", short(cell), class_=kind) for cell, kind in zip(cells, KINDS[1:], strict=True))
        add(body, el("tr", el("td", first, class_="num"), *others))
    heads = el("tr", *(el("th", head, scope="col", class_=kind) for head, kind in zip(HEADS, KINDS, strict=True)))
    yield scrolled(el("table", el("thead", heads), body, class_="rows list"), "Connections", "card wide")
    yield el("button", "Show more", id="more", type="button", hidden="")


def _rules(rows: Sequence[Sequence[str]]) -> str:
    """A wider page without empty columns; on a telephone each row is a card, and each cell says its column."""
    empty = (n for n, column in enumerate(zip(*rows, strict=True), 1) if not any(column))
    hidden = "".join(f"table.list :is(th, td):nth-child({n}) {{ display: none; }}\n" for n in empty)
    cells = (f'table.list td:nth-child({n})::before {{ content: "{head}: "; }}' for n, head in enumerate(HEADS, 1))
    return f"body {{ max-width: 1320px; }}\n{hidden}@media (max-width: 640px) {{\n" + "\n".join(cells) + "\n}\n"


def _picture(
    row: ConnectionReport, cells: Sequence[str], side: int, picture: Element | None, early: Element | None = None
) -> Iterator[Element]:
    """Yield what a connection's part holds: names, why it was slow, the picture and its words, the verdicts."""
    sent, again = cells[TABLE.index("down" if side else "up") :][:2]
    facts = f"{sent}{again and f', sent again {again}'} · {row.ending}"
    ends = f"{cells[0]}  {cells[1]} {'←' if side else '→'} {cells[2]} "
    yield el("summary", el("b", ends, el("small", short(cells[-1], 60))), facts)
    if row.limits:
        total, names = sum(one.ns for one in row.limits), list(FAMILIES)
        parts = [BarPart(next(n for n, name in enumerate(names) if one.limit in FAMILIES[name]), one.limit, one.ns)
                 for one in row.limits]  # fmt: skip
        spans = (f"{one.limit} {100 * one.ns / total:.1f} % ({lasting(one.ns / 1e9)}, {one.times} ×, {one.grade}"
                 f"{('', ', frame ', ', frames ')[len(one.frames)]}"
                 f"{'–'.join(frame_name(frame, int(row.numbers['frame'] or 0)) for frame in one.frames)})"
                 for one in row.limits if one.ns >= total / 1000)  # fmt: skip
        words = f"Slow because: {slow_because(row.numbers)}. It waited for {'; '.join(spans)}."
        yield el("div", legend(names), split(stretched(BAR_HEIGHT, words), "ns", parts, 0, 0.0, 100.0))
        yield el("p", words)
    if picture is None:
        yield el("p", f"No picture: {row.clock or 'no data passed, or all at one moment'}.")
    else:
        place = f" Captured {row.place if row.place == 'between' else f'at the {row.place}'}." if row.place else ""
        if side and row.place == "client" and row.limits and row.limits[0].limit in FAMILIES["loss"]:
            place = f"{place[:-1]}: lost segments did not come by; a capture at the server shows more."
        yield el("p", f"{picture.get('aria-label')}{place}")
        yield el("div", picture, class_="course")
    if early is not None:
        yield el("details", el("summary", f"The first {EARLY} round trips"), el("div", early, class_="course"))
    verdicts = "; ".join(f"{one.knob} {shown(one)}" for one in row.observations)
    yield el("p", f"Verdicts: {verdicts or 'none'}.", class_="soft")
