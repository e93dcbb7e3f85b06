# SPDX-License-Identifier: MIT
"""Lab hosts: what makes them start, makes them equal, and keeps them away from the host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.uml import backend as backend_module
from configtron.lab.uml import enclosure, kernel
from configtron.lab.uml import user_mode_linux as uml
from configtron.lab.uml.user_mode_linux import (
    GUEST_OUTPUT,
    NO_EXIT_CODE,
    Backend,
    GuestJob,
    Running,
    kernel_arguments,
    pick,
)
from configtron.model.errors import BadInput, Missing
from tests.support.waiting import GUEST_S, PATIENCE_S, until

JOB = GuestJob(command=("true",), output=Path("/nowhere"), seed=1, cpu=0)

# Everything chance or the clock can reach: random bytes, MAC addresses, time, memory, and packets lost by netem.
CHANCES = """
head -c 64 /dev/urandom | od -An -tx1
date +%s%N
head -1 /proc/meminfo
ip netns add a && ip netns add b
ip link add va netns a type veth peer name vb netns b
ip -n a addr add 10.9.0.1/24 dev va && ip -n b addr add 10.9.0.2/24 dev vb
ip -n a link set va up && ip -n b link set vb up
ip netns exec a tc qdisc add dev va root netem delay 20ms loss 20%
ip -n a link show va; ip -n b link show vb
ip netns exec a ping -c 40 -i 0.2 10.9.0.2
date +%s%N
"""


def shell(script: str, output: Path, seed: int = 1, cpu: int = 0) -> GuestJob:
    return GuestJob(("sh", "-c", script), output, seed, cpu, limit_s=GUEST_S)


def run(backend: Backend, job: GuestJob) -> tuple[int, str]:
    running = backend.boot(job)
    code = running.wait(GUEST_S)
    return code, running.console.read_text()


@pytest.fixture(params=uml.BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    usable: Backend = request.param
    if reason := usable.available():
        pytest.skip(reason)
    return usable


@pytest.fixture
def virtual() -> Backend:
    usable = uml.UmlVirtual()
    if reason := usable.available():
        pytest.skip(reason)
    return usable


class Stub:
    """A backend whose only trait is whether it can be used."""

    virtual_time = False

    def __init__(self, name: str, reason: str):
        self.name, self.reason = name, reason

    def available(self) -> str:
        return self.reason

    def boot(self, job: GuestJob) -> Running:
        raise AssertionError(f"{self.name} must not be booted here: {job}")


def test_command_line_has_nothing_of_the_job() -> None:
    other = replace(JOB, command=("false", "x"), output=Path("/else/where"), seed=2, cpu=1, environment=(("A", "b"),))
    assert kernel_arguments(JOB, ["time-travel"]) == kernel_arguments(other, ["time-travel"])
    # what the guest is made of does show
    assert kernel_arguments(JOB, ["time-travel"]) != kernel_arguments(replace(JOB, memory_mb=301), ["time-travel"])
    assert kernel_arguments(JOB, ["time-travel"]) != kernel_arguments(JOB, ["clock"])


def test_command_line_is_of_a_read_only_guest() -> None:
    words = kernel_arguments(replace(JOB, memory_mb=300), ["clock"])
    assert {"ro", "mem=300M", "clock", "rootfstype=hostfs", "init=/run/configtron/init"} <= set(words)
    assert "rw" not in words


def test_job_file_is_three_lists() -> None:
    text = enclosure.job_file(replace(JOB, command=("echo", "a b"), environment=(("K", "v"),)), ("/m.ko",))
    modules, environment, command = (part.split(b"\0") for part in text.removesuffix(b"\0").split(b"\0\0"))
    assert (modules, command) == ([b"/m.ko"], [b"echo", b"a b"])
    assert environment[-1] == b"K=v" and f"CONFIGTRON_OUTPUT={GUEST_OUTPUT}".encode() in environment
    assert enclosure.job_file(JOB, ()).startswith(b"\0PATH=")


def _of(guest: type[uml.UmlVirtual] | type[uml.UmlDebug], archive: Path) -> Backend:
    """Return a guest whose kernel's source is that archive."""
    return type("Other", (guest,), {"recipe": replace(guest.recipe, archive=archive)})()  # type: ignore[no-any-return]


def test_a_guest_says_all_that_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its programs, its kernel while it is not built, and what only it needs; each package once."""
    monkeypatch.setattr(backend_module, "cannot_enclose", lambda: "")
    for check in ("wide_registers", "cannot_trace"):
        monkeypatch.setattr(uml, check, lambda: "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = uml.UmlReal(program=tmp_path / "none")
    assert _of(uml.UmlVirtual, tmp_path).available() == ""
    assert uml.UmlReal(program=tmp_path).available() == uml.wide_registers()
    assert _of(uml.UmlDebug, tmp_path / "none").available() == f"missing; run: apt-get install {kernel.PACKAGE}"
    assert real.available() == "missing; run: apt-get install user-mode-linux"
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert real.available() == "missing; run: apt-get install gcc user-mode-linux"
    assert uml.UmlVirtual().available().count(" gcc") == 1
    monkeypatch.setattr(backend_module, "cannot_enclose", lambda: "no root")
    assert real.available() == "no root"


@pytest.mark.parametrize("command", [("a", ""), ("a\0b",)])
def test_job_words_that_the_file_cannot_hold(command: tuple[str, ...]) -> None:
    with pytest.raises(BadInput):
        enclosure.job_file(replace(JOB, command=command), ())


def test_nothing_of_the_callers_environment_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "secret")
    names = dict(enclosure.guest_environment(JOB))
    assert "LEAK" not in names and names["PYTHONHASHSEED"] == "0"


def test_pick_takes_the_first_usable_and_says_why() -> None:
    three = (Stub("first", "no kernel"), Stub("second", ""), Stub("third", ""))
    backend, why = pick(backends=three)
    assert (backend.name, why) == ("second", "first: no kernel")
    assert pick("third", three)[0].name == "third"
    with pytest.raises(Missing, match="no kernel"):
        pick("first", three)
    with pytest.raises(BadInput, match="choose from first, second, third"):
        pick("fourth", three)


def test_pick_with_nothing_usable() -> None:
    with pytest.raises(Missing, match="first: no kernel; second: no root"):
        pick(backends=(Stub("first", "no kernel"), Stub("second", "no root")))


@pytest.mark.lab
def test_exit_code_and_words_come_back(backend: Backend, tmp_path: Path) -> None:
    code, console = run(backend, shell(f"echo out; echo err >&2; echo kept >{GUEST_OUTPUT}/file; exit 7", tmp_path))
    assert (code, console) == (7, "out\nerr\n")
    assert (tmp_path / "file").read_text() == "kept\n"


@pytest.mark.lab
def test_a_command_that_is_not_there(backend: Backend, tmp_path: Path) -> None:
    assert run(backend, replace(JOB, command=("/no/such",), output=tmp_path))[0] == 127


@pytest.mark.lab
def test_the_inside_is_the_same_for_all(backend: Backend, tmp_path: Path) -> None:
    script = (
        "set -e; mkdir /run/cgroup/x; ls -d /run/bpf; touch $TMPDIR/t; ip netns add n; ip -n n link; ping -c1 127.0.0.1"
    )
    code, console = run(backend, shell(script, tmp_path))
    assert code == 0, console
    assert not Path("/run/netns/n").exists()


@pytest.mark.lab
def test_the_host_cannot_be_written(backend: Backend, tmp_path: Path) -> None:
    swappiness = Path("/proc/sys/vm/swappiness")
    before, aim = swappiness.read_text(), tmp_path / "outside"
    marks = (Path("/etc/configtron-mark"), Path("/dev/configtron-mark"))
    output = tmp_path / "output"
    # also after the guest's root took its own covers off
    script = f"""
    touch {aim} {marks[0]}; echo 1 >/proc/sys/vm/swappiness
    umount -l /proc; umount -l /dev; mount -o remount,rw /
    touch {aim} {" ".join(map(str, marks))}; echo 1 >/proc/sys/vm/swappiness; echo tried
    """
    if backend.name == "netns":  # its root is the host's own; walls for programs, not for attackers
        script = f"touch {aim} {marks[0]} {marks[1]}; echo 1 >/proc/sys/vm/swappiness; echo tried"
    console = run(backend, shell(script, output))[1]
    assert "tried" in console
    assert swappiness.read_text() == before and not aim.exists() and not any(mark.exists() for mark in marks)


@pytest.mark.lab
def test_same_seed_same_bytes_wherever_the_output_lies(virtual: Backend, tmp_path: Path) -> None:
    first = run(virtual, shell(CHANCES, tmp_path / "a"))
    assert first[0] == 0, first[1]
    assert run(virtual, shell(CHANCES, tmp_path / "a much longer path" / "b")) == first
    other = run(virtual, shell(CHANCES, tmp_path / "c", seed=2))
    same = set(first[1].splitlines()) & set(other[1].splitlines())
    assert not any("link/ether" in line or "packets transmitted" in line for line in same)


@pytest.mark.lab
def test_two_at_once_on_two_cores(virtual: Backend, tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    alone = run(virtual, shell(CHANCES, tmp_path / "alone"))
    pair = [virtual.boot(shell(CHANCES, tmp_path / f"at-{i}", cpu=core)) for i, core in enumerate(cores)]
    assert [(one.wait(GUEST_S), one.console.read_text()) for one in pair] == [alone] * len(pair)


@pytest.mark.lab
def test_time_is_virtual(virtual: Backend, tmp_path: Path) -> None:
    started = time.monotonic()
    console = run(virtual, shell("date +%s; sleep 3600; date +%s", tmp_path))[1]
    assert console.split() == [str(uml.START_NS // 10**9), str(uml.START_NS // 10**9 + 3600)]
    assert time.monotonic() - started < 3600, "the guest's hour took an hour"


def members(output: Path) -> list[str]:
    """Command lines of processes that belong to the guest writing to `output`: those whose root holds its mount."""
    # A mount is shown by its path in its file system, which may be mounted at /tmp.
    name = f"{output.parent.name}/{output.name}"
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if name in (folder / "mountinfo").read_text():
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


BUSY = "echo begun; while :; do :; done"


@pytest.mark.lab
def test_kill_leaves_no_process(backend: Backend, tmp_path: Path) -> None:
    running = backend.boot(shell(f"sleep 1000 & touch {GUEST_OUTPUT}/begun; sync; {BUSY}", tmp_path))
    until((tmp_path / "begun").exists)
    assert running.poll() is None and members(tmp_path)
    running.kill()
    assert members(tmp_path) == [] and running.poll() == NO_EXIT_CODE


@pytest.mark.lab
def test_a_killed_parent_takes_its_guest_along(backend: Backend, tmp_path: Path) -> None:
    program = f"""
import time
from pathlib import Path
from configtron.lab.uml import user_mode_linux as uml
backend = next(b for b in uml.BACKENDS if b.name == {backend.name!r})
backend.boot(uml.GuestJob(("sh", "-c", "touch {GUEST_OUTPUT}/begun; sync; {BUSY}"), Path({str(tmp_path)!r}), 1, 0))
time.sleep(1000)
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    until((tmp_path / "begun").exists)
    parent.kill()
    parent.wait()
    until(lambda: not members(tmp_path))


@pytest.mark.lab
def test_the_time_limit_is_real(virtual: Backend, tmp_path: Path) -> None:
    running = virtual.boot(replace(shell(BUSY, tmp_path), limit_s=2))
    assert running.wait(PATIENCE_S) == NO_EXIT_CODE
    assert members(tmp_path) == []


@pytest.mark.lab
def test_init_refuses_to_run_on_a_host() -> None:
    done = subprocess.run([kernel.ensure_programs() / "init"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "not the first process" in done.stderr
