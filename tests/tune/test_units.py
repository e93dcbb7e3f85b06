# SPDX-License-Identifier: MIT
"""The systemd units: they call commands that there are, by a path that is there, with no more rights than they need.

test_units.py DRIVER|fleet FOLDER    apart: the services of one host, or of a fleet, under their own restrictions
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import DONE, INTERRUPTED, NOTHING, USAGE
from configtron.model.nouns import Profile
from configtron.service.fleet import enrolment
from configtron.service.lease import systemd_units
from configtron.service.lease.systemd_units import place_warning
from configtron.service.outcomes.web_group import web_group
from configtron.tune.fleet_units import AGENT, AGENT_STATE, MANAGER, MANAGER_STATE, SERVE, fleet_units, serve_unit
from configtron.tune.units import DATABASE, RECOVER, STATE, TIMER, WATCH, units
from tests.support import ROOT
from tests.support.isolation import apart
from tests.support.tune.leases import lease_left_s, shorten_lease
from tests.support.tune_command import TuneCommand, refused, tune
from tests.support.waiting import GUEST_S, PATIENCE_S, until

__all__ = ["tune"]
SERVICES = (WATCH, RECOVER)
needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
# systemd-analyze security: 0 is best, 10 is worst; what was shipped before had 9.4.
EXPOSURE_MOST = {WATCH: 3.5, RECOVER: 3.5, AGENT: 4.0, MANAGER: 4.0, SERVE: 4.0}
# Long enough for a watch to begin on a busy machine.
LEASE_S = 60


def parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


@pytest.fixture
def written(tune: TuneCommand, tmp_path: Path) -> Path:
    """The units of this installation, in a folder."""
    code, out, message = tune("unit", "-o", str(tmp_path / "system"))
    assert (code, out) == (DONE, "") and "systemctl enable --now" in message
    return tmp_path / "system"


@pytest.mark.parametrize("name", SERVICES)
def test_services_call_what_there_is_from_anywhere(written: Path, name: str) -> None:
    """As systemd starts it: no path, another folder."""
    service = parsed((written / name).read_text())["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).is_absolute() and os.access(program, os.X_OK) and refused(words) == []
    # Where the commands of the documentation find it.
    assert service["StateDirectory"] == "configtron" and DATABASE in words
    assert service["KillMode"] == "process", "the end of the service would end the keepers"
    done = subprocess.run([program, "--version"], cwd="/", env={}, capture_output=True, text=True)
    assert (done.returncode, "configtron" in done.stdout) == (0, True), done.stderr


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)
    if os.geteuid() and done.stderr.endswith("ermission denied\n"):
        pytest.skip(f"systemd-analyze: {done.stderr.strip()}")
    return done


@needs_analyze
@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_the_program_and_knows_every_setting(written: Path, name: str) -> None:
    done = analyzed("verify", "--man=no", str(written / name))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
@pytest.mark.parametrize("name", EXPOSURE_MOST)
def test_exposure(name: str, tmp_path: Path) -> None:
    program, unit = ["/usr/bin/configtron"], tmp_path / name
    every = {**units(program), **fleet_units(program), SERVE: serve_unit(program, [], "/run/configtron")}
    unit.write_text(every[name])
    printed = analyzed("security", "--offline=true", "--no-pager", str(unit)).stdout
    found = re.search(r"exposure level for \S+: ([0-9.]+)", printed)
    assert found and float(found[1]) <= EXPOSURE_MOST[name], printed


def test_paths_of_any_name_are_one_word_and_another_database_may_be_written() -> None:
    service = parsed(units(["/opt/a b/configtron"], "/srv/50% tuned/x.db")[WATCH])["Service"]
    assert service["ReadWritePaths"] == '"/srv/50%% tuned"' and "StateDirectory" not in service
    assert service["ExecStart"].startswith('"/opt/a b/configtron" --db "/srv/50%% tuned/x.db" tune watch')
    fleet = fleet_units(["/opt/my tools/configtron"])
    assert 'ExecStart="/opt/my tools/configtron" --db /var/lib/configtron/configtron.db tune agent' in fleet[AGENT]


def test_a_manager_does_not_come_back_when_another_is_obeyed_and_the_timer_has_its_service() -> None:
    fleet = fleet_units(["/usr/bin/configtron"])
    assert "RestartPreventExitStatus=2 5 6\n" in fleet[MANAGER] and "CapabilityBoundingSet=\n" in fleet[MANAGER]
    # With 1024, connections that say nothing hold up an agent that starts.
    assert "\nLimitNOFILE=65536\n" in fleet[MANAGER]
    # Five failed starts in ten seconds are systemd's limit unless the unit has its own.
    assert all("Type=notify\n" in text for text in fleet.values())
    assert all("StartLimitIntervalSec=0\n" in text.partition("[Service]")[0] for text in fleet.values())
    found = units(["/usr/bin/configtron"])
    assert list(found) == [WATCH, RECOVER, TIMER] and TIMER.replace(".timer", ".service") == RECOVER
    assert parsed(found[TIMER])["Install"]["WantedBy"] == "timers.target"


def test_one_is_printed_by_its_name(tune: TuneCommand, tmp_path: Path) -> None:
    assert tune("unit", TIMER)[1] == units(["x"])[TIMER]
    every = tune("unit")[1]
    assert all(f"# {name}\n" in every for name in (*SERVICES, TIMER))
    code, _, message = tune("unit", "configtron.service")
    assert code == USAGE and WATCH in message
    (tmp_path / "file").touch()
    assert tune("unit", "-o", str(tmp_path / "file" / "system"))[0] == USAGE


def test_without_a_script_the_module_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert systemd_units.program() == [str(tmp_path / "python"), "-P", "-m", "configtron"]


def test_a_program_that_others_can_write_or_that_a_service_does_not_see_is_warned_about(
    tune: TuneCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "configtron"
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if os.geteuid() == 0:
        assert "becomes root" not in tune("unit", TIMER)[2]
    script.chmod(0o777)
    assert "becomes root" in tune("unit", TIMER)[2]
    places = ("/root/a", "/home/a/b", "/tmp/b", "/usr/bin/true")
    assert ["not see" in place_warning(place) for place in places] == [True, True, True, False]
    assert "not see" not in place_warning("/root/a", homes=True)


@pytest.mark.parametrize(
    ("words", "unknown"),
    [("--quiet tune recover", []), ("--quite tune recover", ["--quite"]), ("tune recover --forever", ["--forever"]),
     ("tune", ["no command in ['tune']"]), ("tune mend", ["no command in ['tune', 'mend']"]),
     ("", ["no command in []"])],
)  # fmt: skip
def test_what_is_not_there_is_seen(words: str, unknown: list[str]) -> None:
    assert refused(words.split()) == unknown


@pytest.mark.root
@needs_analyze
@pytest.mark.parametrize("what", ["ebpf", "route", "sysctl", "fleet"])
def test_the_work_can_be_done_with_these_rights(what: str, tmp_path: Path) -> None:
    """The watch renews a lease, the recovery service undoes it; a manager and an agent work. ZeroMQ must name its
    threads' scheduling and look for interfaces, and the agent become another user: root here, whose rights it takes."""
    command = apart([sys.executable, str(Path(__file__)), what, str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=GUEST_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout


PYTHON = [sys.executable, "-P", "-m", "configtron"]


def _ran(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True)


def _confined(unit: Path, state: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, ROOT / "tests" / "support" / "confined.py", unit, state]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def _one_host(driver: str, folder: Path) -> None:
    """Apply, watch and recover."""
    _ran("ip link set lo up", "ip link add d0 type veth peer name d1", "ip addr add 192.0.2.1/24 dev d0",
         "ip link set d0 up", "ip link set d1 up", "ip route add default via 192.0.2.2")  # fmt: skip
    state = folder / "state"
    state.mkdir(mode=0o700)
    for name, text in units(PYTHON, f"{state}/db").items():
        (folder / name).write_text(text)

    def typed(*words: str, code: int = DONE) -> list[dict[str, object]]:
        done = subprocess.run([*PYTHON, "--db", f"{state}/db", "tune", *words], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    typed("profile", "set", "p", "tcp_congestion_control=reno")
    typed("prefix", "set", "default" if driver == "sysctl" else "198.51.100.0/24", "p")
    typed("apply", "--driver", driver, "--lease", str(LEASE_S), "-f", "jsonl")
    shorten_lease(state / "db", LEASE_S / 3)
    watch = _confined(folder / WATCH, str(state))
    until(lambda: watch.poll() is not None or lease_left_s(state / "db") > LEASE_S / 3)
    (act,) = typed("status", "-f", "jsonl")
    assert act["status"] == "leased", f"{act} {watch.poll()} {watch.communicate() if watch.poll() is not None else ''}"
    watch.send_signal(signal.SIGTERM)
    printed = watch.communicate(timeout=PATIENCE_S)
    assert watch.returncode in (INTERRUPTED, 128 + signal.SIGTERM, -signal.SIGTERM), printed
    # no process is left that would undo it
    os.kill(int(str(typed("status", "-f", "jsonl")[0]["keeper"])), signal.SIGKILL)
    shorten_lease(state / "db", 0.0)
    recovery = _confined(folder / RECOVER, str(state))
    printed = recovery.communicate(timeout=PATIENCE_S)
    assert recovery.returncode == 0, printed
    assert typed("status", "-f", "jsonl") == [] == typed("verify", code=NOTHING)


def _fleet(folder: Path) -> None:
    """A manager and an agent, until the manager shows the map that the agent holds."""
    _ran("ip link set lo up", "mount -t tmpfs tmpfs /var/lib", "mount -t tmpfs tmpfs /run",
         "mount -t bpf bpf /sys/fs/bpf")  # fmt: skip
    for name, text in fleet_units(PYTHON).items():
        (folder / name).write_text(text.replace(" tune agent ", " tune agent --user root "))
    for state in (MANAGER_STATE, AGENT_STATE, STATE):
        Path(state).mkdir(mode=0o700)
    database = Path(MANAGER_STATE) / "configtron.db"
    with Tuning(database) as tuning:
        tuning.set_profiles([Profile("fast", (("initcwnd", 20),))])
    line = enrolment.enroll(database, database.parent / "fleet", "web1", "tcp://127.0.0.1:5560")
    enrolment.join(Path(AGENT_STATE), line, "root")
    Path("/run/configtron").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, socket.socket() as browser:
        systemd.bind(str(folder / "notify"))
        systemd.settimeout(60)
        running = []
        for name in (MANAGER, AGENT):
            told = {"NOTIFY_SOCKET": str(folder / "notify"), "CONFIGTRON_TUNE_AGENT_BEACONS": "127.0.0.1:9315"}
            running.append(_confined(folder / name, "/var/lib", **told))
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


if __name__ == "__main__":
    _fleet(Path(sys.argv[2])) if sys.argv[1] == "fleet" else _one_host(sys.argv[1], Path(sys.argv[2]))
