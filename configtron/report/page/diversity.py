# SPDX-License-Identifier: MIT
"""The page of a run's diversity: settings that differ, plots, providers, and the packets behind them, in one file."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from configtron.fingerprint.diversity import RegionDifference
from configtron.report.comparison import RegionComparison
from configtron.report.page.markup import document, el, parts_of, reading_section
from configtron.report.page.overview import bars, distributions, example_of, headline, table2
from configtron.report.page.providers import MOST, examples, providers
from configtron.report.page.words import Proofs, RunFacts, rate

# Differences that are drawn beside the rows' examples, one a provider: each pair is about 20 kB of page.
MOST_DRAWN = 24

READING = (
    ("Known", "two exact trials agree (grade B), or several and nothing contradicts them (grade A)."),
    ("Differs", "both are known, no allowed reading makes them equal, and no single exact reading of one is the "
     "other's setting: a lost packet makes no target differ. Timers are equal within an eighth."),
    ("In force", "a setting that is not announced stands for its default."),
    ("Undetermined", "not known in both, or readings in common; by what stood in the way: a named reason, a grade "
     "below B (C one trial, L a lower bound), readings in common."),
    ("Set apart", "unlike servers answer at one address in some region: what is seen there is luck, not the region."),
    ("One run", "cannot separate a roll-out from a difference that lasts: compare runs of two days before you call."),
)  # fmt: skip


def page(about: RunFacts, found: RegionComparison, proofs: Proofs) -> str:
    """Return the whole page, parameters that differ most first; the same run gives the same bytes."""
    found = found._replace(parameters=tuple(sorted(found.parameters, key=lambda one: -rate(one).share)))
    sections = [
        table2(found, proofs),
        bars(about, found),
        distributions(found),
        examples(about, found, proofs),
        providers(about, found, proofs),
        _apart(found),
        reading_section(READING),
    ]
    foot = (
        f"configtron {about.version}: configtron fingerprint diversity {about.run} --baseline {found.baseline} -f html."
        " This page loads nothing and runs nothing."
    )
    parts = parts_of(headline(about, found), sections)
    return document(f"Run {about.run}: configured differently", [*parts, el("footer", foot)])


def to_draw(found: RegionComparison) -> list[RegionDifference]:
    """The differences whose packets the page shows: each row's example, then one of each provider."""
    drawn = [one for one in map(example_of, found.parameters) if one is not None]
    of_providers: list[RegionDifference] = []
    for operator in found.operators[:MOST]:
        if not set(drawn) & set(operator.differences):
            of_providers += operator.differences[:1]
    return drawn + of_providers[:MOST_DRAWN]


def _apart(found: RegionComparison) -> Element | None:
    if not found.mixed:
        return None
    words = "Unlike servers answer at one address of these sites in some region; they are compared with none."
    names = el("p", ", ".join(found.mixed), class_="host")
    return el("section", el("h2", "Set apart", id="apart"), el("p", words, class_="soft"), names)
