# SPDX-License-Identifier: MIT
"""The Debian package of `make deb`: what it has and where, that it runs from its own environment, and that its scripts
start nothing. Made from this environment's packages, offline. Installing, upgrading and purging it wants a bare Debian:
docs/fleet.md has what was run there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import configtron
from configtron.tune.fleet_units import AGENT, MANAGER
from tests.support import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")]

SOURCES = ROOT / "deploy" / "deb"
SCRIPTS = ("postinst", "prerm", "postrm")
# Where files of the package may be.
PLACES = ("usr/lib/configtron/", "usr/bin/configtron", "usr/share/man/man1/configtron", "usr/share/doc/configtron/",
          "usr/share/bash-completion/completions/", "usr/share/zsh/", "usr/share/fish/", "usr/src/configtron-",
          "usr/lib/sysusers.d/configtron.conf", "usr/lib/tmpfiles.d/configtron-state.conf", "lib/systemd/system/",
          "etc/default/configtron-")  # fmt: skip
# Distributions whose licences must be in the package: each is inside another's closure or brings a library.
BROUGHT = ("numpy", "scipy", "scikit-learn", "pyzmq", "msgspec", "pynacl", "cryptography", "publicsuffixlist")


def ran(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-500:]
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("deb")
    ran(sys.executable, SOURCES / "build.py", "--output", folder, "--compress", "none")
    (found,) = folder.glob("*.deb")
    return found


@pytest.fixture(scope="module")
def unpacked(package: Path) -> Path:
    tree = package.parent / "tree"
    ran("dpkg-deb", "--raw-extract", package, tree)
    return tree


def test_its_control_file_and_conffiles(package: Path, unpacked: Path) -> None:
    fields = dict(line.split(": ", 1) for line in ran("dpkg-deb", "--field", package).splitlines() if line[0] != " ")
    assert (fields["Package"], fields["Version"]) == ("configtron", f"{configtron.__version__}-1")
    assert fields["Architecture"] == ran("dpkg", "--print-architecture").strip()
    assert package.name == f"configtron_{fields['Version']}_{fields['Architecture']}.deb"
    assert "python3 (>= 3.11), python3 (<< 3.12)" in fields["Depends"]
    conffiles = (unpacked / "DEBIAN/conffiles").read_text().split()
    kept = sorted(f"/{path.relative_to(unpacked)}" for path in (unpacked / "etc").rglob("*") if path.is_file())
    assert sorted(conffiles) == kept and len(kept) == 2


def test_every_file_is_at_a_place_of_the_package(unpacked: Path) -> None:
    files = [path for path in unpacked.rglob("*") if path.is_symlink() or not path.is_dir()]
    names = [str(path.relative_to(unpacked)) for path in files if path.parent.name != "DEBIAN"]
    assert len(names) > 2000
    assert [name for name in names if not name.startswith(PLACES)] == []
    # Others may read all of it, and root alone may write: an agent runs as root from here.
    assert [str(path) for path in files if not path.is_symlink() and path.stat().st_mode & 0o7022] == []
    assert [str(path) for path in unpacked.rglob("tests") if "site-packages" in path.parts] == []


def test_it_runs_from_its_own_environment(unpacked: Path, tmp_path: Path) -> None:
    """By the package's Python files and shared objects alone: -I and -S leave this environment's out."""
    home = unpacked / "usr/lib/configtron"
    program = (home / "bin/configtron").read_text()
    assert program.startswith("#!/usr/lib/configtron/bin/python3\n")
    assert (home / "bin/python3").readlink() == Path("/usr/bin/python3.11")
    assert (unpacked / "usr/bin/configtron").resolve() == home / "bin/configtron"
    if not Path("/usr/bin/python3.11").exists():
        pytest.skip("needs Debian 12's Python")
    python = home / "bin/python3"
    assert ran(python, "-I", home / "bin/configtron", "--version") == f"configtron {configtron.__version__}\n"
    imported = (
        "import sys, sklearn.cluster, scipy.stats, zmq, nacl.signing, msgspec, configtron.service.fleet.manager\n"
    )
    places = ran(python, "-I", "-c", imported + "print({m.__file__ for m in (sklearn, zmq, configtron)}, sys.prefix)")
    assert str(home) in places and str(ROOT) not in places
    policies = ran(python, "-I", home / "bin/configtron", "--db", tmp_path / "x.db", "learn", "policies", "-f", "jsonl")
    assert '"thompson"' in policies
    assert ran("find", home, "-newer", unpacked / "DEBIAN/control", "-name", "*.pyc") == "", "byte code was made anew"


def test_units_are_there_and_exposed_little(unpacked: Path) -> None:
    for name in (AGENT, MANAGER):
        unit = unpacked / "lib/systemd/system" / name
        assert "\nExecStart=/usr/bin/configtron --db " in unit.read_text()
        if shutil.which("systemd-analyze") is not None:
            judged = ran("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
            found = re.search(r"exposure level for \S+: ([0-9.]+)", judged)
            assert found is not None and float(found[1]) <= 4.0
            print(name, found[1])


def test_its_users_can_be_made(unpacked: Path, tmp_path: Path) -> None:
    """systemd takes the lines; a `:` in a user's description was refused, and the package not set up."""
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("needs systemd-sysusers")
    (tmp_path / "usr/lib").mkdir(parents=True)
    shutil.copytree(unpacked / "usr/lib/sysusers.d", tmp_path / "usr/lib/sysusers.d")
    (tmp_path / "etc").mkdir()
    ran("systemd-sysusers", f"--root={tmp_path}", "configtron.conf")
    users = (tmp_path / "etc/passwd").read_text()
    found = re.findall(r"^(\S+?):.*:/usr/sbin/nologin$", users, re.M)
    assert sorted(found) == ["configtron-agent", "configtron-manager"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_maintainer_script_is_clean(name: str, unpacked: Path) -> None:
    script = unpacked / "DEBIAN" / name
    assert script.stat().st_mode & 0o777 == 0o755
    ran("sh", "-n", script)
    if shutil.which("shellcheck") is not None:
        assert ran("shellcheck", script) == ""
    # Nothing starts by the package: neither at once nor at the next boot, unless the operator had enabled it.
    text = script.read_text()
    assert not re.search(r"\b(systemctl|deb-systemd-invoke)\b[^\n]* (start|restart|enable)\b", text)


def test_state_goes_when_it_is_purged_and_not_before(unpacked: Path) -> None:
    """The folders are removed inside the branch of `purge` alone."""
    text = (unpacked / "DEBIAN/postrm").read_text()
    purge = text.partition('if [ "$1" = purge ]; then')[2]
    assert "/var/lib/configtron-manager" in purge and text.count("rm -rf") == purge.count("rm -rf") == 1
    assert not any("rm " in (unpacked / "DEBIAN" / name).read_text() for name in ("postinst", "prerm"))


def test_licences_of_all_packages_are_in_its_copyright(unpacked: Path) -> None:
    text = (unpacked / "usr/share/doc/configtron/copyright").read_text()
    named = set(re.findall(r"^License: (\S+)-[\d.]+$", text, re.M))
    site = unpacked / "usr/lib/configtron/lib/python3.11/site-packages"
    inside = {path.name.split("-")[0].lower().replace("_", "-") for path in site.glob("*.dist-info")}
    assert inside == named and set(BROUGHT) <= named
    assert "Apache License" in text and "Mozilla Public License" in text and "GNU GENERAL PUBLIC LICENSE" in text
