# SPDX-License-Identifier: MIT
"""Another program takes 100 000 prefixes of ebpf and kmod away: one event, one alarm, nothing is written again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support import ROOT
from tests.support.faults.rows import write_row
from tests.support.tune.aside import aside
from tests.support.tune.in_guest import in_guest

HERE = ROOT / "tests" / "support" / "faults"
# s within which a change is noticed; on a busy machine.
NOTICED_S = 15.0
END = (
    "one place is frozen, new connections have Default; after `tune unfreeze` all 100 000 prefixes are back in {:.1f} s"
)


def check(seen: dict[str, Any], driver: str) -> None:
    assert (seen["before"], seen["after"], seen["later"], seen["end"]) == (20, 10, 10, 10)
    assert seen["frozen"] == [["place", driver]]
    assert seen["leases"] == [0.0, 0.0], "the lease of what is gone is over, by the metrics and by `tune status`"
    # From the change until it was unfrozen: that line, and the refusal of the map that came meanwhile.
    whole = seen["log"].splitlines()
    first = whole.index(seen["lines"][0])
    assert len(seen["lines"]) == 1 and "map 1.2 is refused" in whole[first + 1] and "unfrozen" in whole[first + 2]
    assert not seen["left"]


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("how", ["detached", "removed"])
def test_a_program_that_is_detached_or_unpinned_stays_so(how: str) -> None:
    seen = aside("foreign_changes.py", "ebpf", how, folder=HERE)
    check(seen, "ebpf")
    fault = {"detached": "eBPF program detached by another program", "removed": "eBPF pins removed by another program"}
    write_row(fault[how], END.format(seen["back_s"]), seen["lines"][0], seen["noticed_s"], NOTICED_S)


@pytest.mark.slow
@pytest.mark.lab
def test_tables_of_the_module_that_are_emptied_stay_so(tmp_path: Path) -> None:
    virtual = UmlVirtual()
    if reason := virtual.available():
        pytest.skip(reason)
    module = module_for_guest(lambda line: print(line, file=sys.stderr))
    seen = in_guest(virtual, tmp_path, "foreign_changes.py", "kmod", str(module), of="faults")
    check(seen, "kmod")
    assert (seen["unload"], seen["complaints"]) == (0, [])
    write_row("kmod's tables emptied by another program", END.format(seen["back_s"]), seen["lines"][0],
              seen["noticed_s"], NOTICED_S)  # fmt: skip
