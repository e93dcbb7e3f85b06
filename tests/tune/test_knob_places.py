# SPDX-License-Identifier: MIT
"""Every place that must name a knob of the kernel (docs/recipes/knob.md), and what lacks one."""

from __future__ import annotations

import re

from configtron.model.knobs import KERNEL, KNOBS
from configtron.tune import metrics, pools
from configtron.tune.drivers import sysctl
from configtron.tune.drivers.bpf import reach
from configtron.tune.drivers.kmod import module_units
from tests.support import ROOT

# Driver -> (its module, what it sets, what it refuses).
DRIVERS = {
    "tune/drivers/kmod/module_units.py": (module_units.REACHES, module_units.REFUSED),
    "tune/drivers/bpf/reach.py": (reach.REACHES, reach.REFUSED),
    "tune/metrics.py": (metrics.BY_KNOB, metrics.REFUSED),
    "tune/drivers/sysctl.py": (sysctl.REACHES, sysctl.REFUSED),
    "tune/pools.py": (pools.REACHES, pools.REFUSED),
}


def header_keys() -> list[str]:
    """Return the names of `enum configtron_key`, in its order."""
    enum = re.search(r"enum configtron_key \{(.*?)\}", (ROOT / "kmod" / "configtron.h").read_text(), re.S)
    assert enum
    return re.findall(r"CONFIGTRON_(\w+),", enum[1])


def missing(knob: str) -> list[str]:
    """Return each place that lacks a knob or contradicts the table, in words."""
    names, found = KERNEL[knob], []
    if knob not in KNOBS:
        return [f"configtron/model/knobs.py: {knob} has a row in KERNEL and none among the knobs"]
    if names.key:
        place, name = names.key
        keys, rows = header_keys(), (ROOT / "kmod" / "params.c").read_text()
        if keys[place : place + 1] != [name]:
            found.append(f"kmod/configtron.h: CONFIGTRON_{name} is not number {place} of enum configtron_key")
        if f'[CONFIGTRON_{name}] = {{\n\t\t"{knob}"' not in rows:
            found.append(f"kmod/params.c: no row CONFIGTRON_{name} is called {knob}")
        functions = set(re.findall(rf"\bct_[gs]et_{knob.removeprefix('tcp_')}\b", rows.partition("ct_rows[")[2]))
        defined = {*re.findall(r"^static \w+ (ct_\w+)\(", rows, re.M)}
        defined |= {f"ct_get_{name}" for name in re.findall(r"^CT_GET\((\w+),", rows, re.M)}
        found += [f"kmod/params.c: {one}() is not defined" for one in functions - defined]
    for file, (reaches, refused) in DRIVERS.items():
        if knob not in reaches and knob not in refused:
            found.append(f"{file}: {knob} is neither in REACHES nor in REFUSED")
        if knob in reaches and knob in refused:
            found.append(f"{file}: {knob} is in REACHES and in REFUSED")
    has = {
        "tune/drivers/kmod/module_units.py": names.key is not None,
        "tune/drivers/bpf/reach.py": names.step is not None,
        "tune/metrics.py": names.metric is not None,
        "tune/drivers/sysctl.py": bool(names.sysctl),
    }
    found += [
        f"{file}: it sets {knob}, for which KERNEL has no name" for file, named in has.items()
        if knob in DRIVERS[file][0] and not named
    ]  # fmt: skip
    row = metrics.BY_KNOB.get(knob)
    if names.metric is not None and (row is None or row.number != names.metric):
        found.append(f"tune/metrics.py: {knob} is not metric {names.metric}")
    if names.sysctl and (knob not in sysctl.BY_KNOB or sysctl.BY_KNOB[knob].file != names.sysctl):
        found.append(f"tune/drivers/sysctl.py: {knob} is not the file {names.sysctl}")
    if f"| `{knob}` |" not in (ROOT / "docs" / "tune.md").read_text():
        found.append(f"docs/tune.md: no row for {knob}; run: python -m configtron.cli.manual docs")
    return found


def test_every_place_names_the_knobs_of_the_table_alone() -> None:
    assert {knob: lacks for knob in KERNEL if (lacks := missing(knob))} == {}
    keys = {names.key[1] for names in KERNEL.values() if names.key}
    assert set(header_keys()) - keys == set(), "kmod/configtron.h has keys that configtron/model/knobs.py lacks"
    settable = {knob for file, (reaches, _) in DRIVERS.items() if file != "tune/pools.py" for knob in reaches}
    assert settable - KERNEL.keys() == set(), "drivers set knobs that configtron/model/knobs.py lacks"
