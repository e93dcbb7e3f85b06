# SPDX-License-Identifier: MIT
"""Emulated guests: the same job, walls and results as User-Mode Linux, with two processors."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from configtron.lab.uml import debian, kernel, qemu, recipes
from configtron.lab.uml.enclosure import GuestJob
from configtron.model.errors import Missing
from tests.support.waiting import GUEST_S

LOOK = "nproc; uname -r; touch /usr/mark 2>/dev/null || echo read-only; echo kept >$CONFIGTRON_OUTPUT/file; exit 7"


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for name in debian.ROOT_MODULES:
        (tmp_path / f"{name}.ko").write_bytes(name.encode())
    return tmp_path


def test_the_memory_disk_is_read_by_others(modules: Path) -> None:
    if not qemu.BUSYBOX.exists():
        pytest.skip("needs busybox-static")
    archive = gzip.decompress(qemu.memory_disk(modules))
    listed = subprocess.run([qemu.BUSYBOX, "cpio", "-t"], input=archive, capture_output=True, check=True)
    names = listed.stdout.decode().split()
    assert names[:6] == ["bin", "dev", "root", "init", "bin/sh", "bin/busybox"]
    # loaded in the order of their names by init.sh: those needed first
    loaded = [name[3:].removesuffix(".ko") for name in sorted(names[6:])]
    assert loaded == list(debian.ROOT_MODULES)


def test_an_entry_is_padded_to_four_bytes() -> None:
    for size in range(6):
        assert len(qemu.entry("x" * size, b"y" * size, 0o100644)) % 4 == 0


def test_the_newest_headers_are_taken(tmp_path: Path) -> None:
    assert debian.release(tmp_path) == ""
    with pytest.raises(Missing, match="apt-get install linux-headers-amd64"):
        debian.tree(tmp_path)
    for name in ("6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-56-common", "6.12.111+deb12-amd64", "6.1.0-57-rt-amd64"):
        (tmp_path / f"linux-headers-{name}").mkdir()
    assert debian.release(tmp_path) == "6.1.0-56-amd64"


def test_a_download_that_fails_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"could not bring Debian's kernel \(no such package\); run: apt-get update$"):
        debian.run(["sh", "-c", "echo no such package; exit 1"], tmp_path, "run: apt-get update")


@pytest.mark.parametrize("recipe", [recipes.UML_DEBUG, recipes.X86_DEBUG], ids=lambda recipe: recipe.name)
def test_debug_kernels_ask_for_each_check_once(recipe: recipes.KernelRecipe) -> None:
    for fragment in recipe.fragments:
        symbols = [found[1] for line in fragment.read_text().splitlines() if (found := kernel.SYMBOL.match(line))]
        assert len(symbols) == len(set(symbols))
    lines = kernel.fragment_lines(recipe)
    values = {line: "m" if "_CONG_" in line and "ADVANCED" not in line else r"(y|\d+)" for line in lines}
    assert all(re.fullmatch(rf"CONFIG_\w+={value}", line) for line, value in values.items())
    checks = ("KASAN_VMALLOC", "PROVE_LOCKING", "PROVE_RCU", "DEBUG_OBJECTS")
    assert {f"CONFIG_{name}=y" for name in checks} <= set(lines)


def test_the_later_of_two_lines_holds(tmp_path: Path) -> None:
    """Congestion controls are modules in the debug kernels, though the lab's fragment builds three of them in."""
    lines = kernel.fragment_lines(recipes.UML_DEBUG)
    assert {"CONFIG_DEFAULT_RENO=y", "CONFIG_TCP_CONG_CUBIC=m", "CONFIG_TCP_CONG_DCTCP=m"} <= set(lines)
    assert not {"CONFIG_DEFAULT_CUBIC=y", "CONFIG_TCP_CONG_CUBIC=y"} & set(lines)
    assert len([line for line in lines if line.endswith("=m")]) == 16


@pytest.mark.lab
def test_debians_kernel_runs_a_job_on_two_processors(tmp_path: Path) -> None:
    backend = qemu.QemuDebian()
    if reason := backend.available():
        pytest.skip(reason)
    running = backend.boot(GuestJob(("sh", "-c", LOOK), tmp_path, seed=1, cpu=0, memory_mb=512, limit_s=GUEST_S))
    assert running.wait(GUEST_S) == 7, running.last_words()
    assert running.console.read_text().split() == ["2", debian.release(), "read-only"]
    assert (tmp_path / "file").read_text() == "kept\n"
