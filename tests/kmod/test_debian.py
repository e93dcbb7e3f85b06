# SPDX-License-Identifier: MIT
"""The module on Debian 12's own kernel with two processors: the net that is cast in every `make test-all`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kmod import nets

# As many as end within twenty seconds on an idle machine.
CONNECTIONS = 2000
LOADS = 3


@pytest.mark.lab
@pytest.mark.alone
def test_connections_and_loads_on_debians_kernel(tmp_path: Path) -> None:
    net = nets.NETS["debian"]
    if reason := net.backend.available():
        pytest.skip(reason)
    catch = nets.cast(net, net.steps(CONNECTIONS, LOADS)[:3], tmp_path)
    assert (catch.code, catch.reports) == (0, []), catch.console
    table, churn, loads = catch.steps
    assert {row["cc"] for row in table["rows"]} >= {"bbr", "cubic", "dctcp", "reno", "vegas", "rep_init"}
    assert [row for row in table["rows"] if not row["result"].startswith("ok")] == []
    # a few may meet a full queue
    assert churn["balanced"] and churn["connections"] > 0.9 * CONNECTIONS
    # everything that was meant to happen did
    happened = ("held", "assigned", "overridden", "reconnected", "changes", "namespaces", "unloads_refused", "records")
    assert [what for what in happened if not churn[what]] == []
    assert loads["loads"] == LOADS and loads["connections"] > 0


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.parametrize("name", ["debian", "6.12", "6.18", "newest"])
def test_each_driver_and_knob_on_kernels_that_people_have(name: str, tmp_path: Path) -> None:
    net = nets.NETS[name]
    if reason := net.backend.available():
        pytest.skip(f"{name}: {reason}")
    catch = nets.cast(net, ("knobs",), tmp_path)
    assert catch.well(), "\n".join([*nets.matrix({name: catch.knobs()}), *catch.reports, catch.console[-2000:]])
    assert {row["driver"] for row in catch.knobs() if row["result"] == "seen"} >= {"ebpf", "route", "sysctl"}
