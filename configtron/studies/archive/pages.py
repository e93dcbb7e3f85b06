# SPDX-License-Identifier: MIT
"""The pages of an archive: of one run, of one path, and the list of all runs with its filters.

Rules for this file: pages load nothing and run nothing (decision 0006). The filters of the list are the browser's own:
a rule of the style sheet hides every run that is not of the choice in a select. Names of paths and schemes are text of
elements; in rules and classes stand numbers alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from xml.etree.ElementTree import Element

from configtron.lab.testbed.transits import Transits
from configtron.model.errors import BadInput
from configtron.report.page.markup import add, document, el, picture, scrolled
from configtron.studies.archive.figures import over_time
from configtron.studies.archive.manifest import ANEW, MANIFEST, PACKETS, StudyRun, again, command, manifest, read
from configtron.studies.flows.packet_log import unpacked
from configtron.studies.flows.spread import ellipse
from configtron.studies.output.axes import BELOW, LEFT, Axes
from configtron.studies.output.plots import HEIGHT, TOP, WIDTH, drawn
from configtron.studies.output.results import Cloud, Scatter

DELAY, RATE = "95th percentile of one-way delay, ms", "throughput, Mbit/s"
NOTHING_LOADED = "This page loads nothing and runs nothing."
Figures = tuple[float, float, float]


def figures(run: StudyRun) -> Figures | None:
    """Return Mbit/s of all flows, mean delay in ms, mean loss; None where a flow has none. Without competing flows."""
    flows = [one for one, asked in zip(run.outcome.flows, run.trial.flows, strict=False) if not asked.rival]
    if not flows or any(flow.reason for flow in flows):
        return None
    return sum(flow.mbit for flow in flows), fmean(flow.late_ms for flow in flows), fmean(flow.loss for flow in flows)


def reason(run: StudyRun) -> str:
    """Return why a run has no figures."""
    return run.outcome.reason or next((flow.reason for flow in run.outcome.flows if flow.reason), "")


def run_page(run: StudyRun) -> str:
    """The page of one run: its figures, its time series, its manifest, and the command that makes it again."""
    body = el("main", _remade(command(run), "Make this run again, bit for bit:"))
    same = el("code", f"diff -r runs/{run.name} again-site/runs/{run.name}")
    add(body, el("p", "The same installation and kernel give the same files: compare with ", same, class_="soft"))
    add(body, scrolled(_flows(run), "Figures of each flow", "card wide"))
    if run.packets:
        names = [f"{flow.scheme} {number}" for number, flow in enumerate(run.trial.flows, 1)]
        for plot in over_time(_packets(run.packets), names, run.trial.duration_s):
            figure = el("figure", el("figcaption", el("b", plot.title)), drawn(plot))
            add(body, scrolled(figure, plot.title, "card wide"))
    add(body, _manifest(run))
    up = "../" * (run.name.count("/") + 2)
    nav = el("nav", el("a", "All runs", href=f"{up}index.html"),
             el("a", f"Path {run.path}", href=f"{up}paths/{slug(run.path)}.html"))  # fmt: skip
    header = el("header", el("h1", f"{run.scheme} over {run.path}"), el("p", _lead(run), class_="lead"), nav)
    return document(f"{run.name}: {run.study}", [header, body, el("footer", NOTHING_LOADED)])


def _packets(path: Path) -> list[Transits]:
    """Return the packets of each flow. Errors: `BadInput`, which names the file and the way on."""
    data = read(path)
    try:
        return unpacked(data)
    except BadInput as error:
        raise BadInput(f"{path}: {error}; {ANEW}") from error


def _lead(run: StudyRun) -> str:
    count = len(run.trial.flows)
    return f"{run.name}: {count} {'flow' if count == 1 else 'flows'}, {run.trial.duration_s:g} s of virtual time."


def _remade(line: str, words: str) -> Element:
    return el("p", words, el("br"), el("code", line, class_="remade"))


def _flows(run: StudyRun) -> Element:
    heads = ("flow", "scheme", "starts at s", "Mbit/s", "delay ms", "loss %", "packets sent", "why")
    body = el("tbody")
    for number, flow in enumerate(run.outcome.flows):
        cells = (number + 1, flow.scheme, f"{run.trial.flows[number].start_s:g}", f"{flow.mbit:.3f}",
                 _ms(flow.late_ms), f"{100 * flow.loss:.2f}", flow.sent, flow.reason)  # fmt: skip
        add(body, el("tr", *(el("td", str(cell)) for cell in cells)))
    return _table(heads, body)


def _ms(late: float) -> str:
    return "–" if math.isnan(late) else f"{late:.2f}"


def _table(heads: Sequence[str], body: Element) -> Element:
    return el("table", el("thead", el("tr", *(el("th", head, scope="col") for head in heads))), body)


def _manifest(run: StudyRun) -> Element:
    facts = el("dl")
    for word, value in json.loads(manifest(run)).items():
        text = value if isinstance(value, str | int) else json.dumps(value, sort_keys=True)
        add(facts, el("dt", word, class_="soft"), el("dd", el("code", str(text))))
    files = [el("a", MANIFEST, href=MANIFEST), *([el("a", PACKETS, href=PACKETS)] if run.packets else [])]
    return el("section", el("h2", "Manifest"), el("nav", *files), facts)


def slug(path: str) -> str:
    """Return a file's name for a path."""
    return "".join(letter if letter.isalnum() or letter in ".-+" else "-" for letter in path)


def path_page(path: str, found: Sequence[StudyRun]) -> str:
    """The page of one path: for each number of flows its scatter, its command and its runs."""
    body = el("main")
    for count in sorted({len(run.trial.flows) for run in found}):
        mine = [run for run in found if len(run.trial.flows) == count]
        title = "one flow" if count == 1 else f"{count} flows together"
        add(body, el("h2", title), *(_remade(line, "Make these runs again:") for line in _commands(mine)))
        figure = el("figure", el("figcaption", _WORDS), drawn(_scatter(path, title, mine)))
        add(body, scrolled(figure, f"{path}, {title}", "card wide"), scrolled(_list(mine, "../"), title, "card wide"))
    header = el("header", el("h1", path), el("nav", el("a", "All runs", href="../index.html")))
    return document(f"{path}: {found[0].study}", [header, body, el("footer", NOTHING_LOADED)])


_WORDS = "A point a run, an ellipse of one standard deviation of the runs; better is up and to the right."


def _commands(found: Sequence[StudyRun]) -> list[str]:
    """Return a command a part: parts of one path and number of flows differ in their last number."""
    parts = {run.part: run for run in found}
    return [again(run.study, run.seed, run.smoke, f"{part}/*", run.packets is not None) for part, run in parts.items()]


def _scatter(path: str, title: str, found: Sequence[StudyRun]) -> Scatter:
    clouds = []
    for scheme in dict.fromkeys(run.scheme for run in found):
        known = [got for run in found if run.scheme == scheme and (got := figures(run))]
        points = [(late, mbit) for mbit, late, _ in known]
        clouds += [Cloud(scheme, points, ellipse(points))] if points else []
    return Scatter(f"{path}, {title}", DELAY, RATE, clouds, flip_x=True)


def _list(found: Sequence[StudyRun], up: str, classes: Sequence[str] = ()) -> Element:
    heads = ("run", "path", "scheme", "flows", "Mbit/s", "delay ms", "loss %", "why")
    body = el("tbody")
    for number, run in enumerate(found):
        got = figures(run)
        cells = (f"{got[0]:.3f}", f"{got[1]:.2f}", f"{100 * got[2]:.2f}", "") if got else ("–", "–", "–", reason(run))
        link = el("a", run.name, href=f"{up}runs/{run.name}/index.html")
        row = el("tr", el("td", link), class_=classes[number] if classes else None)
        add(body, add(row, *(el("td", str(cell)) for cell in (run.path, run.scheme, len(run.trial.flows), *cells))))
    return _table(heads, body)


def index_page(title: str, found: Sequence[StudyRun]) -> str:
    """The list of all runs: filters, a scatter of the runs, a row a run."""
    choices = {
        "path": list(dict.fromkeys(run.path for run in found)),
        "scheme": sorted({run.scheme for run in found}),
        "flows": [str(count) for count in sorted({len(run.trial.flows) for run in found})],
    }
    classes = [_classes(run, choices) for run in found]
    first = found[0]
    whole = again(first.study, first.seed, first.smoke, "", any(run.packets for run in found))
    paths = el("nav", *(el("a", path, href=f"paths/{slug(path)}.html") for path in choices["path"]), aria_label="Paths")
    header = el("header", el("h1", f"Runs of {title}"), _remade(whole, f"{len(found)} runs; make all of them again:"),
                paths)  # fmt: skip
    filters = el("p", *(_select(name, values) for name, values in choices.items()), class_="filters")
    figure = el("figure", el("figcaption", "A point a run; its title is its name."), _points(found, classes))
    body = el("main", filters, scrolled(figure, "Runs", "card wide"), scrolled(_list(found, "", classes), "Runs"))
    return document(f"Runs of {title}", [header, body, el("footer", NOTHING_LOADED)], rules=_rules(choices))


def _classes(run: StudyRun, choices: dict[str, list[str]]) -> str:
    values = {"path": run.path, "scheme": run.scheme, "flows": str(len(run.trial.flows))}
    return " ".join(["run", *(f"{name}{choices[name].index(value)}" for name, value in values.items())])


def _select(name: str, values: Sequence[str]) -> Element:
    options = [el("option", value, value=f"{name}{number}") for number, value in enumerate(values)]
    return el(
        "label", f"{name} ", el("select", el("option", "all", value="all"), *options, id=name, autocomplete="off")
    )


def _rules(choices: dict[str, list[str]]) -> str:
    """Return a rule a choice: where it is made, runs of another one are hidden."""
    return "".join(
        f'body:has(#{name} option[value="{name}{number}"]:checked) .run:not(.{name}{number}) {{ display: none }}\n'
        for name, values in choices.items()
        for number in range(len(values))
    )


def _points(found: Sequence[StudyRun], classes: Sequence[str]) -> Element:
    """Every run as a point on one pair of axes, hidden with its row."""
    known = [(run, class_, got) for run, class_ in zip(found, classes, strict=True) if (got := figures(run))]
    axes = Axes.around([(late, mbit) for _, _, (mbit, late, _) in known if late > 0], WIDTH, HEIGHT, TOP, log=True,
                       flip=True)  # fmt: skip
    svg = picture(LEFT + WIDTH + 12, TOP + HEIGHT + BELOW, f"{RATE} by {DELAY}")
    axes.draw(svg, DELAY, RATE)
    for run, class_, (mbit, late, _) in known:
        x, y = axes.at(late, mbit)
        title = el("title", f"{run.name}: {mbit:.3f} Mbit/s, {late:.2f} ms")
        add(svg, el("circle", title, cx=x, cy=y, r=3, class_=f"dot s0 {class_}"))
    return svg
