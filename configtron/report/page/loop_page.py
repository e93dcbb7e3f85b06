# SPDX-License-Identifier: MIT
"""The page of a closed loop: what the map gains over the control group, who gets what and why, and what may be wrong.

Rules for this file: each measured number stands with its interval and the loads that it rests on; where data do not
allow one, a reason stands in its place. The page loads nothing and runs nothing, and can be read on a telephone.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np

from configtron.learner.outcome_arms import GoalInterval
from configtron.learner.rollout import WHY
from configtron.learner.sequential.differences import REASONS
from configtron.learner.sequential.sample_ratio import ERROR as RATIO_ERROR
from configtron.report.fleet_inputs import AgentLine, PlaceEffects, PrefixLine, ReportInputs, ShareSpan
from configtron.report.page.charts import COLORS, BarPart, legend, shares
from configtron.report.page.forest import ForestRow, forest
from configtron.report.page.markup import add, document, el, parts_of, reading_section, scrolled, short
from configtron.report.page.to_go import to_go

TITLES = {"median": "median page load time", "p95": "95th percentile of page load time", "failures": "failed loads"}
DEFAULT = "Default"
LOOP_ALONE = (
    "This report is of the live loop (configtron learn serve); of imported outcomes: configtron learn status,"
    " configtron learn evaluate."
)
READING = (
    ("Control group", "clients that keep Default in every epoch, assigned by a keyed hash, the same on every server. "
     "All others are called tuned here, whether or not their class has profiles. A profile default equals Default."),
    ("Interval", "95 %, and it may be read at any time: of reports that are read again and again one in twenty is ever "
     "wrong, goal by goal. Clients count once an epoch, and prefixes together, however many loads they have."),
    ("p95", "of all loads; one that failed is slower than all others, so killing connections makes no page faster."),
    ("Not shown", "an interval that has 0 inside shows no difference; it does not show that there is none."),
    ("Sample ratio", f"below p = {RATIO_ERROR:g} clients of some profile are missing, and no difference is claimed."),
    ("To go", "loads that are missing before two groups can be compared, at least: taken to grow as they did so far. "
     "The rate is that of the last day; a time has one digit, since a rate is not known better."),
)  # fmt: skip


def render(inputs: ReportInputs, *, refresh_s: int = 0) -> str:
    """Return the whole page; the same inputs give the same bytes. refresh_s: as of `document`."""
    sections = [
        _effects(inputs),
        _rollout(inputs),
        _sees(inputs),
        _prefixes(inputs),
        _shares(inputs.shares),
        _drift(inputs),
        _quality(inputs),
        _decisions(inputs),
        _agents(inputs.agents),
        reading_section(READING),
    ]
    foot = f"configtron {inputs.version}: configtron learn report. This page loads nothing and runs nothing."
    parts = [*parts_of(_headline(inputs), sections), el("footer", foot)]
    return document("configtron: the closed loop", parts, refresh_s=refresh_s)


# Rows of a table that stand open; the others are folded.
OPEN_ROWS = 12
# How heads of columns begin whose cells are counts, of class num.
COUNTS = "Loads", "Prefixes"

# --- what is claimed -------------------------------------------------------------------------------------------------


def verdict(inputs: ReportInputs) -> str:
    """Return what the data show of p95, the median and failures; what is not known stands in one sentence a reason."""
    if not inputs.effects or not inputs.quality.counted:
        return f"Nothing is claimed: no load counts yet. {LOOP_ALONE}"
    if inputs.quality.ratio.p < RATIO_ERROR:
        return "Nothing is claimed: the sample ratio is broken, clients of some profile are missing (see Data quality)."
    every = {one.found.goal.name: one for one in inputs.effects[0].goals}
    goals = [every[name] for name in ("p95", "median", "failures") if name in every]
    words = [_claim(one, inputs) for one in goals if not one.found.reason]
    for reason in dict.fromkeys(one.found.reason for one in goals if one.found.reason):
        alike = [one.found for one in goals if one.found.reason == reason]
        titles = ", ".join(TITLES[found.goal.name] for found in alike)
        missing = f"{REASONS[reason]}; {to_go(alike[0], inputs.loads_an_hour)}"
        words.append(f"{titles[0].upper()}{titles[1:]}: not known yet, {missing}.")
    return " ".join(words)


def is_checked(inputs: ReportInputs) -> bool:
    """Return whether the sample ratio could be compared, and is in order: else nothing is claimed."""
    ratio = inputs.quality.ratio
    return ratio.units > 0 and ratio.p >= RATIO_ERROR


def _claim(one: GoalInterval, inputs: ReportInputs) -> str:
    found, name = one.found, TITLES[one.found.goal.name]
    name = name[0].upper() + name[1:]
    if found.doubt:
        return f"{name}: {difference_text(one)}, but no claim: the clients of {found.prefixes} prefixes are too few."
    if one.low <= 0.0 <= one.high:
        return f"{name}: no difference is shown ({difference_text(one)})."
    if not is_checked(inputs):
        return f"{name}: {difference_text(one)}, but no claim: the sample ratio is unknown (see Data quality)."
    better = "lower" if one.high < 0.0 else "higher"
    return f"{name}: {better} than in the control group, {difference_text(one)}."


def claims_something(one: GoalInterval) -> bool:
    """Return whether a goal's interval excludes zero and nothing is in doubt."""
    return not one.found.reason and not one.found.doubt and not one.low <= 0.0 <= one.high


def difference_text(one: GoalInterval) -> str:
    """Return a difference with its interval."""
    if one.found.reason:
        return "unknown"
    ends = [_change(value, one) for value in (one.found.estimate, one.low, one.high)]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"


def _change(value: float, one: GoalInterval) -> str:
    if one.found.goal.share == 1.0:
        return f"{100 * value:+.2f} points"
    return f"{100 * np.expm1(min(value, 7.0)):+.1f} %"


def _headline(inputs: ReportInputs) -> Element:
    header = el("header", el("h1", "What the map gains"), el("p", verdict(inputs), class_="lead"))
    when = f"Loads from {inputs.first_at} to {inputs.last_at}" if inputs.first_at else "No loads"
    add(header, el("p", f"{when}; {inputs.source}, read at {inputs.made_at}.", class_="soft"))
    for note in inputs.notes:
        add(header, el("p", note, class_="warn"))
    tiles = el("dl", class_="tiles")
    quality, agents = inputs.quality, [one for one in inputs.agents if not one.revoked]
    p95 = (
        next((one for one in inputs.effects[0].goals if one.found.goal.name == "p95"), None) if inputs.effects else None
    )
    latest, when = (inputs.decisions[-1].place, inputs.decisions[-1].made_at) if inputs.decisions else ("none", "never")
    current = sum(one.holds == latest for one in agents)
    hosts = ("hosts with the latest map", f"{current} of {len(agents)}", f"map {latest}")
    for name, number, small in (
        ("p95 against the control group", *_tile(p95, inputs)),
        ("loads that count", f"{quality.counted}", f"of {quality.rows} rows; {quality.lost} lost"),
        hosts if agents else ("latest map", latest, f"published: {when}"),
        ("roll-out", *_stage(inputs)),
    ):
        add(tiles, el("div", el("dt", name), el("dd", number, el("small", small))))
    return add(header, tiles)


def _tile(one: GoalInterval | None, inputs: ReportInputs) -> tuple[str, str]:
    if one is None:
        return "unknown", "no loads"
    if one.found.reason:
        return "unknown", to_go(one.found, inputs.loads_an_hour)
    if not claims_something(one):
        return "not shown", difference_text(one)
    return _change(one.found.estimate, one) if is_checked(inputs) else "not claimed", difference_text(one)


def _stage(inputs: ReportInputs) -> tuple[str, str]:
    """Return the stage of the roll-out, and whom it reaches."""
    if inputs.rollout is not None:
        return inputs.rollout.stage, f"{100 * inputs.rollout.share:g} % of clients"
    if inputs.staged:
        return "none", "stages are on, no map is on its way"
    return ("off", "each map is for all clients at once") if inputs.decisions else ("none", "no map is published yet")


# --- effects ---------------------------------------------------------------------------------------------------------


def _effects(inputs: ReportInputs) -> Element:
    section = el("section", el("h2", "Effect against the control group", id="effect"))
    if not inputs.effects:
        return add(section, el("p", "No load counts yet.", class_="soft"))
    words = "Tuned less control group; to the left of the line pages load faster. Each bar is a 95 % interval."
    add(section, el("p", words, class_="soft"))
    for goal in ("p95", "median"):
        found = [(place, one) for place in inputs.effects for one in place.goals if one.found.goal.name == goal]
        rows = [ForestRow(_named(place), difference_text(one), one.found.estimate, one.low, one.high)
                for place, one in found if not one.found.reason]  # fmt: skip
        if rows:
            add(section, el("h3", TITLES[goal].capitalize()))
            add(section, scrolled(forest(TITLES[goal], rows), TITLES[goal], "card wide"))
    table = _effect_table(inputs.effects, marks=is_checked(inputs))
    # The reasons of all clients stand at the top.
    above = {one.found.reason for one in inputs.effects[0].goals}
    more = {one.found.reason for place in inputs.effects for one in place.goals} - above
    for reason in sorted(more - {""}):
        add(section, el("p", f"Unknown of some: {REASONS[reason]}.", class_="soft"))
    add(section, scrolled(table, "Effects as numbers", "card wide"))
    if inputs.switchback is not None:
        add(section, _switchback(inputs))
    return section


def _named(place: PlaceEffects) -> str:
    return "all clients" if place.kind == "all" else f"{place.kind} {place.name or '(none)'}"


def _effect_table(effects: Sequence[PlaceEffects], *, marks: bool) -> Element:
    heads = ("Clients", "Goal", "Control group", "Tuned", "Difference", "Loads (clients), control group",
             "Loads (clients), tuned")  # fmt: skip
    body = el("tbody")
    for place in effects:
        known, unknown = ([one for one in place.goals if bool(one.found.reason) == not_known] for not_known in (0, 1))
        for alike in (*([one] for one in known), *([unknown] if unknown else [])):
            add(body, _effect_row(_named(place), alike, marks=marks))
    note = "Loads, and in brackets clients, each counted once an epoch. Marked: worse than the control group."
    return el("table", el("caption", note), _heads(heads), body)


def _effect_row(clients: str, alike: Sequence[GoalInterval], *, marks: bool) -> Element:
    """Return the row of a goal, or of all goals of the same clients that are not known."""
    one, shown = alike[0], difference_text(alike[0])
    worse = marks and claims_something(one) and one.low > 0.0
    cells = [el("td", ", ".join(each.found.goal.name for each in alike)), *(_level(one, group) for group in (0, 1)),
             el("td", el("b", shown, class_="t-hit") if worse else shown, class_="differs")]  # fmt: skip
    cells += [el("td", f"{one.found.loads[group]} ({one.found.units[group]})", class_="num") for group in (0, 1)]
    return el("tr", el("th", clients, scope="row"), *cells)


def _level(one: GoalInterval, group: int) -> Element:
    level, low, high = one.found.level[group], one.level_low[group], one.level_high[group]
    if not np.isfinite(level) or one.found.reason:
        return el("td", "unknown")
    if one.found.goal.share == 1.0:
        return el("td", f"{100 * level:.2f} % ", el("small", f"[{100 * low:.2f}, {100 * high:.2f}]"), class_="differs")
    return el("td", f"{level:.0f} ms ", el("small", f"[{low:.0f}, {high:.0f}]"), class_="differs")


def _switchback(inputs: ReportInputs) -> Element:
    found = inputs.switchback
    assert found is not None
    if found.reason:
        words = f"By dark hours: unknown after {found.days} days ({found.reason})."
    else:
        low, middle, high = (f"{100 * np.expm1(value):+.1f} %" for value in (found.low, found.estimate, found.high))
        words = (
            f"By dark hours (whole points of presence without tuning, {found.days} days, {found.loads} loads): "
            f"{middle} [{low}, {high}] of the mean. Clients that share a bottleneck interfere: only this shows it."
        )
    return el("p", words)


# --- the roll-out ----------------------------------------------------------------------------------------------------


def _rollout(inputs: ReportInputs) -> Element | None:
    if inputs.rollout is None:
        return None
    rollout = inputs.rollout
    words = (
        f"Version {_place(rollout.version)} after {_place(rollout.previous)}: {rollout.stage}, "
        f"{100 * rollout.share:g} % of clients outside the control group."
    )
    section = el("section", el("h2", "Roll-out", id="rollout"), el("p", words))
    if rollout.suspended:
        add(section, el("p", f"Suspended: {rollout.suspended}.", class_="warn"))
    body = el("tbody")
    for row in rollout.evidence:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in row.numbers)
        where = " ".join(filter(None, (row.goal, row.place and f"at host {row.place}")))
        cells = (row.stage, WHY[row.why], where, numbers)
        add(body, el("tr", el("th", str(row.number), scope="row"), *(el("td", cell) for cell in cells)))
    table = el("table", _heads(("Row", "Stage", "Why", "Goal", "Evidence")), body)
    return add(section, scrolled(table, "Roll-out", "card wide"))


def _sees(inputs: ReportInputs) -> Element | None:
    """What a canary can see, before it starts."""
    if not inputs.sees:
        return None
    words = (
        f"With {inputs.plan.clients} clients in either group (each counted once an epoch), spread as those above are. "
        "The gate lets a version on whose harm is shown to be below the margin; an equal one passes it with a "
        "probability of 80 % where the margin is at least what the gate can see. The alarm finds harm of the size "
        "beside it as often."
    )
    section = el("section", el("h2", "What a canary can see", id="sees"), el("p", words, class_="soft"))
    margins, rows = dict(inputs.plan.margins), []
    for one in inputs.sees:
        form = "{:.2f} points" if one.goal == "failures" else "{:.1f} %"
        sizes = (one.gate, margins[one.goal], one.alarm)
        shown = (form.format(100 * (value if one.goal == "failures" else np.expm1(value))) for value in sizes)
        rows.append((one.goal, *shown, f"{one.units * (one.gate / margins[one.goal]) ** 2:.0f}"))
    heads = ("Goal", "Gate can see", "Margin of the plan", "Alarm can see", "Clients for the margin")
    return add(section, _table(heads, rows, "Smallest effects that are found with a probability of 80 %."))


def _place(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# --- who gets what ---------------------------------------------------------------------------------------------------


def _prefixes(inputs: ReportInputs) -> Element:
    section = el("section", el("h2", "Prefixes, classes, profiles", id="prefixes"))
    if not inputs.prefixes:
        return add(section, el("p", "No load of a prefix yet.", class_="soft"))
    more = f" {inputs.prefixes_more} prefixes with fewer loads are left out." if inputs.prefixes_more else ""
    note = f"Shares of clients by the latest map that loads had; profiles that no load had yet are left out.{more}"
    add(section, el("p", note, class_="soft"))
    first, rest = inputs.prefixes[:OPEN_ROWS], inputs.prefixes[OPEN_ROWS:]
    for lines in (first, rest):
        body = el("tbody", *(_prefix(line) for line in lines))
        table = el("table", _heads(("Prefix", "Class", "Profiles", "Why", "Loads")), body)
        framed = scrolled(table, "Prefixes, classes, profiles", "card wide")
        if lines is first:
            add(section, framed)
        elif lines:
            add(section, el("details", el("summary", f"{len(lines)} more prefixes"), framed))
    return section


def _prefix(line: PrefixLine) -> Element:
    drawn = ", ".join(f"{short(name or DEFAULT, 40)} {100 * share:.1f} %" for name, share in line.arms) or DEFAULT
    cells = (el("td", line.class_name or "none"), el("td", drawn, class_="host"), el("td", line.why, class_="host"))
    return el("tr", el("th", line.prefix or "unknown", scope="row"), *cells, el("td", str(line.loads), class_="num"))


def _shares(spans: Sequence[ShareSpan]) -> Element | None:
    if not spans:
        return None
    total: dict[str, int] = {}
    for span in spans:
        for name, count in span.units.items():
            total[name] = total.get(name, 0) + count
    ranks = {name: n for n, name in enumerate(sorted(total, key=lambda one: (-total[one], one))[: COLORS - 1])}
    rows = []
    for span in spans:
        ranked = [BarPart(ranks[n], n or DEFAULT, c) for n, c in sorted(span.units.items()) if n in ranks]
        others = sum(count for name, count in span.units.items() if name not in ranks)
        parts = sorted(ranked, key=lambda part: part.color)
        rows.append((span.label, [*parts, *([BarPart(COLORS - 1, "other", others)] if others else [])]))
    rest = f"{len(total) - len(ranks)} other profiles" if len(total) > len(ranks) else ""
    words = "Clients, each counted once an epoch, by the profile that they had first; at the right, how many."
    section = el("section", el("h2", "Profiles over time", id="shares"), el("p", words, class_="soft"))
    return add(section, el("div", legend((name or DEFAULT for name in ranks), rest), shares(rows), class_="card"))


def _drift(inputs: ReportInputs) -> Element:
    section = el("section", el("h2", "Drift", id="drift"))
    if not inputs.drift:
        return add(section, el("p", "No change of a prefix's network in the rows that were read.", class_="soft"))
    rows = [(one.prefix, one.since, one.seen, str(one.outcomes)) for one in inputs.drift]
    heads = ("Prefix", "Changed", "Seen", "Outcomes until then")
    return add(section, _table(heads, rows, "Prefixes whose round trips changed, the latest change of each."))


# --- data quality ----------------------------------------------------------------------------------------------------


def _quality(inputs: ReportInputs) -> Element:
    quality, ratio = inputs.quality, inputs.quality.ratio
    section = el("section", el("h2", "Data quality", id="quality"))
    if not ratio.units:
        why = "no propensity is logged, or no class of a map has enough clients"
        words = f"Sample ratio: unknown, and nothing is claimed: {why}."
    else:
        state = "broken: nothing is claimed" if ratio.p < RATIO_ERROR else "in order"
        words = f"Sample ratio: {state} (p = {ratio.p:.2g} over {ratio.units} clients, failed loads counted)."
    add(section, el("p", words, class_="warn" if ratio.units and ratio.p < RATIO_ERROR else "soft"))
    aside = sum(quality.aside.values())
    share = f" ({100 * aside / quality.rows:.1f} %)" if quality.rows else ""
    words = f"Loads that count: {quality.counted}; set aside: {aside}{share}; rows lost: {quality.lost}."
    add(section, el("p", words))
    rows = [(reason, str(count)) for reason, count in sorted(quality.aside.items(), key=lambda pair: (-pair[1], pair))]
    return (
        add(section, _table(("Set aside because", "Rows"), rows, "Reasons that agents reported.")) if rows else section
    )


def _decisions(inputs: ReportInputs) -> Element:
    section = el("section", el("h2", "Decisions", id="decisions"))
    if not inputs.decisions:
        return add(section, el("p", "No map was published yet.", class_="soft"))
    body = el("tbody")
    for one in reversed(inputs.decisions):
        command = el("code", one.rollback) if one.rollback else "not kept any more"
        cells = (el("td", one.made_at), el("td", one.why), el("td", str(one.prefixes), class_="num"), el("td", command))
        add(body, el("tr", el("th", one.place, scope="row"), *cells))
    heads = ("Map", "Published", "Why", "Prefixes", "To put it in force again")
    return add(section, scrolled(el("table", _heads(heads), body), "Decisions", "card wide"))


def _agents(agents: Sequence[AgentLine]) -> Element:
    section = el("section", el("h2", "Agents", id="agents"))
    if not agents:
        words = "No agent is enrolled. A single host (learn serve --local) needs none."
        return add(section, el("p", words, class_="soft"))
    rows = [
        (one.name + (" (revoked)" if one.revoked else ""), one.holds or "nothing", one.heard_at or "never", one.driver,
         str(one.refused), f"{one.rejected}: {one.reason}" if one.rejected else "none", str(one.waiting), str(one.lost),
         f"{one.skew_s:+g}")
        for one in agents
    ]  # fmt: skip
    heads = ("Agent", "Holds map", "Heard", "Driver", "Entries refused", "Last map refused", "Rows waiting", "Lost",
             "Clock, s")  # fmt: skip
    return add(section, _table(heads, rows, "What each agent has in force, and the last map that it refused whole."))


def _heads(heads: Sequence[str]) -> Element:
    cells = (el("th", head, scope="col", class_="num" if head.startswith(COUNTS) else None) for head in heads)
    return el("thead", el("tr", *cells))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> Element:
    body = el("tbody")
    for first, *cells in rows:
        add(body, el("tr", el("th", first, scope="row"), *(el("td", cell) for cell in cells)))
    return scrolled(el("table", el("caption", label), _heads(heads), body), label, "card wide")
