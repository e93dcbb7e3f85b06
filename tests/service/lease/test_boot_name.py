# SPDX-License-Identifier: MIT
"""One name of a boot for processes that read different ids of it, as in a container; none outlives a reboot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.service.lease.context import this_boot

HOST, CONTAINER = "7443d67d-2b4a-41a1-bcce-4be86afa0ef2", "e04a327d-8a32-4f5d-ad8a-ee7a47d7432c"


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def read_by(runtime: Path, boot: str, kind: str = "tmpfs") -> str:
    """Return the name that a process gets which reads `boot`, where /run is of a kind."""
    number = runtime.stat().st_dev
    (kernel := runtime.parent / "boot_id").write_text(boot + "\n")
    line = f"48 201 {os.major(number)}:{os.minor(number)} / /run rw,nosuid shared:17 - {kind} {kind} rw\n"
    (mounts := runtime.parent / "mountinfo").write_text("21 1 255:1023 / /proc rw - proc proc rw\n" + line)
    return this_boot(runtime, kernel, mounts)


@pytest.mark.parametrize(("kind", "names", "kept"), [("tmpfs", [HOST] * 3, ["boot"]),
                                                      ("ext4", [HOST, CONTAINER, HOST], [])])  # fmt: skip
def test_a_unit_and_a_shell_of_one_container_agree_where_no_name_outlives_a_boot(
    runtime: Path, kind: str, names: list[str], kept: list[str]
) -> None:
    assert [read_by(runtime, boot, kind) for boot in (HOST, CONTAINER, HOST)] == names
    assert [file.name for file in runtime.iterdir()] == kept


@pytest.mark.parametrize("content", ["", "no id", "\xff"])
def test_what_is_no_id_is_no_name(runtime: Path, content: str) -> None:
    (runtime / "boot").write_bytes(content.encode("latin-1"))
    assert read_by(runtime, HOST) == HOST


def test_without_the_folder_it_is_the_kernels(runtime: Path, tmp_path: Path) -> None:
    read_by(runtime, HOST)
    assert this_boot(tmp_path / "none", tmp_path / "boot_id", tmp_path / "mountinfo") == HOST


@pytest.mark.root
def test_two_views_of_proc_in_one_container(tmp_path: Path) -> None:
    """In a mount namespace: an id bound over the kernel's, as a container's manager does, and /proc mounted anew."""
    (tmp_path / "id").write_text(CONTAINER + "\n")
    ask = f"{sys.executable} -c 'from configtron.service.lease.context import this_boot; print(this_boot())'"
    steps = (
        "mount -t tmpfs none /run", "mkdir /run/configtron-tune",
        f"mount --bind {tmp_path}/id /proc/sys/kernel/random/boot_id", ask, "mount -t proc proc /proc",
        "cat /proc/sys/kernel/random/boot_id", ask, "rm /run/configtron-tune/boot", ask,
    )  # fmt: skip
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "; ".join(steps)], capture_output=True, text=True, check=False
    )
    shell, kernel, unit, after = done.stdout.split()
    assert (shell, unit) == (CONTAINER, CONTAINER) and kernel == after != CONTAINER, done.stderr
