# SPDX-License-Identifier: MIT
"""The BPF objects that come with the package: of the source that lies here, loadable without a compiler; and the cache
beside them, from which nothing is loaded that another user could have written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.model.errors import Refused
from configtron.tune.drivers.bpf import build, objects
from tests.support import ROOT
from tests.support.isolation import apart
from tests.support.tune.aside import usable
from tests.support.waiting import PATIENCE_S

MANIFEST = json.loads((objects.SHIPPED / objects.MANIFEST).read_text())
FILES = sorted(path for path in objects.SHIPPED.rglob("*.bpf.o"))
# What a server has that was never made to compile anything.
TOOLS = ("sh", "ip", "ss", "mount", "umount", "mkdir", "unshare")


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Changed sources, and a cache; the cache's folder. No memory of what was found to be shipped, before and after."""
    objects.shipped.cache_clear()
    sources = tmp_path / "sources"
    shutil.copytree(objects.SOURCES, sources)
    for program in objects.PROGRAMS:
        with (sources / f"{program}.bpf.c").open("a") as file:
            file.write("/* changed */\n")
    monkeypatch.setattr(objects, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield objects.cached("write").parent
    monkeypatch.undo()
    objects.shipped.cache_clear()


def planted(altered: Path, what: str) -> Path:
    """Put an object into the cache; return it, its folder or the one above."""
    altered.mkdir(parents=True, mode=0o700)
    objects.cached("write").touch(mode=0o600)
    return {"file": objects.cached("write"), "folder": altered, "above": altered.parent}[what]


def test_every_program_is_there_for_both_byte_orders() -> None:
    names = [f"{order}/{program}.bpf.o" for order in objects.TARGETS for program in objects.PROGRAMS]
    assert [str(path.relative_to(objects.SHIPPED)) for path in FILES] == sorted(names) == sorted(MANIFEST["objects"])
    for path in FILES:
        assert path.read_bytes()[5] == {"el": 1, "eb": 2}[path.parent.name], "byte 5 of an ELF file: its byte order"


def test_they_are_of_this_source_and_the_wheel_has_them() -> None:
    """Failing? Run: make bpf."""
    assert MANIFEST["options"] == list(objects.OPTIONS)
    assert MANIFEST["sources"] == {program: objects.checksum(program) for program in objects.PROGRAMS}
    found = {str(path.relative_to(objects.SHIPPED)): hashlib.sha256(path.read_bytes()).hexdigest() for path in FILES}
    assert MANIFEST["objects"] == found
    listed = (ROOT / "setup.cfg").read_text().partition("configtron.tune.drivers.bpf =")[2].partition("\n\n")[0]
    assert {"shipped/manifest.json", "shipped/*/*.bpf.o"} <= set(listed.split())


@pytest.mark.slow
def test_they_come_out_of_the_compiler_the_same(tmp_path: Path) -> None:
    if build.compiler() != MANIFEST["compiler"]:
        pytest.skip(f"they were made by {MANIFEST['compiler']}, here is {build.compiler() or 'none'}")
    build.make(tmp_path)
    for path in FILES:
        assert (tmp_path / path.relative_to(objects.SHIPPED)).read_bytes() == path.read_bytes(), path


def test_without_a_compiler(altered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was shipped is enough; what was changed is not served by the old object: it needs one, or the cache."""
    assert [objects.shipped(program) for program in objects.PROGRAMS] == [None] * len(objects.PROGRAMS)
    monkeypatch.setenv("PATH", "")
    assert "apt-get install clang" in objects.missing()
    altered.mkdir(parents=True, mode=0o700)
    for program in objects.PROGRAMS:
        objects.cached(program).touch(mode=0o600)
    assert objects.missing() == ""
    monkeypatch.setattr(objects, "SOURCES", objects.SHIPPED.parent)
    objects.shipped.cache_clear()
    assert objects.missing() == "" and objects.compiled("write") in FILES


def test_what_is_compiled_is_ours_alone(altered: Path) -> None:
    if not shutil.which(objects.COMPILER):
        pytest.skip("no compiler")
    before = os.umask(0)
    try:
        built = objects.compiled("sockops")
    finally:
        os.umask(before)
    assert built.stat().st_mode & 0o777 == 0o600 and built.parent.stat().st_mode & 0o777 == 0o700
    assert objects.unsafe(built) == "" and objects.compiled("sockops") == built


@pytest.mark.parametrize("what", ["file", "folder", "above"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_could_write_is_not_loaded(altered: Path, what: str, mode: int) -> None:
    wrong = planted(altered, what)
    wrong.chmod(wrong.stat().st_mode | mode)
    with pytest.raises(Refused, match=f"{wrong} can be written by others"):
        objects.compiled("write")
    if what != "file":
        assert str(wrong) in objects.missing()


@pytest.mark.root
@pytest.mark.parametrize("what", ["file", "folder", "above"])
def test_what_is_anothers_is_not_loaded(altered: Path, what: str) -> None:
    wrong = planted(altered, what)
    os.chown(wrong, 65534, 65534)
    with pytest.raises(Refused, match=f"{wrong} belongs to user 65534"):
        objects.compiled("write")


@pytest.mark.root
def test_a_link_out_of_anothers_folder_is_not_followed(altered: Path, tmp_path: Path) -> None:
    """The folder that the link leads to is root's; the link's owner can lead it elsewhere at any time."""
    real, home = tmp_path / "real", tmp_path / "home"
    real.mkdir(mode=0o700)
    home.mkdir()
    (home / "cache").symlink_to(real)
    os.chown(home, 65534, 65534)
    assert "belongs to user 65534" in objects.unsafe(home / "cache" / "object")


@pytest.mark.root
def test_ebpf_works_where_nothing_can_be_compiled(tmp_path: Path) -> None:
    """No clang on the path, no headers anywhere, no cache: doctor offers it and an apply is in force."""
    usable()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or "")
    own = f"{sys.executable} -m configtron --db {tmp_path}/db tune"
    script = f"""set -e
        mount -t tmpfs none /usr/include
        ! command -v clang
        {own} doctor --driver ebpf -f jsonl >{tmp_path}/doctor
        {own} profile set p initcwnd=22 tcp_congestion_control=cubic
        {own} prefix set 192.0.2.0/24 p
        {own} apply --driver ebpf --keep -f jsonl >{tmp_path}/applied
        {own} verify && {own} reapply && {own} rollback"""
    environment = {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path),
                   "PYTHONPATH": str(ROOT)}  # fmt: skip
    done = subprocess.run(
        apart(["sh", "-c", script]), env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "doctor").read_text().splitlines()]
    (ebpf,) = [row for row in rows if row.get("driver") == "ebpf" and row["kind"] == "driver"]
    assert (ebpf["missing"], ebpf["knobs"]) == ("", 15)
    assert json.loads((tmp_path / "applied").read_text())["status"] == "kept"
    assert not (tmp_path / "cache").exists(), "nothing was compiled"
