# SPDX-License-Identifier: MIT
"""The page's second half: the providers of differing sites, with the packets of each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from configtron.fingerprint.diversity import RegionDifference
from configtron.fingerprint.region_comparison import Operator
from configtron.report.comparison import Presence, RegionComparison
from configtron.report.page.charts import Rate
from configtron.report.page.conversation import conversation
from configtron.report.page.ladder import ladder
from configtron.report.page.markup import add, el, scrolled, short
from configtron.report.page.overview import example_of
from configtron.report.page.words import Proofs, ReadingProof, RunFacts, anchor, change, title, valued

# Providers that are listed one by one; the rest is counted. More would be a list, and that is what JSON is for.
MOST = 60


def examples(about: RunFacts, found: RegionComparison, proofs: Proofs) -> Element | None:
    """Each row's example with the packets of both sides."""
    section = el("section", el("h2", "The packets behind the examples", id="packets"))
    words = (
        "Time runs down and is not to scale; the number at the left is the second since the first packet. Marked is "
        "what the setting was read from; dashed is what was sent inside TLS."
    )
    add(section, el("p", words, class_="soft"))
    shown = [one for one in map(example_of, found.parameters) if one is not None and one in proofs]
    for one in shown:
        add(section, _drawing(about, found, one, proofs[one], open_=True))
    return section if shown else None


def _drawing(
    about: RunFacts,
    found: RegionComparison,
    one: RegionDifference,
    pair: tuple[ReadingProof, ReadingProof],
    *,
    open_: bool,
) -> Element:
    summary = el("summary", el("b", f"{title(one.knob)}: {one.target}"), change(found.baseline, one))
    sides = el("div", class_="pair")
    for proof, value in zip(pair, (one.here, one.there), strict=True):
        add(sides, _side(about, one, proof, valued(value)))
    return el("details", summary, sides, id=anchor(one), open="open" if open_ else None)


def _side(about: RunFacts, one: RegionDifference, proof: ReadingProof, value: str) -> Element:
    caption = el("figcaption", el("b", f"{about.region(proof.vantage)}: {value}"))
    figure = el("figure", caption)
    if proof.trace is None or proof.reading is None:
        return add(figure, el("p", f"No packets to show: {proof.missing}", class_="warn"))
    words = f"; {proof.reading.method}" if proof.reading.method else ""
    session = proof.trace.session
    if session is not None and session.version:
        words += f"; {session.version}, ALPN {session.alpn or '(none)'}"
    add(caption, f"{words} — ", el("code", short(proof.where)))
    text = f"{title(one.knob)} of {one.target} from {about.region(proof.vantage)}: {value}"
    return add(figure, scrolled(ladder(conversation(proof.trace, proof.reading), text), text))


def providers(about: RunFacts, found: RegionComparison, proofs: Proofs) -> Element:
    """Return the providers of differing sites: a table over parameters, then one part each."""
    section = el("section", el("h2", "Provider by provider", id="providers"))
    methods = Counter(site.provider_from for site in found.sites.values())
    known_by = ", ".join(f"{method} ({n} sites)" for method, n in methods.most_common())
    words = (
        f"Who runs a site is read from: {known_by or 'nothing'}. A registered domain or a name may hide the network "
        "that serves it; Server and Via fields are shown as they came."
    )
    add(section, el("p", words, class_="soft"))
    differing = [operator for operator in found.operators if operator.differing]
    if not differing:
        return add(section, el("p", "No provider has a site that differs."))
    add(section, scrolled(_matrix(found, differing[:MOST]), "Differing sites by provider and parameter", "card wide"))
    examples_drawn = {example_of(parameter) for parameter in found.parameters}
    for operator in differing[:MOST]:
        add(section, _operator(about, found, operator, proofs, examples_drawn))
    rest, quiet = differing[MOST:], len(found.operators) - len(differing)
    if rest:
        more = sum(operator.differing for operator in rest)
        add(section, el("p", f"{len(rest)} more providers with {more} differing sites: -f jsonl has them all."))
    return add(section, el("p", f"{quiet} providers have no site that differs.", class_="soft"))


def _matrix(found: RegionComparison, operators: Iterable[Operator]) -> Element:
    knobs = [parameter.row.knob for parameter in found.parameters if parameter.differences]
    heads = ("Provider", "Sites", "Compared", "Differ", *map(title, knobs))
    body = el("tbody")
    for operator in operators:
        sites = {knob: len({d.target for d in operator.differences if d.knob == knob}) for knob in knobs}
        counts = (len(operator.targets), operator.compared, operator.differing)
        cells = [el("td", str(n), class_="num") for n in counts]
        cells += [el("td", el("b", str(n), class_="t-hit") if n else "·", class_="num") for n in sites.values()]
        add(body, el("tr", el("th", short(operator.name, 60), scope="row"), *cells))
    row = el("tr", *(el("th", head, scope="col", class_="num" if n else None) for n, head in enumerate(heads)))
    return el("table", el("thead", row), body, class_="matrix")


def _operator(
    about: RunFacts,
    found: RegionComparison,
    operator: Operator,
    proofs: Proofs,
    elsewhere: set[RegionDifference | None],
) -> Element:
    part = Rate(operator.differing, operator.compared, *operator.interval)
    text = f"{part.hits} of {part.total} sites differ: {part.text} ({part.bounds})"
    made = el("details", el("summary", el("b", short(operator.name)), text))
    servers = Counter(
        presence.server for target in operator.targets for presence in set(found.sites[target].presences.values())
    )
    named = ", ".join(f"{short(server, 60)}" for server, _ in servers.most_common(5) if server)
    add(made, el("p", f"Server: {named}", class_="soft") if named else None)
    rows: dict[tuple[str, str], list[RegionDifference]] = {}
    for one in operator.differences:
        rows.setdefault((one.knob, one.target), []).append(one)
    body = el("tbody", *(_differences(found, regions, proofs) for regions in rows.values()))
    heads = ("Site", "Parameter", "Setting", "Address, round trip and server there")
    head = el("thead", el("tr", *(el("th", each, scope="col") for each in heads)))
    add(made, scrolled(el("table", head, body), f"Differences of {operator.name}"))
    for one in operator.differences:
        if one in proofs and one not in elsewhere:
            add(made, _drawing(about, found, one, proofs[one], open_=False))
    return made


def _differences(found: RegionComparison, regions: Sequence[RegionDifference], proofs: Proofs) -> Element:
    """One parameter of one site, with all the regions in which it differs."""
    one = regions[0]
    presences = found.sites[one.target].presences
    drawn = next((each for each in regions if each in proofs), None)
    setting = el("td", change(found.baseline, one), class_="value")
    for more in regions[1:]:
        add(setting, f", {more.region} {valued(more.there)}")
    met = el("td", _met(found.baseline, presences.get(found.baseline)), class_="host")
    for each in regions:
        add(met, el("br"), _met(each.region, presences.get(each.region)))
    target = el("a", one.target, href=f"#{anchor(drawn)}") if drawn else one.target
    return el("tr", el("td", target, class_="host"), el("td", title(one.knob)), setting, met)


def _met(vantage: str, presence: Presence | None) -> str:
    if presence is None:
        return f"{vantage}: –"
    trip = f"{1000 * presence.rtt_s:.0f} ms" if presence.rtt_s is not None else ""
    words = (presence.address, trip, presence.server, presence.via and f"via {presence.via}", presence.place)
    return f"{vantage}: " + (", ".join(short(word, 60) for word in words if word) or "–")
