# SPDX-License-Identifier: MIT
"""What `learn measure` can be asked to measure: conditions x configurations x sites, each study one row of a table.

Question   Which part of the papers' space is worth the hours?
Method     Knobs that cannot change a page load are left at their defaults, by what differential runs on one seed show:
           low_latency is dead, slow_start_after_idle acts on idle connections only, autocorking by less than the noise.
           Four knobs remain: CT's 768 configurations become 96.
Reads as   names that `families.py` and `pages/` know, and a grid.
Differs    HotCloud's initial windows are 3 to 18 and leave out the default 10; the default is measured besides, since
           every gain is relative to it. CT took conditions from traces that are not here: HotCloud's grid
           stands for them, the links that people buy and Pantheon's six calibrated paths.
Source     CT Table 1 and section 6, HC Table 2 and section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from configtron.lab.testbed import families, opportunities, realism
from configtron.lab.testbed.conditions import Condition
from configtron.lab.testbed.model import shipped
from configtron.lab.testbed.pages import PageModel
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.knobs import TUNABLE
from configtron.model.nouns import Knob, Value
from configtron.model.repeats import StoppingRule

# Knobs that are measured; the others of Table 1 stay as they are.
ALIVE = ("tcp_congestion_control", "initcwnd", "pacing", "http_version")
# Ten of the shipped models, from one object to a hundred and fifty.
SITES = ("bank", "blog", "gallery", "mail", "manual", "map", "news", "reference", "search", "shop")


@dataclass(frozen=True)
class MeasurementStudy:
    """conditions and sites by name; grid: configurations; rule: how often each cell is loaded."""

    name: str
    about: str
    conditions: tuple[str, ...]
    grid: Grid
    sites: tuple[str, ...]
    rule: StoppingRule

    @property
    def cells(self) -> int:
        """How many medians there will be."""
        return len(self.conditions) * len(self.grid) * len(self.sites)

    def narrowed(self, conditions: Sequence[str], sites: Sequence[str], looks: Sequence[int]) -> MeasurementStudy:
        """The study with other conditions, sites, looks, where any are named. Errors: `BadInput`."""
        rule = replace(self.rule, looks=tuple(looks)) if looks else self.rule
        named = (tuple(conditions) or self.conditions, tuple(sites) or self.sites)
        found = replace(self, conditions=named[0], sites=named[1], rule=rule)
        for name, names in (("condition", found.conditions), ("site", found.sites)):
            if len(set(names)) < len(names):
                raise BadInput(f"a {name} is named twice: {', '.join(names)}")
        found.networks(), found.pages()
        return found

    def networks(self) -> tuple[Condition, ...]:
        """The conditions. Errors: `BadInput` for a name that is none, or whose trace cannot be read."""
        found = tuple(families.named(name) for name in self.conditions)
        for trace in dict.fromkeys(way.trace for condition in found for way in condition.ways if way.trace):
            opportunities.read(trace)
        return found

    def pages(self) -> tuple[PageModel, ...]:
        """The sites' pages. Errors: `BadInput` for a name that is none."""
        known = shipped()
        for name in self.sites:
            if name not in known:
                raise BadInput(f"no site is called {name!r}; there is: {', '.join(known)}")
        return tuple(known[name] for name in self.sites)


def grid_of(values: Mapping[str, tuple[Value, ...]]) -> Grid:
    """The product of these values, over knobs in Table 1's order, and the default configuration if it is not in it."""
    knobs = tuple(_with_default(knob, values[knob.name]) for knob in TUNABLE if knob.name in values)
    rows = [row for row in product(*(range(len(knob.values)) for knob in knobs)) if _asked(knobs, row, values)]
    default = tuple(knob.values.index(knob.default) for knob in knobs if knob.default is not None)
    return Grid(knobs, tuple(dict.fromkeys([*rows, default])))


def _with_default(knob: Knob, values: tuple[Value, ...]) -> Knob:
    have = (*values,) if knob.default is None or knob.default in values else (*values, knob.default)
    return replace(knob, values=have)


def _asked(knobs: Sequence[Knob], row: Sequence[int], values: Mapping[str, tuple[Value, ...]]) -> bool:
    return all(knob.values[at] in values[knob.name] for knob, at in zip(knobs, row, strict=True))


_TABLE1 = {knob.name: knob.values for knob in TUNABLE if knob.name in ALIVE}
# HC Table 2: its pacing 0 and 1 are these two queueing disciplines.
_TABLE2 = _TABLE1 | {"initcwnd": (3, 6, 9, 12, 15, 18)}
# Two of each knob, the defaults among them: enough for every reader of a tensor to have something to choose from.
_SMOKE = _TABLE1 | {"tcp_congestion_control": ("cubic", "bbr"), "initcwnd": (10, 30)}
# HTTP's version, pacing, and windows up to what a policer can be asked to bear.
_REALISM = _TABLE1 | {"initcwnd": (4, 10, 30, 64)}


def _realism_grid() -> Grid:
    """Four congestion controls by four windows by HTTP's versions unpaced; cubic and reno from ten on with fq too."""
    grid = grid_of(_REALISM)

    def asked(settings: dict[str, Value]) -> bool:
        is_plain = settings["tcp_congestion_control"] in ("cubic", "reno") and settings["initcwnd"] != 4
        return settings["pacing"] == "pfifo_fast" or is_plain

    rows = zip(grid.rows, grid.profiles, strict=True)
    return Grid(grid.knobs, tuple(row for row, profile in rows if asked(dict(profile.settings))))


def _visits_grid() -> Grid:
    """Of the realism grid: cubic with windows of 10 and 30, paced and not, bbr with 30; both of HTTP's versions."""
    grid = _realism_grid()

    def asked(settings: dict[str, Value]) -> bool:
        control, window = settings["tcp_congestion_control"], settings["initcwnd"]
        return (control == "cubic" and window in (10, 30)) or (control == "bbr" and window == 30)

    rows = zip(grid.rows, grid.profiles, strict=True)
    return Grid(grid.knobs, tuple(row for row, profile in rows if asked(dict(profile.settings))))


_HOTCLOUD = tuple(condition.name for condition in families.hotcloud())
_ACCESS = tuple(condition.name for condition in families.access())
# Pantheon's emulators 1 to 6 were calibrated on real paths; the others are pathologies.
_PATHS = tuple(f"pantheon:{number}" for number in range(1, 7))

STUDIES: Mapping[str, MeasurementStudy] = {
    study.name: study
    for study in (
        MeasurementStudy("hotcloud", "HotCloud's 48 conditions and 96 configurations, and the default", _HOTCLOUD,
              grid_of(_TABLE2), SITES, StoppingRule()),
        MeasurementStudy("configtron",
              "ConfigTron's 96 configurations over HotCloud's conditions, access links, Pantheon's paths",
              (*_HOTCLOUD, *_ACCESS, *_PATHS), grid_of(_TABLE1), SITES, StoppingRule()),
        MeasurementStudy("smoke", "576 cells, each loaded once: whether everything works, not how fast anything is",
              tuple(f"hotcloud:{mbit}/{rtt}/{loss}" for mbit, rtt, loss in product((1, 5), (50, 150, 250), (0, 2.5))),
              grid_of(_SMOKE), ("search", "mail", "yardstick"), StoppingRule((1,))),
        MeasurementStudy("realism",
              "harder networks: shallow buffers, neighbours, bursty loss, policers, windows, gathered ACKs",
              tuple(row.condition for row in realism.ROWS), _realism_grid(), ("search", "reference", "shop"),
              StoppingRule((6,))),
        MeasurementStudy("visits",
              "six of these networks: first visits, think time, resumed TLS sessions, warm connections",
              tuple(f"{name}{option}" for name in realism.VISITED for option in realism.VISITS), _visits_grid(),
              ("search", "reference", "shop"), StoppingRule((2,))),
    )
}  # fmt: skip


def study_of(name: str) -> MeasurementStudy:
    """The study of that name. Errors: `BadInput`."""
    if name not in STUDIES:
        raise BadInput(f"no study is called {name!r}; there is: {', '.join(STUDIES)}")
    return STUDIES[name]
