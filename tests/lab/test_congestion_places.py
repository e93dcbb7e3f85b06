# SPDX-License-Identifier: MIT
"""Every place that must name a congestion control (docs/recipes/congestion-control.md), and what lacks one."""

from __future__ import annotations

import re

import pytest

from configtron.lab.uml import debian
from configtron.lab.uml import user_mode_linux as uml
from configtron.model.congestion import CONGESTION_CONTROLS, FAIR, OF_LINUX, OF_TABLE1, Congestion
from configtron.model.knobs import KNOBS
from tests.support import ROOT

# Kernels of the lab -> the files that switch its congestion controls on, and how.
KERNELS = {
    "configtron/lab/uml/schemes.fragment": (
        ("configtron/lab/uml/config.fragment", "configtron/lab/uml/schemes.fragment"),
        "y",
    ),
    "configtron/lab/uml/schemes-modules.fragment": (("configtron/lab/uml/schemes-modules.fragment",), "m"),
}
# On by default in any kernel that has CONFIG_TCP_CONG_ADVANCED.
BY_DEFAULT = {"configtron/lab/uml/schemes.fragment": {"CUBIC"}}


def switched(place: str) -> set[str]:
    files, how = KERNELS[place]
    text = "".join((ROOT / file).read_text() for file in files)
    return set(re.findall(rf"^CONFIG_TCP_CONG_(\w+)={how}$", text, re.M)) - {"ADVANCED"} | BY_DEFAULT.get(place, set())


def missing(row: Congestion) -> list[str]:
    """Return each place that lacks a congestion control, in words."""
    if not row.kconfig:
        return []
    found = [
        f"{place}: CONFIG_TCP_CONG_{row.kconfig} is not switched on" for place in KERNELS
        if row.kconfig not in switched(place)
    ]  # fmt: skip
    if f"tcp_{row.name}" not in debian.KEPT and row.name != "cubic":
        found.append(f"configtron/lab/uml/debian.py: tcp_{row.name} is not kept")
    return found


@pytest.mark.parametrize("row", CONGESTION_CONTROLS, ids=lambda row: row.name)
def test_every_place_names_it(row: Congestion) -> None:
    assert missing(row) == []


def test_the_kernels_have_no_other() -> None:
    known = {row.kconfig for row in CONGESTION_CONTROLS}
    for place in KERNELS:
        assert switched(place) - known == set(), f"configtron/model/congestion.py lacks what {place} switches on"


def test_the_tables_of_it() -> None:
    assert KNOBS["tcp_congestion_control"].values == OF_TABLE1 == ("cubic", "reno", "vegas", "bbr")
    assert len(set(OF_LINUX)) == len(OF_LINUX) and set(OF_TABLE1) <= set(OF_LINUX) >= FAIR
    assert {"net/ipv4/tcp_bbr", "net/ipv4/tcp_vegas"} <= set(uml.REAL_MODULES)


def test_no_other_list_of_them() -> None:
    """A literal of three or more of them is a second list; the studies' plans and the drivers' words are not lists."""
    names = "|".join(OF_LINUX)
    several = re.compile(rf'"(?:tcp_)?(?:{names})"(?:,\s*"(?:tcp_)?(?:{names})"){{2,}}')
    studies = {
        "configtron/studies/calibration.py",
        "configtron/studies/pantheon.py",
        "configtron/studies/flows/ranking.py",
    }
    folders = ("configtron/model", "configtron/linux", "configtron/lab", "learner", "configtron/studies", "tune")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    found = {str(file.relative_to(ROOT)) for file in files if several.search(file.read_text())}
    assert found - studies == set()
