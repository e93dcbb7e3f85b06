# SPDX-License-Identifier: MIT
"""The page's first half: what was found in one sentence, the settings that differ, bars, values by region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from configtron.fingerprint.diversity import RegionDifference, ValueShare
from configtron.fingerprint.region_comparison import ParameterByRegion
from configtron.model.nouns import Value
from configtron.report.comparison import RegionComparison
from configtron.report.page.charts import COLORS, BarPart, Rate, heterogeneity, legend, shares
from configtron.report.page.markup import add, el, scrolled
from configtron.report.page.words import Proofs, RunFacts, anchor, change, named, rate, rate_in, title, valued

HEADING = "Settings that differ between regions (the paper's Table 2)"
# As many values as the paper prints in a row.
TOP = 3


def headline(about: RunFacts, found: RegionComparison) -> Element:
    """Title, the finding in a sentence, figures."""
    whole = Rate(found.differing, found.compared, *found.interval)
    others = [name for name in found.vantages if name != found.baseline]
    header = el("header", el("h1", "Who is configured differently where"))
    lead = f"Run {about.run}, {about.begun_at}: {len(found.sites)} sites"
    if others:
        lead += f" seen from {len(found.vantages)} regions, each compared with {about.region(found.baseline)}."
    else:
        lead += f" seen from {about.region(found.baseline)} alone, so there is nothing to compare with."
    add(header, el("p", lead, class_="lead"))
    if about.status != "done":
        add(header, el("p", f"The run is {about.status}: these are the figures so far.", class_="warn"))
    tiles = el("dl", class_="tiles")
    for name, number, small in (
        ("sites that differ somewhere", whole.text, f"{whole.hits} of {whole.total}; 95 %: {whole.bounds}"),
        ("parameters compared", str(len(found.parameters)), f"{len(found.differences)} differences in all"),
        ("regions beside the baseline", str(len(others)), ", ".join(map(about.region, others)) or "none"),
        ("sites set apart", str(len(found.mixed)), "unlike servers at one address"),
    ):
        add(tiles, el("div", el("dt", name), el("dd", number, el("small", small))))
    return add(header, tiles)


def table2(found: RegionComparison, proofs: Proofs) -> Element:
    """The paper's table for this run."""
    heads = ("Parameter", f"Top values in {found.baseline}", "Known", "Configured differently", "Same", "Undetermined")
    row = el("tr", *(el("th", head, scope="col") for head in heads), el("th", "Example", scope="col"))
    body = el("tbody", *(_row(each, found, proofs) for each in found.parameters))
    note = (
        "Differently: of the sites whose setting is known in the baseline and elsewhere, those that are set otherwise "
        "in any region; Wilson's 95 % interval. Undetermined and mixed sites are no part of any share."
    )
    table = el("table", el("caption", note), el("thead", row), body)
    section = el("section", el("h2", HEADING, id="table"))
    return add(section, scrolled(table, HEADING, "card wide"))


def _row(parameter: ParameterByRegion, found: RegionComparison, proofs: Proofs) -> Element:
    row, part = parameter.row, rate(parameter)
    values = el("ul", *(_value(share) for share in row.shares[:TOP]), class_="values")
    if len(row.shares) > TOP:
        add(values, el("li", f"+ {len(row.shares) - TOP} more", class_="soft"))
    differs = el("td", el("b", part.text), el("small", part.bounds), class_="differs")
    add(differs, el("small", f"{part.hits} of {part.total}") if part.total else None)
    obstacles = ", ".join(name if n == row.undetermined else f"{name} {n}" for name, n in parameter.obstacles)
    return el(
        "tr",
        el("th", named(row.knob, parameter.unit), el("code", row.knob), scope="row"),
        el("td", values if row.shares else "–"),
        el("td", str(row.known), class_="num"),
        differs,
        el("td", str(row.compared - row.differing), class_="num"),
        el("td", str(row.undetermined), el("small", f" {obstacles}") if obstacles else None),
        el("td", _example(parameter, found, proofs), class_="host"),
    )


def _value(share: ValueShare) -> Element:
    return el("li", el("b", valued(share.value)), f" {100 * share.share:.1f} %")


def example_of(parameter: ParameterByRegion) -> RegionDifference | None:
    """The difference that stands as the row's example."""
    one = parameter.row.example
    named_so = (
        each for each in parameter.differences if one and (each.target, each.region) == (one.target, one.region)
    )
    return next(named_so, None)


def _example(parameter: ParameterByRegion, found: RegionComparison, proofs: Proofs) -> Element | None:
    one = example_of(parameter)
    if one is None:
        return None
    where = el("a", one.target, href=f"#{anchor(one)}") if one in proofs else el("b", one.target)
    return el("span", where, ": ", change(found.baseline, one))


def bars(about: RunFacts, found: RegionComparison) -> Element | None:
    """Heterogeneity: anywhere, then region by region."""
    others = [name for name in found.vantages if name != found.baseline]
    if not others:
        return None
    rows = []
    for parameter in found.parameters:
        by_name = {region.name: region for region in parameter.regions}
        rows.append((title(parameter.row.knob), [rate(parameter), *(rate_in(by_name[name]) for name in others)]))
    columns = ["anywhere", *(about.region(name) for name in others)]
    words = "Share of sites set otherwise than in the baseline; the line over each bar is the 95 % interval."
    chart = el("div", heterogeneity(columns, rows), class_="card")
    return el("section", el("h2", "Heterogeneity by region", id="regions"), el("p", words, class_="soft"), chart)


def distributions(found: RegionComparison) -> Element:
    """A card a parameter: each region's values."""
    words = "What servers have, region by region; at the right, of how many sites that is known."
    cards = el("div", *(_card(each) for each in found.parameters), class_="cards")
    return el("section", el("h2", "Values by region", id="values"), el("p", words, class_="soft"), cards)


def _card(parameter: ParameterByRegion) -> Element:
    counts: Counter[Value] = Counter()
    for region in parameter.regions:
        counts.update({share.value: share.count for share in region.shares})
    ranks = {value: n for n, (value, _) in enumerate(counts.most_common(COLORS - 1))}
    rows = [(region.name, parts(region.shares, ranks)) for region in parameter.regions]
    others = f"{len(counts) - len(ranks)} other values" if len(counts) > len(ranks) else ""
    name = el("h3", named(parameter.row.knob, parameter.unit))
    if not counts:
        return el("div", name, el("p", "Known of no site.", class_="soft"), class_="card")
    numbers = el("details", el("summary", "as numbers"), scrolled(_numbers(parameter), "as numbers"))
    return el("div", name, legend(map(valued, ranks), others), shares(rows), numbers, class_="card")


def parts(shares: Sequence[ValueShare], ranks: dict[Value, int]) -> list[BarPart]:
    """A region's values in the order of the colours, those without one together at the end."""
    ranked = sorted((share for share in shares if share.value in ranks), key=lambda share: ranks[share.value])
    made = [BarPart(ranks[share.value], valued(share.value), share.count) for share in ranked]
    others = sum(share.count for share in shares if share.value not in ranks)
    return [*made, BarPart(COLORS - 1, "other", others)] if others else made


def _numbers(parameter: ParameterByRegion) -> Element:
    heads = ("Region", "Known", "Values", "Same", "Differs", "Undetermined")
    body = el("tbody")
    for region in parameter.regions:
        values = ", ".join(f"{valued(s.value)} {s.count} ({100 * s.share:.1f} %)" for s in region.shares) or "–"
        own = region.name == parameter.row.baseline
        counts = ("", "", "") if own else (str(region.same), str(region.differs), str(region.undetermined))
        cells = (str(region.known), values, *counts)
        add(body, el("tr", el("th", region.name, scope="row"), *(el("td", cell) for cell in cells)))
    return el("table", el("thead", el("tr", *(el("th", head, scope="col") for head in heads))), body)
