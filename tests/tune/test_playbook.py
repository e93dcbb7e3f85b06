# SPDX-License-Identifier: MIT
"""The Ansible playbook of docs/fleet.md: it calls commands that exist; and it deploys a manager and an agent, each in a
root tree and a network namespace of its own, and changes nothing when it is run again.

The play that installs, tagged `install`, is left out here: it asks the package registry. tests/support/
fleet_systemctl.py stands in for systemd.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.service.lease.processes import end, ended, named
from tests.support import ROOT
from tests.support.tune_command import refused
from tests.support.waiting import GUEST_S, PATIENCE_S

PLAYBOOK = ROOT / "deploy" / "ansible" / "fleet.yml"
BESIDE = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
ANSIBLE = shutil.which("ansible-playbook", path=BESIDE)
HOSTS = {"mgr": "10.77.1.1", "web1": "10.77.1.2"}
MOUNTED = ("proc", "run", "tmp", "var/lib")
UNPRIVILEGED = 65_534


def test_modules_are_builtin_and_commands_exist() -> None:
    """Neither a collection nor a command that this release does not have."""
    text = PLAYBOOK.read_text()
    modules = set(re.findall(r"^ +([a-z_]+(?:\.[a-z_]+)+):", text, re.MULTILINE))
    assert modules and all(name.startswith("ansible.builtin.") for name in modules)
    calls = re.findall(r"(?:configtron|\{\{ manage \}\}) ((?:tune|learn) [a-z -]+)", text)
    assert len(calls) >= 6
    assert [refused(call.split()) for call in calls] == [[]] * len(calls)


def ran(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Path]:
    """Root trees over this one, joined by a cable; how each is entered, as a shell; and the inventory."""
    names = {host: f"ct-{host}-{os.getpid()}" for host in HOSTS}
    one, two = names.values()
    trees = {host: tmp_path / host / "root" for host in HOSTS}
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    try:
        for name in names.values():
            ran("ip", "netns", "add", name)
        ran("ip", "link", "add", "d0", "netns", one, "type", "veth", "peer", "name", "d0", "netns", two)
        for host, tree in trees.items():
            for folder in ("root", "up", "work"):
                (tree.parent / folder).mkdir(parents=True)
            layers = f"lowerdir=/,upperdir={tree.parent}/up,workdir={tree.parent}/work"
            ran("mount", "-t", "overlay", "-o", layers, "overlay", tree)
            ran("mount", "-t", "proc", "proc", tree / "proc")
            ran("mount", "--bind", "/dev", tree / "dev")
            for folder in MOUNTED[1:]:
                ran("mount", "-t", "tmpfs", "tmpfs", tree / folder)
            inside = tree / str(exchange).lstrip("/")
            inside.mkdir(parents=True)
            ran("mount", "--bind", exchange, inside)
            systemctl = tree / "usr/bin/systemctl"
            systemctl.unlink(missing_ok=True)
            shutil.copy(ROOT / "tests/support/fleet_systemctl.py", systemctl)
            systemctl.chmod(0o755)
            program = tree / "usr/local/bin/configtron"
            program.unlink(missing_ok=True)
            program.symlink_to(Path(sys.executable).parent / "configtron")
            ran("ip", "-n", names[host], "addr", "add", f"{HOSTS[host]}/24", "dev", "d0")
            for link in ("lo", "d0"):
                ran("ip", "-n", names[host], "link", "set", link, "up")
            shell = tmp_path / f"{host}.sh"
            shell.write_text(f'#!/bin/sh\nexec nsenter --net=/run/netns/{names[host]} chroot {tree} /bin/sh "$@"\n')
            shell.chmod(0o755)
        inventory = tmp_path / "inventory.ini"
        inventory.write_text(
            f"[managers]\nmgr ansible_shell_executable={tmp_path}/mgr.sh\n"
            f"[agents]\nweb1 ansible_shell_executable={tmp_path}/web1.sh\n[all:vars]\nansible_connection=local\n"
            f"ansible_remote_tmp={exchange}\nansible_python_interpreter=/usr/bin/python3\n"
            f"configtron_manager={HOSTS['mgr']}\nconfigtron_wheel=none\n"
        )
        yield inventory
    finally:
        for host, tree in trees.items():
            for path in (tree / "run/started").glob("*.service"):
                service = named(int(path.read_text()))
                end(service, signal.SIGTERM)
                ended(service, PATIENCE_S)
            subprocess.run(["umount", "-R", "-l", tree], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", names[host]], check=False, capture_output=True)


def played(inventory: Path) -> dict[str, tuple[int, ...]]:
    """Run the playbook; return host -> (ok, changed, unreachable, failed)."""
    environment = {**os.environ, "ANSIBLE_HOME": str(inventory.parent / "ansible"), "ANSIBLE_PIPELINING": "1",
                   "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}  # fmt: skip
    command = [str(ANSIBLE), "-i", str(inventory), str(PLAYBOOK), "--skip-tags", "install"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=GUEST_S)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    rows = re.findall(r"^(\w+) +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", done.stdout, re.MULTILINE)
    return {host: tuple(map(int, numbers)) for host, *numbers in rows}


def readable() -> bool:
    """Return whether a user without rights can run this Python."""
    words = ["setpriv", f"--reuid={UNPRIVILEGED}", "--clear-groups", sys.executable, "-c", "import configtron.cli"]
    return subprocess.run(words, check=False, capture_output=True, cwd="/").returncode == 0


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.skipif(ANSIBLE is None, reason="needs Ansible: pip install ansible-core")
def test_the_playbook_deploys_a_fleet_and_changes_nothing_again(hosts: Path) -> None:
    if not readable():
        pytest.skip("the agent's user cannot read this environment's Python")
    first, second = played(hosts), played(hosts)
    assert [row[2:] for row in (*first.values(), *second.values())] == [(0, 0)] * 4
    assert first["mgr"][1] == 5 and first["web1"][1] >= 5
    assert [row[1] for row in second.values()] == [0, 0]
