# SPDX-License-Identifier: MIT
"""The units of a fleet are valid, and systemd's own judgement of their exposure is at most 4."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.nouns import Profile
from configtron.service.fleet import enrolment
from configtron.service.outcomes.web_group import web_group
from configtron.tune.fleet_units import AGENT, AGENT_STATE, MANAGER, MANAGER_STATE, SERVE, fleet_units, serve_unit
from configtron.tune.units import STATE
from tests.support import ROOT
from tests.support.isolation import apart
from tests.support.waiting import GUEST_S, PATIENCE_S, until

# systemd-analyze security: 0 is best, 10 is worst.
MOST_EXPOSURE = 4.0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", [AGENT, MANAGER, SERVE])
def test_exposure(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name
    program = ["/usr/bin/configtron"]
    unit.write_text({**fleet_units(program), SERVE: serve_unit(program, [], "/run/configtron")}[name])
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
    # Five failed starts in ten seconds are systemd's limit unless the unit has its own.
    assert all("Type=notify\n" in text for text in units.values())
    assert all("StartLimitIntervalSec=0\n" in text.partition("[Service]")[0] for text in units.values())


@pytest.mark.root
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_both_services_work_with_their_rights(tmp_path: Path) -> None:
    """As shipped before, neither process started: ZeroMQ could not name its threads' scheduling, nor look for
    interfaces, and the agent could not become another user. The user is root here, whose rights the unit takes."""
    command = apart([sys.executable, str(Path(__file__)), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=GUEST_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout


def _worked(folder: Path) -> None:
    """Apart: a manager and an agent by their units, until the manager shows the map that the agent holds."""
    for words in (
        "ip link set lo up",
        "mount -t tmpfs tmpfs /var/lib",
        "mount -t tmpfs tmpfs /run",
        "mount -t bpf bpf /sys/fs/bpf",
    ):
        subprocess.run(words.split(), check=True)
    python = [sys.executable, "-P", "-m", "configtron"]
    for name, text in fleet_units(python).items():
        (folder / name).write_text(text.replace(" tune agent ", " tune agent --user root "))
    for state in (MANAGER_STATE, AGENT_STATE, STATE):
        Path(state).mkdir(mode=0o700)
    database = Path(MANAGER_STATE) / "configtron.db"
    with Tuning(database) as tuning:
        tuning.set_profiles([Profile("fast", (("initcwnd", 20),))])
    # Both at once: the agent's driver takes a second to look about.
    line = enrolment.enroll(database, database.parent / "fleet", "web1", "tcp://127.0.0.1:5560")
    enrolment.join(Path(AGENT_STATE), line, "root")
    Path("/run/configtron").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, socket.socket() as browser:
        systemd.bind(str(folder / "notify"))
        systemd.settimeout(60)
        running = []
        for name in (MANAGER, AGENT):
            running.append(_confined(folder / name))
            assert systemd.recv(100) == b"READY=1"
        # systemctl has returned: beacons are taken, and log lines.
        assert browser.connect_ex(("127.0.0.1", 9315)) == 0 and Path("/run/configtron/outcomes.log").is_socket()
        # Unlike the folder, which is root's here.
        assert Path("/run/configtron/outcomes.log").stat().st_gid == web_group()

    def held() -> bool:
        assert [process.poll() for process in running] == [None] * len(running), "a service has ended"
        return enrolment.agents(database)[0].held not in ("", "0.0")

    until(held)
    for process in running:
        process.terminate()
    for process in running:
        process.wait(PATIENCE_S)


def _confined(unit: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "NOTIFY_SOCKET": str(unit.parent / "notify"),
                   "CONFIGTRON_TUNE_AGENT_BEACONS": "127.0.0.1:9315"}  # fmt: skip
    command = [sys.executable, ROOT / "tests" / "support" / "confined.py", unit, "/var/lib"]
    return subprocess.Popen(command, env=environment)


if __name__ == "__main__":
    _worked(Path(sys.argv[1]))
