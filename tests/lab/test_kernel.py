# SPDX-License-Identifier: MIT
"""The guest kernel's build: what it must contain, and that half of one is never taken for a whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.uml import kernel
from configtron.lab.uml.recipes import LAB
from configtron.model.errors import Missing
from tests.support.waiting import PATIENCE_S

# What the lab's parts rely on; who removes a line of the fragment meets its user here.
NEEDED = {
    "virtual time": ("UML_TIME_TRAVEL_SUPPORT", "HIGH_RES_TIMERS"),
    "root, output, memory": ("HOSTFS", "TMPFS", "DEVTMPFS", "PROC_FS", "SYSFS"),
    "regions and pools": ("NET_NS", "VETH", "NET_SCH_NETEM", "NET_SCH_TBF"),
    "both families": ("INET", "IPV6", "IP_MULTIPLE_TABLES", "IPV6_MULTIPLE_TABLES"),
    "settings by address": ("CGROUP_BPF", "BPF_SYSCALL"),
    "middleboxes": ("NET_SCH_INGRESS", "NET_CLS_BPF", "NET_CLS_ACT"),
    "congestion control": ("TCP_CONG_CUBIC", "TCP_CONG_VEGAS", "TCP_CONG_BBR", "NET_SCH_FQ"),
    "probers": ("PACKET", "UNIX", "TUN", "INET_TCP_DIAG"),
    "programs": ("FUTEX", "EPOLL", "EVENTFD", "TIMERFD", "SIGNALFD", "SHMEM", "MEMBARRIER"),
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel.cache_folder().mkdir()
    return kernel.cache_folder()


@pytest.mark.parametrize("part", NEEDED)
def test_fragment_has_what_the_lab_needs(part: str) -> None:
    assert {f"CONFIG_{name}=y" for name in NEEDED[part]} <= set(kernel.fragment_lines())


def test_fragment_is_small_and_without_doubles() -> None:
    texts = [path.read_text().splitlines() for path in LAB.fragments]
    lines = [line for text in texts for line in text if line.startswith("CONFIG_")]
    assert lines == kernel.fragment_lines() and len(lines) == len(set(lines)) < 100
    assert all(re.fullmatch(r"CONFIG_\w+=(y|\d+)", line) for line in lines)


def test_no_source_of_chance_but_the_seed() -> None:
    assert "# CONFIG_HW_RANDOM is not set" in (kernel.SOURCES / "config.fragment").read_text()


def test_a_line_that_kconfig_dropped_is_an_error() -> None:
    kernel.check_config("\n".join(kernel.fragment_lines()))
    with pytest.raises(Missing, match="CONFIG_HOSTFS=y"):
        kernel.check_config("\n".join(line for line in kernel.fragment_lines() if line != "CONFIG_HOSTFS=y"))


def test_the_key_changes_with_every_part() -> None:
    keys = {kernel.key(b"a", b"b"), kernel.key(b"a", b"c"), kernel.key(b"ab", b""), kernel.key(b"b", b"a")}
    assert len(keys) == 4 and kernel.key(b"a", b"b") in keys


def test_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert kernel.cache_folder() == Path("/x/configtron")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/y")
    assert kernel.cache_folder() == Path("/y/.cache/configtron")


def test_only_a_complete_unchanged_folder_is_whole(cache: Path) -> None:
    built, folder = cache / "built", cache / "kernel-1"
    built.mkdir()
    (built / "linux").write_bytes(b"kernel")
    assert not kernel.is_whole(built) and not kernel.is_whole(folder)
    kernel.keep(built, folder)
    assert kernel.is_whole(folder) and not built.exists()
    (folder / "linux").write_bytes(b"kernal")
    assert not kernel.is_whole(folder)
    (folder / "linux").unlink()
    assert not kernel.is_whole(folder)


def test_what_is_missing_is_named_with_its_package(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(Missing) as caught:
        kernel.ensure_kernel(lambda line: None, replace(LAB, archive=Path("/no/such/source.tar.xz")))
    programs = " ".join(sorted({*kernel.KERNEL_PROGRAMS.values()}))
    assert str(caught.value).endswith(f"apt-get install {programs} linux-source-6.12")
    assert kernel.absent_packages({}, Path("/no/such/header.h")) == ["libc6-dev"]
    assert "\n" not in str(caught.value)


def test_a_build_that_broke_leaves_nothing_to_boot(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = cache / "source.tar.xz"
    broken.write_bytes(b"not an archive")
    left = cache / "kernel-building" / "result" / "linux"  # as of a build that was killed
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    monkeypatch.setattr(kernel, "absent_packages", lambda programs: [])
    with pytest.raises(Missing, match=r"tar failed .*/kernel-build\.log"):
        kernel.ensure_kernel(lambda line: None, replace(LAB, archive=broken, disk_bytes=0))
    assert not left.exists() and not kernel.kernel_folder().exists()


# What stands for a kernel's source: as slow as it is asked to be, at its third of four steps.
MAKEFILE = """
allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) $(O)/.config
image modules: four
four:
\t@for n in 1 2 3 4; do \\
\t  test -e $(O)/$$n.o && continue; \\
\t  if test $$n = 3 -a -e $(O)/../../pause -a ! -e $(O)/paused; then touch $(O)/paused; sleep 60; fi; \\
\t  echo "  CC $$n"; echo $$n >>$(O)/made; touch $(O)/$$n.o; \\
\tdone
\t@cat $(O)/made >$(O)/image; : >$(O)/Module.symvers
"""


@pytest.fixture
def small(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kernel.KernelRecipe:
    """A kernel of four steps, with an archive and a recipe of its own."""
    source = tmp_path / "linux-source"
    source.mkdir()
    (source / "Makefile").write_text(MAKEFILE)
    (source / "large").write_bytes(os.urandom(3 * kernel.CHUNK))
    archive, fragment = tmp_path / "source.tar.xz", tmp_path / "config.fragment"
    subprocess.run(["tar", "--create", "--xz", "-f", archive, "-C", tmp_path, source.name], check=True)
    fragment.write_text("CONFIG_SMALL=y\n")
    monkeypatch.setattr(kernel, "absent_packages", lambda programs: [])
    own = {"archive": archive, "disk_bytes": 0}
    return kernel.KernelRecipe("small", "small kernel", "x86_64", "image", (fragment,), (), 4, **own)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_was_cut_short_goes_on(cache: Path, small: kernel.KernelRecipe, how: signal.Signals) -> None:
    objects = kernel.build_folder() / "objects"
    (cache / "pause").touch()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            kernel.ensure_kernel(lambda line: None, small)
        finally:
            os._exit(1)
    while not (objects / "paused").exists():
        time.sleep(0.02)
    os.killpg(child, how)
    os.waitpid(child, 0)
    large = kernel.build_folder() / "source" / "large"
    before = large.stat().st_ino, large.stat().st_ctime_ns
    lines: list[str] = []

    def hear(line: str) -> None:
        if "building" in line:
            assert (large.stat().st_ino, large.stat().st_ctime_ns) == before
        lines.append(line)

    image = kernel.ensure_kernel(hear, small)
    # Each step once: what was compiled is not compiled again.
    assert image.read_text() == "1\n2\n3\n4\n" and not kernel.build_folder().exists()
    assert lines[0] == "going on with the small kernel where it was cut short"
    assert lines[2] == "building the small kernel: 50 %" and not any("unpacking" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("left", ["", "another-kernel objects"])
def test_half_a_source_or_anothers_is_unpacked_again(cache: Path, small: kernel.KernelRecipe, left: str) -> None:
    (kernel.build_folder() / "source").mkdir(parents=True)
    (kernel.build_folder() / "source" / "Makefile").write_text("half")
    if left:
        (kernel.build_folder() / kernel.UNPACKED).write_text(left)
    lines: list[str] = []
    assert kernel.ensure_kernel(lines.append, small).read_text() == "1\n2\n3\n4\n"
    assert lines[:2] == ["removing what an unfinished build left", "unpacking source.tar.xz: 0 %"]
    assert any(line.startswith("unpacking source.tar.xz: ") and "about" in line for line in lines)


def test_progress_comes_by_the_clock_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(kernel.time, "monotonic", lambda: now[0])
    lines: list[str] = []
    report = kernel.report_progress(lines.append, "building", 20)
    for now[0], percent in ((1.0, 21), (11.0, 22), (12.0, 23), (13.0, 28)):
        report(percent)
    assert lines == ["building: 20 %", "building: 22 %, about 429 s left", "building: 28 %, about 117 s left"]


def test_a_second_builder_waits(cache: Path) -> None:
    lines: list[str] = []
    waiting, done = threading.Event(), threading.Event()

    def hear(line: str) -> None:
        lines.append(line)
        waiting.set()

    def second() -> None:
        with kernel.build_lock(hear):
            done.set()

    with kernel.build_lock(lines.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(PATIENCE_S) and not done.is_set()
    thread.join(10)
    assert done.is_set() and lines == ["another process is building; waiting for it"]


@pytest.mark.lab
def test_the_cached_kernel_is_the_fragments() -> None:
    linux = kernel.ensure_kernel(print)
    kernel.check_config((linux.parent / "config").read_text())
    # the size the design asks for; a line that pulls in a subsystem shows here
    assert linux.stat().st_size < 8_000_000
