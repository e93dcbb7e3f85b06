# SPDX-License-Identifier: MIT
"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from configtron.fingerprint.diversity import Diversity
from configtron.fingerprint.region_comparison import ParameterByRegion
from configtron.model.nouns import Observation
from configtron.report.allowed_verdict import KINDS
from configtron.report.folding import Sheet
from configtron.report.plant_scores import PlantScore, share
from configtron.report.printed import cell, shown, text
from configtron.report.score import YIELD_KNOB, KnobScore, Score, WrongVerdict, percent, total
from configtron.report.score import share as part
from configtron.report.target_results import TargetResult

# Columns of the overview: the parameters that Table 2 has, and the data RTO.
OVERVIEW = ("icw", "synack_rto", "data_rto", "rwin", "http_clear", "http_version", "h2_max_concurrent_streams")
# The same of a run that sent a user's own packets: it asked for nothing else.
CRAFTED = ("craft",)
UNITS = {"icw": "segments", "synack_rto": "s", "data_rto": "s", "rwin": "bytes"}
SHORT_PAGE = "icw >= n: the page is too short to fill the window: name a longer one by --path"
# The reason of a host that answers a SYN with a reset (docs/fingerprint.md).
REFUSED = "refused"
# Details in which a verdict keeps what its trials do not share.
DISAGREEMENTS = ("seen", "differs")
# As many values as the paper's Table 2 prints.
TOP = 3


def overview(found: Sequence[TargetResult], fields: Sequence[str] = ()) -> Sheet:
    """One row per target and vantage, and one for all of a vantage that refuse; each cell a verdict with its grade.
    fields: the columns, then also of those that refuse; () is the usual ones."""
    knobs = fields or (CRAFTED if any("craft" in item.verdicts for item in found) else OVERVIEW)
    names = [f"{knob} [{UNITS[knob]}]" if knob in UNITS else knob for knob in knobs]
    table = Sheet("host", "vantage", *names, second=names[0], whole=bool(fields))
    table.caption = "behind each value its grade"
    if any(verdict.reason == REFUSED for item in found for verdict in item.verdicts.values()):
        table.caption += "; refused: that port is closed (http_version, h2: port 443 unless you name another)"
    if any(map(_is_short, found)):
        table.caption += f"; {SHORT_PAGE}"
    closed: dict[str, list[str]] = {}
    for item in found:
        if item.reason == REFUSED and not fields:
            closed.setdefault(item.vantage, []).append(item.site)
        elif item.empty:
            table.add_row(item.site, item.vantage, f"- {item.reason}", *[""] * (len(knobs) - 1))
        else:
            table.add_row(item.site, item.vantage, *(cell(item.verdicts.get(knob)) for knob in knobs))
    for vantage, hosts in closed.items():
        table.add_row(_first_of(hosts), vantage, f"- {REFUSED}", *[""] * (len(knobs) - 1))
    return table


def _is_short(item: TargetResult) -> bool:
    """Return whether the initial window is only a bound since the page ended before it was full."""
    verdict = item.verdicts.get("icw")
    return verdict is not None and verdict.grade == "L" and verdict.detail("proof") == "response-ended"


def details(item: TargetResult) -> Sheet:
    """All that is known about one target from one vantage, trial by trial, with where to look."""
    table = Sheet("knob", "verdict", "unit", "grade", "read from", "frames")
    table.title = f"{item.site} ({item.fingerprint.target.address}) from {item.vantage}"
    table.caption = SHORT_PAGE if _is_short(item) else ""
    results = {result.trace_id: result for result in item.evidence}
    for knob, verdict in item.verdicts.items():
        table.add_row(knob, shown(verdict), verdict.unit, verdict.grade, verdict.method, _disagreement(verdict))
        for trial in verdict.trials:
            result = results.get(trial.trace_id)
            frames = " ".join(str(result.first_frame + n) for n in trial.evidence) if result else ""
            where = f"{result.evidence_file}: {frames}" if result and frames else ""
            table.add_row("", f"  {shown(trial)}", "", trial.grade, trial.trace_id, where)
    return table


def summary(rows: Sequence[Diversity]) -> Sheet:
    """Like the paper's Table 2: what servers have in the baseline region, and how many are set otherwise elsewhere."""
    baseline = rows[0].baseline if rows else ""
    columns = ("known", "differ", "95 % interval", "undet.", "mixed", "example")
    table = Sheet("knob", f"top values in {baseline}", *columns, second="known", whole=True)
    table.caption = "undet.: not known in two regions; mixed: unlike servers at one address, compared with none"
    for row in rows:
        differ = f"{percent(row.differing, row.compared)} of {row.compared}" if row.compared else "-"
        interval = f"{100 * row.low:.1f}-{100 * row.high:.1f} %" if row.compared else "-"
        counts = (str(row.known), differ, interval, str(row.undetermined), str(row.mixed))
        top = ", ".join(f"{text(share.value)} {100 * share.share:.1f} %" for share in row.shares[:TOP]) or "-"
        table.add_row(row.knob, top, *counts, _example(row))
    return table


def by_region(parameters: Sequence[ParameterByRegion]) -> Sheet:
    """Return how many servers are set otherwise, region by region."""
    baseline = parameters[0].row.baseline
    names = [region.name for region in parameters[0].regions if region.name != baseline]
    table = Sheet("differ from " + baseline, *(f"in {name}" for name in names))
    for parameter in parameters:
        shares = (share(region.differs, region.compared) for region in parameter.regions if region.name != baseline)
        table.add_row(parameter.row.knob, *shares)
    return table


def scores(rows: Iterable[KnobScore]) -> Sheet:
    """Right and wrong by parameter and grade."""
    answered = tuple(f"{kind}s" for kind in KINDS)
    grades = ("A", "B", "C", ">= n", "none")
    columns = (*grades, "right at A/B", *answered, "yield", "overclaims", "not asked")
    table = Sheet("knob", *columns)
    table.caption = (
        "right of those given, by grade; answered of those that the truth allows an exact value, only a bound, only a "
        "reason; yield: distinct truths answered, from where one constant answer ends"
    )
    for row in rows:
        cells = [f"{row.right.get(grade, 0)}/{row.right.get(grade, 0) + row.wrong.get(grade, 0)}" for grade in "ABCLN"]
        kinds = [f"{row.answered[kind]}/{row.allowed[kind]}" if row.allowed[kind] else "-" for kind in KINDS]
        table.add_row(
            row.knob, *cells, row.right_share, *kinds, part(row.yielded), str(row.overclaims), str(row.not_asked)
        )
    return table


def probers(scores: Mapping[str, Score]) -> Sheet:
    """The run's score beside what probers score that look at nothing, on the same pairs."""
    answered = tuple(f"{kind}s" for kind in KINDS)
    table = Sheet("prober", *answered, "yield", f"{YIELD_KNOB} yield, troubled", "overclaims", "wrong reasons")
    table.caption = (
        "silence: a reason for all; least bounds: at least the smallest value there is; commonest: what is true of most"
    )
    for name, result in scores.items():
        shares = [percent(*result.answered(kind)) for kind in KINDS]
        yields = part(result.yielded), part(result.troubled.yielded)
        table.add_row(name, *shares, *yields, str(result.overclaims), str(result.wrong_reasons))
    return table


def troubles(score: Score) -> Sheet:
    """Results under impairments, a row for each trouble; the first row has none."""
    counted = ("values", "bounds", "reasons", "unexcused", "overclaims")
    table = Sheet("trouble", "cases", "reachable", *counted, f"{YIELD_KNOB} answered")
    table.caption = (
        "unexcused: a reason that the truth does not name; answered: at A or B, by the largest bound that can be "
        "proven, or with the right reason, of the cases that allow one of them"
    )
    for row in (*score.troubles, *((total(score),) if len(score.troubles) > 1 else ())):
        columns = (row.value, row.bound, row.reason, row.unexcused, row.overclaims)
        cases = (str(len(row.cases)), str(len(row.reachable)))
        share_answered = percent(len(row.answered), len(row.allowed))
        table.add_row(row.trouble or "none", *cases, *map(str, columns), share_answered)
    return table


def regions(rows: Sequence[PlantScore]) -> Sheet:
    """Regional differences: planted and found, and found though there are none."""
    table = Sheet("knob", "planted pairs found", "planted targets found", "false pairs", "false targets")
    table.caption = "share (Wilson's 95 % interval); a pair is a target and a region beside the baseline"
    for row in rows:
        targets = share(len(row.hosts_found), len(row.hosts_planted)), share(len(row.hosts_false), len(row.hosts_same))
        table.add_row(row.knob, share(row.found, row.planted), targets[0], share(len(row.false), row.same), targets[1])
    return table


def mismatches(score: Score, most: int) -> Sheet:
    """Each wrong value beside its true one; then, a row for all that miss it alike, the values that were not given."""
    table = Sheet("region", "host", "knob", "reported", "grade", "true", "trouble")
    alike: dict[tuple[object, ...], list[WrongVerdict]] = {}
    for n, miss in enumerate(sorted(score.mismatches, key=lambda miss: not miss.overclaim)):
        columns = (miss.knob, shown(miss.observation), miss.observation.grade, miss.truth)
        alike.setdefault((*columns, n) if miss.overclaim else columns, []).append(miss)
    for misses in list(alike.values())[:most]:
        first = misses[0]
        columns = (first.knob, shown(first.observation), first.observation.grade, first.truth)
        named = (_first_of(miss.region for miss in misses), _first_of(miss.host for miss in misses))
        table.add_row(*named, *columns, _first_of(miss.trouble for miss in misses if miss.trouble))
    hidden = len(score.mismatches) - sum(map(len, list(alike.values())[:most]))
    table.caption = "values that were not given, a row for all alike; each by itself: -f jsonl" + (
        f"; {hidden} more there" if hidden else ""
    )
    return table


def _first_of(names: Iterable[str]) -> str:
    """The only one, or the first and how many more."""
    one, *more = dict.fromkeys(names) or ("",)
    return f"{one} and {len(more)} more" if more else one


def _disagreement(verdict: Observation) -> str:
    """Return what its trials do not share, if anything: the readings, or the facts that differ."""
    found = [(name, verdict.detail(name)) for name in DISAGREEMENTS]
    return "; ".join(f"{name}: {', '.join(map(str, what))}" for name, what in found if isinstance(what, tuple))


def _example(row: Diversity) -> str:
    if row.example is None:
        return ""
    here, there = text(row.example.here), text(row.example.there)
    return f"{row.example.target}: {row.baseline} {here}, {row.example.region} {there}"
