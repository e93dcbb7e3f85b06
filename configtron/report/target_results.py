# SPDX-License-Identifier: MIT
"""Results -> what was found about each target from each vantage: verdicts, and what they were read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from configtron.fingerprint.diversity import Diversity, diversity, is_mixed
from configtron.fingerprint.merge import merge_all
from configtron.model.nouns import Fingerprint, Observation, Target
from configtron.model.records import Result


class TargetResult(NamedTuple):
    """One target from one vantage. `site` is the name asked for (with port and path, where several were asked for under
    one name), `evidence` the results behind the verdicts."""

    site: str
    fingerprint: Fingerprint
    evidence: tuple[Result, ...]

    @property
    def vantage(self) -> str:
        """The vantage's name."""
        return self.fingerprint.vantage

    @property
    def verdicts(self) -> Mapping[str, Observation]:
        """Verdicts by knob."""
        return self.fingerprint.observations

    @property
    def empty(self) -> bool:
        """Return whether not a single parameter got a value; where a target is, and who runs it, is none."""
        return all(v.value is None for knob, v in self.verdicts.items() if knob not in ("address", "provider"))

    @property
    def reason(self) -> str:
        """Return why it is empty: the commonest reason, "" if there are values."""
        reasons = Counter(v.reason for v in self.verdicts.values() if v.reason is not None)
        return reasons.most_common(1)[0][0] if self.empty and reasons else ""


def found_in(results: Iterable[Result]) -> Iterator[TargetResult]:
    """Merge results that come ordered by site and vantage, as the store gives them.

    A site of which several ports or pages were asked for gives one each, and they are called after those as well.
    """
    for (site, vantage), group in groupby(results, key=lambda result: (result.site, result.vantage)):
        pages: dict[str, list[Result]] = {}
        for result in group:
            pages.setdefault(_page(result), []).append(result)
        for name in sorted(pages):
            yield _found(site if len(pages) == 1 else name or site, site, vantage, tuple(pages[name]))


def _page(result: Result) -> str:
    """Return the name of its target within the run: host, port and path; "" where that is unknown."""
    _, _, rest = result.trace_id.partition("/")
    return rest.rpartition("/")[0]


def _found(name: str, site: str, vantage: str, evidence: tuple[Result, ...]) -> TargetResult:
    readings = (reading for result in evidence for reading in result.observations)
    verdicts = merge_all(readings)
    provider = verdicts["provider"].value if "provider" in verdicts else None
    return TargetResult(
        name, Fingerprint(_target(name, site, evidence, str(provider or "")), vantage, verdicts), evidence
    )


def _target(name: str, site: str, evidence: tuple[Result, ...], provider: str) -> Target:
    """The target as it was named: of the ports and hosts it led to, the plainest; with its provider, if it is known."""
    plain = min((result.target for result in evidence), key=lambda target: (target.host != site, target.port))
    if name != site:
        plain = next((result.target for result in evidence if result.probe == "dns"), plain)
    given = next((result.target.provider for result in evidence if result.target.provider), "")
    return replace(plain, host=site, provider=provider or given)


def rows_of(found: Iterable[TargetResult], knobs: Iterable[str], baseline: str) -> list[Diversity]:
    """Rows of a summary like Table 2, one for each knob that any target has a verdict on."""
    verdicts, mixed = by_knob(found, knobs)
    return [diversity(knob, baseline, targets, mixed) for knob, targets in verdicts.items()]


def by_knob(
    found: Iterable[TargetResult], knobs: Iterable[str]
) -> tuple[dict[str, dict[str, dict[str, Observation]]], set[str]]:
    """(verdicts by knob, site and vantage; the sites that stand apart in all comparisons).

    Apart stands a site whose address unlike servers share (`load_balancing`), in whatever region.
    """
    mixed = set()
    verdicts: dict[str, dict[str, dict[str, Observation]]] = {knob: {} for knob in knobs}
    for item in found:
        if is_mixed(item.verdicts):
            mixed.add(item.site)
        for knob in verdicts.keys() & item.verdicts.keys():
            verdicts[knob].setdefault(item.site, {})[item.vantage] = item.verdicts[knob]
    return {knob: targets for knob, targets in verdicts.items() if targets}, mixed
