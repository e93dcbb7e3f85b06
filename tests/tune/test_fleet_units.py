# SPDX-License-Identifier: MIT
"""The units of a fleet are valid, and systemd's own judgement of their exposure is at most 4."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from configtron.tune.fleet_units import AGENT, MANAGER, fleet_units

# systemd-analyze security: 0 is best, 10 is worst.
MOST_EXPOSURE = 4.0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", [AGENT, MANAGER])
def test_exposure(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name
    unit.write_text(fleet_units(["/usr/bin/configtron"])[name])
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    if found is None:
        pytest.skip(f"this systemd-analyze judges no file: {done.stderr[:100]}")
    assert float(found[1]) <= MOST_EXPOSURE


def test_a_path_with_a_space_is_one_word_and_the_manager_does_not_come_back_when_another_is_obeyed() -> None:
    units = fleet_units(["/opt/my tools/configtron"])
    assert 'ExecStart="/opt/my tools/configtron" --db /var/lib/configtron/configtron.db tune agent' in units[AGENT]
    assert "RestartPreventExitStatus=2 5 6\n" in units[MANAGER] and "CapabilityBoundingSet=\n" in units[MANAGER]
