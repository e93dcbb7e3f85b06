# SPDX-License-Identifier: MIT
"""The systemd units: they call commands that there are, by a path that is there, with no more rights than they need."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from configtron.cli.root import root
from configtron.model.errors import DONE, INTERRUPTED, USAGE
from configtron.service.lease import systemd_units
from configtron.service.lease.systemd_units import place_warning
from configtron.tune.units import DATABASE, RECOVER, TIMER, WATCH, units
from tests.support import ROOT
from tests.support.isolation import apart
from tests.support.tune.leases import lease_left_s, shorten_lease
from tests.support.tune_command import TuneCommand, tune
from tests.support.waiting import PATIENCE_S, until

__all__ = ["tune"]
HERE = Path(__file__).parent
SERVICES = (WATCH, RECOVER)
ANALYZE = shutil.which("systemd-analyze")
# What `systemd-analyze security` gave the units that were shipped before: 9.4.
EXPOSURE_MOST = 3.5
# Long enough for a watch to begin on a busy machine.
LEASE_S = 60


def parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def refused(words: list[str]) -> list[str]:
    """Words of a command line that this program does not know."""
    command: click.Command = root
    wrong = []
    for word in words:
        if word.startswith("-"):
            known = {name for param in command.params for name in param.opts}
            wrong += [] if word in known else [word]
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            command = found or command
    return wrong + ([] if not isinstance(command, click.Group) else [f"no command in {words}"])


@pytest.fixture
def written(tune: TuneCommand, tmp_path: Path) -> Path:
    """The units of this installation, in a folder."""
    code, out, message = tune("unit", "-o", str(tmp_path / "system"))
    assert (code, out) == (DONE, "") and "systemctl enable --now" in message
    return tmp_path / "system"


@pytest.mark.parametrize("name", SERVICES)
def test_services_call_what_there_is(written: Path, name: str) -> None:
    service = parsed((written / name).read_text())["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).is_absolute() and os.access(program, os.X_OK) and refused(words) == []
    # Where the commands of the documentation find it.
    assert service["StateDirectory"] == "configtron" and DATABASE in words
    assert service["KillMode"] == "process", "the end of the service would end the keepers"


@pytest.mark.parametrize("name", SERVICES)
def test_the_program_answers_from_anywhere(written: Path, name: str) -> None:
    """As systemd starts it: no path, another folder."""
    program, *_ = shlex.split(parsed((written / name).read_text())["Service"]["ExecStart"])
    done = subprocess.run([program, "--version"], cwd="/", env={}, capture_output=True, text=True)
    assert (done.returncode, "configtron" in done.stdout) == (0, True), done.stderr


@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_the_program_and_knows_every_setting(written: Path, name: str) -> None:
    done = subprocess.run([str(ANALYZE), "verify", "--man=no", str(written / name)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", SERVICES)
def test_exposure(written: Path, name: str) -> None:
    command = [str(ANALYZE), "security", "--offline=true", str(written / name)]
    printed = subprocess.run(command, capture_output=True, text=True).stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", printed)
    assert found and float(found[1]) <= EXPOSURE_MOST, printed


def test_another_database_may_be_written() -> None:
    service = parsed(units(["/opt/a b/configtron"], "/srv/50% tuned/x.db")[WATCH])["Service"]
    assert service["ReadWritePaths"] == '"/srv/50%% tuned"' and "StateDirectory" not in service
    assert service["ExecStart"].startswith('"/opt/a b/configtron" --db "/srv/50%% tuned/x.db" tune watch')


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


def test_a_program_that_others_can_write_is_warned_about(
    tune: TuneCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "configtron"
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if os.geteuid() == 0:
        assert "becomes root" not in tune("unit", TIMER)[2]
    script.chmod(0o777)
    assert "becomes root" in tune("unit", TIMER)[2]


def test_a_program_that_a_service_does_not_see_is_warned_about() -> None:
    places = ("/root/a", "/home/a/b", "/tmp/b", "/usr/bin/true")
    assert ["not see" in place_warning(place) for place in places] == [True, True, True, False]
    assert "not see" not in place_warning("/root/a", homes=True)


def test_what_is_not_there_is_seen() -> None:
    assert refused(["--quiet", "tune", "recover"]) == []
    assert refused(["--quite", "tune", "recover"]) == ["--quite"]
    assert refused(["tune", "recover", "--forever"]) == ["--forever"]
    for words in (["tune"], ["tune", "mend"], []):
        assert refused(words) == [f"no command in {words}"]


def test_the_timer_has_its_service() -> None:
    found = units(["/usr/bin/configtron"])
    assert list(found) == [WATCH, RECOVER, TIMER]
    assert TIMER.replace(".timer", ".service") == RECOVER
    assert parsed(found[TIMER])["Install"]["WantedBy"] == "timers.target"


@pytest.mark.root
@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("driver", ["ebpf", "route", "sysctl"])
def test_the_work_can_be_done_with_these_rights(driver: str, tmp_path: Path) -> None:
    """Both services under their own restrictions: the watch renews a lease, the recovery service undoes it."""
    command = apart([sys.executable, str(HERE / "test_units.py"), driver, str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout


def _worked(driver: str, folder: Path) -> None:
    """Apart: apply, watch and mend."""
    for words in ("link set lo up", "link add d0 type veth peer name d1", "addr add 192.0.2.1/24 dev d0",
                  "link set d0 up", "link set d1 up", "route add default via 192.0.2.2"):  # fmt: skip
        subprocess.run(["ip", *words.split()], check=True)
    state = folder / "state"
    state.mkdir(mode=0o700)
    python = [sys.executable, "-P", "-m", "configtron"]
    for name, text in units(python, f"{state}/db").items():
        (folder / name).write_text(text)

    def typed(*words: str) -> list[dict[str, object]]:
        done = subprocess.run([*python, "--db", f"{state}/db", "tune", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def confined(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "tests" / "support" / "confined.py"), str(folder / name), str(state)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    typed("profile", "set", "p", "tcp_congestion_control=reno")
    typed("prefix", "set", "default" if driver == "sysctl" else "198.51.100.0/24", "p")
    typed("apply", "--driver", driver, "--lease", str(LEASE_S), "-f", "jsonl")
    shorten_lease(state / "db", LEASE_S / 3)
    watch = confined(WATCH)
    until(lambda: watch.poll() is not None or lease_left_s(state / "db") > LEASE_S / 3)
    (act,) = typed("status", "-f", "jsonl")
    assert act["status"] == "leased", f"{act} {watch.poll()} {watch.communicate() if watch.poll() is not None else ''}"
    watch.send_signal(signal.SIGTERM)
    printed = watch.communicate(timeout=PATIENCE_S)
    assert watch.returncode in (INTERRUPTED, 128 + signal.SIGTERM, -signal.SIGTERM), printed
    # no process is left that would undo it
    os.kill(int(str(typed("status", "-f", "jsonl")[0]["keeper"])), signal.SIGKILL)
    shorten_lease(state / "db", 0.0)
    mending = confined(RECOVER)
    printed = mending.communicate(timeout=PATIENCE_S)
    assert mending.returncode == 0, printed
    assert typed("status", "-f", "jsonl") == []
    assert subprocess.run([*python, "--db", f"{state}/db", "tune", "verify"], capture_output=True).returncode == 4


if __name__ == "__main__":
    _worked(sys.argv[1], Path(sys.argv[2]))
