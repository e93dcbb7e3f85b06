# SPDX-License-Identifier: MIT
"""The layout of one measurement: a study's names resolved into networks, configurations and pages, and a seed.

The measurement stores it as text, so a resumed one measures the models that it began with even if they have changed
since; the tensor's columns come from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from configtron.lab.testbed.conditions import Condition
from configtron.lab.testbed.pages import PageModel
from configtron.lab.testbed.shard import Orders
from configtron.lab.testbed.studies import MeasurementStudy
from configtron.model.characteristics import BY_NAME
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Knob
from configtron.model.records import canonical, value_form, value_of
from configtron.model.repeats import StoppingRule
from configtron.model.samples import Kept
from configtron.model.tensor import Tensor

# Student's t, 97.5 %, for 1, 2, ... degrees of freedom; the last stands for all above.
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)


@dataclass(frozen=True)
class Layout:
    """study: its name; server: the program that serves; per_prefix: the driver of knobs that are set by prefix."""

    study: str
    conditions: tuple[Condition, ...]
    grid: Grid
    pages: tuple[PageModel, ...]
    rule: StoppingRule
    seed: int
    server: str = "nginx"
    per_prefix: str = "route"

    @property
    def cells(self) -> int:
        """Return the number of medians to measure."""
        return len(self.conditions) * len(self.grid) * len(self.pages)

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the pages' names."""
        return tuple(page.name for page in self.pages)

    def orders(self) -> list[Orders]:
        """Return one shard a condition."""
        same = (self.grid.profiles, self.pages, self.rule, self.seed, self.server, self.per_prefix)
        return [Orders(condition, *same) for condition in self.conditions]

    def to_json(self) -> str:
        """Return the layout as one line, the same for equal layouts."""
        return canonical(
            {
                "study": self.study,
                "conditions": [json.loads(condition.to_json()) for condition in self.conditions],
                "knobs": [{"name": k.name, "values": [value_form(v) for v in k.values]} for k in self.grid.knobs],
                "configurations": [list(row) for row in self.grid.rows],
                "pages": [json.loads(page.to_json()) for page in self.pages],
                "rule": {"looks": list(self.rule.looks), "tolerance": self.rule.tolerance, "error": self.rule.error},
                "seed": self.seed,
                "server": self.server,
                "per_prefix": self.per_prefix,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Parse the output of `to_json`. Errors: `BadInput`."""
        try:
            form = json.loads(text)
            rule = form["rule"]
            knobs = tuple(_knob(row["name"], tuple(value_of(v) for v in row["values"])) for row in form["knobs"])
            return cls(
                form["study"],
                tuple(Condition.from_json(json.dumps(condition)) for condition in form["conditions"]),
                Grid(knobs, tuple(tuple(row) for row in form["configurations"])),
                tuple(PageModel.from_json(json.dumps(page)) for page in form["pages"]),
                StoppingRule(tuple(rule["looks"]), rule["tolerance"], rule["error"]),
                form["seed"],
                form["server"],
                form["per_prefix"],
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"no measurement's layout: {error}") from error


def laid_out(study: MeasurementStudy, seed: int, server: str = "nginx", per_prefix: str = "route") -> Layout:
    """Return a study's layout. Errors: `BadInput` for names that are none."""
    return Layout(study.name, study.networks(), study.grid, study.pages(), study.rule, seed, server, per_prefix)


def _knob(name: str, values: tuple[object, ...]) -> Knob:
    known = KNOBS[name]
    return Knob(name, known.layer, known.unit, known.default, values)  # type: ignore[arg-type]


def tensor_of(
    layout: Layout,
    kept: Iterable[Kept],
    provenance: tuple[tuple[str, str], ...] = (),
    features: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Tensor:
    """Return the PLT-tensor of a measurement; NaN for a missing median, and in `repeats_ms` for a missing load.

    features   condition -> features of its path as the servers measured them (pathview.py)
    """
    at = {condition.name: i for i, condition in enumerate(layout.conditions)}
    site_at = {site: i for i, site in enumerate(layout.sites)}
    shape = (len(at), len(layout.grid), len(site_at))
    cells = list(kept)
    most = max([len(cell.plt_ms) for cell in cells], default=0)
    median = np.full(shape, np.nan, dtype=np.float32)
    repeats = np.full((*shape, most), np.nan, dtype=np.float32)
    damage, damage_high = (np.full(shape, np.nan, dtype=np.float32) for _ in range(2))
    sizes = {page.name: page.size for page in layout.pages}
    for cell in cells:
        place = (at[cell.condition], cell.configuration, site_at[cell.site])
        if cell.verdict.median_ms is not None:
            median[place] = cell.verdict.median_ms
        repeats[place][: len(cell.plt_ms)] = [np.nan if ms is None else ms for ms in cell.plt_ms]
        lost = [bytes_lost for bytes_lost in cell.neighbours_lost if bytes_lost is not None]
        damage[place], damage_high[place] = _damage(lost, sizes[cell.site])
    down = [condition.down for condition in layout.conditions]
    # a played trace has no one rate
    kbps = np.array([way.rate_kbit or np.nan for way in down], dtype=np.float64)
    rtt = np.array([condition.rtt_ms for condition in layout.conditions], dtype=np.float64)
    loss = np.array([way.loss for way in down], dtype=np.float64)
    known = sorted({name for seen in features.values() for name in seen if name in BY_NAME})
    columns = {name: np.array([features.get(one, {}).get(name, np.nan) for one in at]) for name in known}
    weights = np.array([condition.weight for condition in layout.conditions])
    return Tensor(
        layout.grid, layout.sites, tuple(at), kbps, rtt, loss, median, "lab", provenance, repeats, columns,
        None if np.isnan(damage).all() else damage, None if np.isnan(damage_high).all() else damage_high,
        None if (weights == 1).all() else weights,
    )  # fmt: skip


def _damage(lost: Sequence[float], size: int) -> tuple[float, float]:
    """Bytes that neighbours lose for a byte of the page, mean over loads, and the upper end of its 95 % interval.

    NaN where there were none, or for the interval too few. Source: Student's t for a mean of few.
    """
    if not lost:
        return np.nan, np.nan
    shares = np.maximum(np.array(lost, dtype=np.float64) / size, 0.0)
    mean = float(shares.mean())
    if len(lost) < 2:
        return mean, np.nan
    quantile = STUDENT_T[min(len(lost) - 2, len(STUDENT_T) - 1)]
    return mean, mean + quantile * float(shares.std(ddof=1)) / len(lost) ** 0.5
