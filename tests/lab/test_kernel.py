"""The guest kernel's build: what it must contain, and that half of one is never taken for a whole."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from configtron.errors import Missing
from configtron.lab import kernel

# What the lab's parts rely on; who removes a line of the fragment meets its user here.
NEEDED = {
    "virtual time": ("UML_TIME_TRAVEL_SUPPORT", "HIGH_RES_TIMERS"),
    "root, output, memory": ("HOSTFS", "TMPFS", "DEVTMPFS", "PROC_FS", "SYSFS"),
    "regions and farms": ("NET_NS", "VETH", "DUMMY", "NET_SCH_NETEM", "NET_SCH_TBF", "NET_SCH_PRIO", "NET_CLS_U32"),
    "both families": ("INET", "IPV6", "IP_MULTIPLE_TABLES", "IPV6_MULTIPLE_TABLES"),
    "settings by address": ("CGROUP_BPF", "BPF_SYSCALL"),
    "middleboxes": ("NET_SCH_INGRESS", "NET_CLS_BPF", "NET_CLS_ACT"),
    "congestion control": ("TCP_CONG_CUBIC", "TCP_CONG_VEGAS", "TCP_CONG_BBR", "NET_SCH_FQ"),
    "probers": ("PACKET", "UNIX", "TUN", "NF_TABLES", "INET_TCP_DIAG"),
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
    lines = kernel.fragment_lines()
    assert len(lines) == len(set(lines)) < 100
    assert all(line.endswith("=y") for line in lines)


def test_no_source_of_chance_but_the_seed() -> None:
    assert "# CONFIG_HW_RANDOM is not set" in (kernel.SOURCES / "config.fragment").read_text()


def test_a_line_that_kconfig_dropped_is_an_error() -> None:
    kernel.check_config("\n".join(kernel.fragment_lines()))
    with pytest.raises(Missing, match="CONFIG_HOSTFS=y"):
        kernel.check_config("\n".join(line for line in kernel.fragment_lines() if line != "CONFIG_HOSTFS=y"))


@pytest.mark.parametrize(
    "name", ["config.fragment", "schemes.fragment", "cond_resched.patch", "init.c", "seeded_getrandom.c", "enclose.sh"]
)
def test_sources_say_what_they_are_for(name: str) -> None:
    head = (kernel.SOURCES / name).read_text()[:400]
    assert len(head.split()) > 40 and "TODO" not in head


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
    monkeypatch.setattr(kernel, "KERNEL_PROGRAMS", {"no-such-program": "some-package"})
    monkeypatch.setattr(kernel, "LIBC_HEADER", Path("/no/such/header.h"))
    monkeypatch.setattr(kernel, "TARBALL", Path("/no/such/source.tar.xz"))
    with pytest.raises(Missing) as caught:
        kernel.ensure_kernel(lambda line: None)
    assert str(caught.value).endswith("apt-get install libc6-dev some-package linux-source-6.12")
    assert "\n" not in str(caught.value)


def test_a_build_that_broke_leaves_nothing_to_boot(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = cache / "source.tar.xz"
    broken.write_bytes(b"not an archive")
    left = cache / "kernel-building" / "result" / "linux"  # as of a build that was killed
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    monkeypatch.setattr(kernel, "TARBALL", broken)
    monkeypatch.setattr(kernel, "absent_packages", lambda programs: [])
    monkeypatch.setattr(kernel, "NEEDED_BYTES", 0)
    with pytest.raises(Missing, match=r"tar failed .*/kernel-build\.log"):
        kernel.ensure_kernel(lambda line: None)
    assert not left.exists() and not kernel.kernel_folder().exists()


def test_a_second_builder_waits(cache: Path) -> None:
    said: list[str] = []
    waiting, done = threading.Event(), threading.Event()

    def hear(line: str) -> None:
        said.append(line)
        waiting.set()

    def second() -> None:
        with kernel.build_lock(hear):
            done.set()

    with kernel.build_lock(said.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10) and not done.is_set()
    thread.join(10)
    assert done.is_set() and said == ["another process is building; waiting for it"]


@pytest.mark.lab
def test_the_cached_kernel_is_the_fragments() -> None:
    linux = kernel.ensure_kernel(print)
    kernel.check_config((linux.parent / "config").read_text())
    # the size the design asks for; a line that pulls in a subsystem shows here
    assert linux.stat().st_size < 8_000_000
