# SPDX-License-Identifier: MIT
"""Our module's build: from which sources, kept under which name, for which kernels, and by the kernel's own style."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from configtron.lab.__main__ import main
from configtron.lab.uml import kmod
from configtron.lab.uml.modules import ensure_tree
from configtron.model.errors import PRIVILEGE, USAGE, Missing
from tests.support import ROOT
from tests.test_packaging import lines

INSTALLED = sorted(path.parent.name for path in Path("/lib/modules").glob("*/build") if path.exists())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    (made / ".config").write_text("CONFIG_A=y\n")
    return made


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "kmod"
    shutil.copytree(kmod.sources(), copy)
    monkeypatch.setattr(kmod, "sources", lambda: copy)
    return copy


def test_sources_are_the_checkouts() -> None:
    assert kmod.sources() == ROOT / "kmod"


def test_the_name_changes_with_all_that_decides(sources: Path, tree: Path) -> None:
    keys = [kmod._key(tree, "um", ()), kmod._key(tree, "x86_64", ()), kmod._key(tree, "um", ("CONFIGTRON_BENCH=1",))]
    (tree / ".config").write_text("CONFIG_A=n\n")
    keys.append(kmod._key(tree, "um", ()))
    (sources / "store.c").write_text("/* another */\n")
    keys.append(kmod._key(tree, "um", ()))
    (sources / "README.md").write_text("words change nothing\n")
    assert len(set(keys)) == len(keys) and kmod._key(tree, "um", ()) == keys[-1]


def test_what_is_missing_is_named_with_its_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Missing, match="package linux-headers-no-such-release"):
        kmod.module_for_installed(print, "no-such-release")
    assert main(["module", "no-such-release"]) == PRIVILEGE
    assert "Traceback" not in capsys.readouterr().err


def test_wrong_use_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["module", "one", "two"]) == USAGE
    assert "module [lab | RELEASE]" in capsys.readouterr().err


def test_an_installed_package_brings_the_sources() -> None:
    """Where DKMS looks for them."""
    globs = lines("options.data_files", f"src/configtron-{kmod.configtron.__version__}")
    assert globs
    listed = {path.name for glob in globs for path in ROOT.glob(glob)}
    assert listed == {path.name for path in (ROOT / "kmod").iterdir() if path.is_file()}


def test_dkms_has_the_modules_version() -> None:
    words = (ROOT / "kmod" / "dkms.conf").read_text()
    release = next(line for line in (ROOT / "kmod" / "internal.h").read_text().splitlines() if "CT_RELEASE" in line)
    assert f'PACKAGE_VERSION="{kmod.configtron.__version__}"' in words
    assert f'"{kmod.configtron.__version__}"' in release


def test_the_kernels_that_the_module_was_tested_on_are_the_same_everywhere() -> None:
    texts = {name: (ROOT / "kmod" / name).read_text() for name in ("dkms.conf", "internal.h", "Kbuild")}
    oldest, newest = re.findall(r'CT_KERNEL_\w+EST "([\d.]+)"', texts["internal.h"])
    assert f'BUILD_EXCLUSIVE_KERNEL_MIN="{oldest}"' in texts["dkms.conf"]
    assert f'BUILD_EXCLUSIVE_KERNEL_MAX="{newest}.999"' in texts["dkms.conf"]
    assert f"tested on Linux {oldest} to {newest}, not on" in texts["Kbuild"]


@pytest.mark.parametrize(
    ("version", "variables", "built"),
    [((6, 1), "", True), ((7, 3), "", True), ((6, 0), "", False), ((7, 4), "", False), ((7, 4), "=1", True)],
)
def test_a_kernel_that_it_was_not_tested_on_is_named(version: tuple[int, int], variables: str, built: bool) -> None:
    """Kbuild alone, with the kernel's version as its own build would have it."""
    given = [f"CONFIGTRON_ANY_KERNEL{variables}"] if variables else []
    numbers = [f"VERSION={version[0]}", f"PATCHLEVEL={version[1]}"]
    command = ["make", "-f", str(ROOT / "kmod" / "Kbuild"), *numbers, *given, "-n"]
    done = subprocess.run([*command, "--eval=.PHONY: all\nall: ;"], capture_output=True, text=True, check=False)
    named = f"tested on Linux 6.1 to 7.3, not on {version[0]}.{version[1]}"
    assert (named in done.stderr) is not built, done.stderr


def test_warnings_are_errors_in_the_laboratory_only() -> None:
    """A new compiler's warning must not keep DKMS from building for a new kernel."""
    flags = next(line for line in (ROOT / "kmod" / "Kbuild").read_text().splitlines() if "-Werror" in line)
    assert flags == "ccflags-$(if $(CONFIGTRON_WERROR),y) += -Werror"
    assert "CONFIGTRON_WERROR" not in (ROOT / "kmod" / "dkms.conf").read_text()


def test_no_file_is_long() -> None:
    """As long as any source here may be: a file holds one concept."""
    files = [path for path in (ROOT / "kmod").iterdir() if path.suffix in (".c", ".h")]
    assert len(files) > 10 and [path.name for path in files if len(path.read_text().splitlines()) > 450] == []


@pytest.mark.lab
def test_the_kernels_own_style() -> None:
    """checkpatch --strict of the kernel that the lab is built from.

    draw.h is not only the kernel's: BPF and user space include it, and its name `upto` is used elsewhere.
    """
    files = sorted(str(path) for path in (ROOT / "kmod").iterdir() if path.suffix in (".c", ".h"))
    files.remove(str(ROOT / "kmod" / "draw.h"))
    checkpatch = ensure_tree(print) / "scripts" / "checkpatch.pl"
    command = ["perl", str(checkpatch), "--strict", "--no-tree", "--terse", "--no-summary"]
    command += ["--ignore", "TYPO_SPELLING", "--file", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.lab
@pytest.mark.parametrize("release", INSTALLED or ["none"])
def test_installed_headers_will_do(release: str) -> None:
    if release == "none":
        pytest.skip("no kernel headers are installed; run: apt-get install linux-headers-amd64")
    built = kmod.module_for_installed(print, release)
    assert f"vermagic={release}".encode() in built.read_bytes()
    before = built.stat().st_mtime_ns
    assert kmod.module_for_installed(print, release) == built and built.stat().st_mtime_ns == before


@pytest.mark.lab
def test_sparse_finds_nothing(tmp_path: Path) -> None:
    """Types that only sparse knows: who may follow a pointer, which lock is held, whose byte order a number has."""
    if not shutil.which("sparse"):
        pytest.skip("sparse is not installed; run: apt-get install sparse")
    folder = tmp_path / "kmod"
    shutil.copytree(kmod.sources(), folder)
    tree = ensure_tree(print)
    command = ["make", f"--directory={tree}", f"M={folder}", "ARCH=um", "C=2", "CF=-D__CHECK_ENDIAN__"]
    command += ["KBUILD_MODPOST_WARN=1", "modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(str(folder))]
    assert done.returncode == 0, done.stderr[-2000:]
    assert "  CHECK   " in done.stdout and complaints == []
