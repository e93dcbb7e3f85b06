# SPDX-License-Identifier: MIT
"""Counters and gauges as Prometheus reads them: text exposition format, label values out of bounded sets.

Rules for this file: two literal tables, of an agent and of a manager, and a pure function of numbers. A label's values
are listed, or bounded in number: then the largest keep their names and the rest is summed as `other`. Prefixes, sites
and clients are no labels: each value is a time series that lives for ever.

Source     Prometheus, "Exposition formats" (text, version 0.0.4) and "Metric and label naming"
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Values of an unlisted label that keep their names; the name of all others together.
MOST_VALUES, OTHER = 32, "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# By label values; () where a family has no labels.
Samples = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric. name: without the prefix; labels: (name, its values; () for at most `MOST_VALUES` of any)."""

    name: str
    kind: str
    help: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()


PREFIX = "configtron_"
GOALS = ("median", "p95", "failures")
STAGES = ("none", "draft", "shadow", "canary", "quarter", "all", "returned", "rejected")
AGENT_METRICS = (
    MetricFamily("agent_map_version", "gauge", "Version of the map in force."),
    MetricFamily("agent_map_term", "gauge", "Term of the manager whose map is in force."),
    MetricFamily("agent_map_valid_seconds", "gauge", "Seconds until the map is void and Default applies."),
    MetricFamily("agent_lease_seconds", "gauge", "Seconds until Default applies without a further heartbeat."),
    MetricFamily("agent_manager_heard_seconds", "gauge", "Seconds since the manager's latest frame."),
    MetricFamily("agent_apply_seconds", "gauge", "How long the latest map took to apply."),
    MetricFamily("agent_entries_refused", "gauge", "Entries of the map in force that the driver refused."),
    MetricFamily("agent_frozen", "gauge", "1 while a foreign change keeps a place from being written."),
    MetricFamily("agent_records_total", "counter", "Connections by the kernel, log lines by the web server.",
                 (("kind", ("open", "close", "lost", "line")),)),
    MetricFamily("agent_loads_total", "counter", "Page loads by what became of them.", (("outcome", ()),)),
    MetricFamily("agent_spool_rows", "gauge", "Outcomes that wait for the manager."),
    MetricFamily("agent_spool_dropped_total", "counter", "Outcomes that the spool dropped, it being full."),
)  # fmt: skip
MANAGER_METRICS = (
    MetricFamily("manager_map_version", "gauge", "Version of the latest map."),
    MetricFamily("manager_map_term", "gauge", "Term of this manager."),
    MetricFamily("manager_agents", "gauge", "Enrolled agents.", (("state", ("current", "behind", "revoked")),)),
    MetricFamily("manager_entries_refused", "gauge", "Entries of their maps that agents refused, of all together."),
    MetricFamily("manager_maps_rejected", "gauge", "Agents whose last map was refused whole."),
    MetricFamily("manager_rows_total", "counter", "Outcomes stored."),
    MetricFamily("manager_rows_lost_total", "counter", "Outcomes that agents' spools dropped."),
    MetricFamily("manager_rows_aside", "gauge", "Rows read that count in no figure.", (("reason", ()),)),
    MetricFamily("manager_sample_ratio_p", "gauge", "p-value that clients arrived in each group as assigned."),
    MetricFamily("manager_effect", "gauge", "Tuned clients less control group: ln(ms), failures in shares of loads.",
                 (("goal", GOALS), ("bound", ("estimate", "low", "high")))),
    MetricFamily("manager_effect_loads", "gauge", "Loads that the effect is of.",
                 (("arm", ("held", "tuned")),)),
    MetricFamily("manager_rollout_stage", "gauge", "1 for the stage that the roll-out is in.", (("stage", STAGES),)),
    MetricFamily("manager_rollout_share", "gauge", "Share of clients, not in the control group, with the new version."),
)  # fmt: skip


def exposition(families: Sequence[MetricFamily], samples: Mapping[str, Samples]) -> str:
    """Return samples, by family's name, as text; families without samples are left out.

    Errors: `ValueError` for a family that is not in the table, or for as many label values as it does not have.
    """
    known = {family.name for family in families}
    if unknown := sorted(set(samples) - known):
        raise ValueError(f"no such metrics: {', '.join(unknown)}")
    return "".join(_family(family, samples[family.name]) for family in families if samples.get(family.name))


def _family(family: MetricFamily, samples: Samples) -> str:
    name = PREFIX + family.name
    lines = [f"# HELP {name} {_escaped(family.help)}", f"# TYPE {name} {family.kind}"]
    for values, number in sorted(bounded(family, samples).items()):
        pairs = ",".join(f'{label}="{_escaped(value, quoted=True)}"'
                         for (label, _), value in zip(family.labels, values, strict=True))  # fmt: skip
        lines.append(f"{name}{{{pairs}}} {_number(number)}" if pairs else f"{name} {_number(number)}")
    return "\n".join(lines) + "\n"


def bounded(family: MetricFamily, samples: Samples) -> dict[tuple[str, ...], float]:
    """Return samples with no more values of a label than it may have: the others are summed under `other`."""
    found: dict[tuple[str, ...], float] = {}
    for values in samples:
        if len(values) != len(family.labels):
            raise ValueError(f"{family.name} has {len(family.labels)} labels, not {values!r}")
    allowed = [set(listed) or _largest(samples, at) for at, (_, listed) in enumerate(family.labels)]
    for values, number in samples.items():
        key = tuple(value if value in names else OTHER for value, names in zip(values, allowed, strict=True))
        found[key] = found.get(key, 0.0) + number
    return found


def _largest(samples: Samples, at: int) -> set[str]:
    total: dict[str, float] = {}
    for values, number in samples.items():
        total[values[at]] = total.get(values[at], 0.0) + number
    return set(sorted(total, key=lambda value: (-total[value], value))[:MOST_VALUES])


def _escaped(text: str, *, quoted: bool = False) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n")
    return plain.replace('"', '\\"') if quoted else plain


def _number(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(float(number))
