# SPDX-License-Identifier: MIT
"""setup.cfg, the folders, the links and ruff's ban agree, and a wheel holds what the folders hold."""

from __future__ import annotations

import configparser
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

import configtron
from configtron.cli.manual import contexts
from tests.support import ROOT
from tests.support.servers import SERVERS
from tests.support.sources import sources
from tests.support.waiting import PATIENCE_S

FOLDERS = ("db", "fingerprint", "learner", "probe", "tune")
# Marked essential by Debian, or a dependency of one that is: on every machine.
ALWAYS_THERE = {"util-linux", "tar", "coreutils", "bash"}


def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def lines(section: str, option: str) -> list[str]:
    return [line.strip() for line in config()[section][option].splitlines() if line.strip()]


def files() -> dict[str, Path]:
    """Every file of the folders, by its place in a wheel."""
    found = {}
    for top in ("configtron", *FOLDERS):
        for here, inside, names in os.walk(ROOT / top, followlinks=False):
            inside[:] = [name for name in inside if name != "__pycache__" and not (Path(here) / name).is_symlink()]
            for path in (Path(here) / name for name in names):
                place = path.relative_to(ROOT)
                found[str(place if top == "configtron" else "configtron" / place)] = path
    return found


def test_packages_are_the_folders() -> None:
    """A folder of modules without __init__.py would be left out of the wheel."""
    listed = lines("options", "packages")
    assert listed == sorted(set(listed)), "in order, each once"
    folders = {name.rpartition("/")[0].replace("/", ".") for name in files() if name.endswith("/__init__.py")}
    assert set(listed) == folders
    assert {name.rpartition("/")[0].replace("/", ".") for name in files() if name.endswith(".py")} == folders


def test_the_version_is_one_everywhere() -> None:
    """`make version` copies it from the package to what is read without Python; the changelog begins with it."""
    copies = {
        "setup.cfg": r"^src/configtron-(\S+) =", "kmod/dkms.conf": r'^PACKAGE_VERSION="(.+)"',
        "kmod/internal.h": r'CT_RELEASE "(.+)"', "CHANGELOG.md": r"^## (\S+), ",
    }  # fmt: skip
    found = {name: re.findall(pattern, (ROOT / name).read_text(), re.M)[0] for name, pattern in copies.items()}
    assert set(found.values()) == {configtron.__version__}, found


def test_package_dir_maps_every_folder_and_bare_names_are_banned() -> None:
    pairs = dict(line.split(" = ") for line in lines("options", "package_dir"))
    assert pairs == {"configtron": "configtron"} | {f"configtron.{name}": name for name in FOLDERS}
    banned = tomllib.loads((ROOT / "ruff.toml").read_text())["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == set(FOLDERS)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="links are kept by git, not by a source archive")
def test_links_lead_to_the_folders() -> None:
    links = {path.name: os.readlink(path) for path in (ROOT / "configtron").iterdir() if path.is_symlink()}
    assert links == {name: f"../{name}" for name in FOLDERS}


def test_debian_packages_that_code_and_tests_want_are_listed_once_with_a_reason() -> None:
    """`make packages` installs what messages ask for, what the lab's host runs, and the servers on the host."""
    rows = [line for line in (ROOT / "debian-packages.txt").read_text().splitlines() if line and line[0] != "#"]
    assert [row for row in rows if not row.partition("#")[2].strip() or len(row.split("#")[0].split()) != 1] == []
    listed = [row.split()[0] for row in rows]
    assert len(listed) == len(set(listed))
    text = "\n".join(file.read_text() for _, file in sources())
    asked = " ".join(re.findall(r"apt-get install((?: [a-z0-9.+-]+)+)", text)).split()
    programs = [
        package
        for module in ("configtron.lab.uml.kernel", "configtron.lab.uml.enclosure")
        for name, table in vars(importlib.import_module(module)).items()
        if name.endswith("PROGRAMS") and isinstance(table, dict)
        for package in table.values()
    ]
    servers = ["nginx-light" if server.package == "nginx" else server.package for server in SERVERS.values()]
    assert asked and programs
    wanted = {word for word in (*asked, *programs, *servers) if not word.startswith("-")}
    assert wanted - {*listed, *ALWAYS_THERE} == set()


def link(name: str, site: Path) -> None:
    """Link what a distribution has in this environment into another's folder. Errors: `PackageNotFoundError`."""
    there = distribution(name)
    for top in {file.parts[0] for file in there.files or [] if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(there.locate_file(top))).resolve())


def built_wheel(folder: Path) -> Path:
    """Build a wheel without an index, from a copy, so that no build/ is left.

    As in pip's build isolation, what the build requires is on PYTHONPATH alone.
    """
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("needs setuptools 77, which `pip install .` brings into its own environment")
    copy = folder / "copy"
    ignore = {".git", ".venv", "build", "dist", "tests", "runs"}
    subprocess.run(["mkdir", copy], check=True)
    for entry in ROOT.iterdir():
        if entry.name not in ignore and not entry.name.endswith(".egg-info"):
            subprocess.run(["cp", "-a", entry, copy], check=True)
    brought = folder / "brought"
    brought.mkdir()
    for name in ("setuptools", "click"):
        link(name, brought)
    code = "import setuptools.build_meta as b; b.build_wheel('..')"
    done = subprocess.run([Path(sys.executable).resolve(), "-c", code], cwd=copy, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(brought)}, timeout=PATIENCE_S)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_wheel_holds_every_file(tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    held = {name for name in names if ".dist-info/" not in name and ".data/" not in name}
    needed = {name for name, file in files().items() if file.suffix not in (".pyc", ".md")}
    assert needed - held == set(), "modules, or data that [options.package_data] does not name"
    assert not [name for name in held if not name.startswith("configtron/")], "a global name"
    shared = {name.partition(".data/data/")[2] for name in names}
    pages = {f"share/man/man1/{ctx.command_path.replace(' ', '-')}.1" for ctx in contexts()}
    assert pages - shared == set(), "man pages that setup.py did not make"
    completions = ("bash-completion/completions/configtron", "zsh/site-functions/_configtron",
                   "fish/vendor_completions.d/configtron.fish")  # fmt: skip
    assert {f"share/{name}" for name in completions} <= shared


def test_make_works_in_a_folder_with_a_space() -> None:
    done = subprocess.run(["make", "-n", "CURDIR=/a b", "check"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "PYTHONPYCACHEPREFIX=/a b/.venv/pycache" in shlex.split(done.stdout)
