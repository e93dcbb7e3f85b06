# SPDX-License-Identifier: MIT
"""Fetch other implementations of congestion controls from package registries, and build them with our drivers.

    tquic_copa() -> path of a program          the crate tquic, its Copa alone
    libutp() -> path of a shared library       libutp, in the npm package utp-native
    pion() -> folder                           the Go module pion/interceptor, with our driver in its package gcc

Nothing of theirs is kept in this repository: all of it is in ~/.cache/configtron/oracles. `Unavailable` says what is
missing: a tool, or the registry.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path.home() / ".cache/configtron/oracles"
TQUIC, UTP_NATIVE, PION = "1.6.0", "2.5.3", "v0.1.51"
# Minutes for a registry and a compiler on a busy machine.
PATIENCE_S = 600.0


class Unavailable(Exception):
    """An oracle cannot be fetched or built here."""


def ran(folder: Path, *command: str) -> str:
    """Return what a command prints. Errors: `Unavailable`."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
    return done.stdout


def _crate(folder: Path, name: str, dependency: str) -> None:
    (folder / "src").mkdir(parents=True, exist_ok=True)
    lines = ["[package]", f'name = "{name}"', 'version = "0.1.0"', 'edition = "2021"', "[dependencies]", dependency, ""]
    (folder / "Cargo.toml").write_text("\n".join(lines))


def tquic_copa() -> Path:
    """Build tquic's Copa. The whole crate needs BoringSSL; three of its files, and our declarations, do not."""
    source, build = CACHE / "tquic", CACHE / "copa"
    _crate(source, "source", f'tquic = "={TQUIC}"')
    (source / "src/lib.rs").touch()
    packages = json.loads(ran(source, "cargo", "metadata", "--format-version", "1"))["packages"]
    theirs = next(Path(one["manifest_path"]).parent / "src" for one in packages if one["name"] == "tquic")
    _crate(build, "copa_driver", 'log = "0.4"')
    for name in ("connection/rtt.rs", "congestion_control/copa.rs", "congestion_control/minmax.rs"):
        (build / "src" / name).parent.mkdir(exist_ok=True)
        shutil.copy(theirs / name, build / "src" / name)
    shutil.copy(HERE / "copa_driver.rs", build / "src/main.rs")
    ran(build, "cargo", "build", "--release", "--quiet")
    return build / "target/release/copa_driver"


def libutp() -> Path:
    """Build libutp as a shared library."""
    build = CACHE / "utp"
    build.mkdir(parents=True, exist_ok=True)
    packed = ran(build, "npm", "pack", "--silent", f"utp-native@{UTP_NATIVE}").strip()
    with tarfile.open(build / packed) as archive:
        archive.extractall(build, [one for one in archive.getmembers() if one.isfile() and ".." not in one.name])
    sources = sorted(str(file) for file in (build / "package/deps/libutp").glob("utp_*.cpp"))
    flags = ("-O2", "-shared", "-fPIC", "-w", "-fpermissive", "-DPOSIX", "-o", "libutp.so")
    ran(build, "g++", *flags, *sources)
    return build / "libutp.so"


def pion() -> Path:
    """Copy the module, which its cache keeps unwritable, and put our driver into its package gcc."""
    source, build = CACHE / "pion-source", CACHE / "pion"
    source.mkdir(parents=True, exist_ok=True)
    theirs = json.loads(ran(source, "go", "mod", "download", "-json", f"github.com/pion/interceptor@{PION}"))["Dir"]
    shutil.rmtree(build, ignore_errors=True)
    shutil.copytree(theirs, build, copy_function=shutil.copyfile)
    for one in [build, *(path for path in build.rglob("*") if path.is_dir())]:
        one.chmod(0o755)
    shutil.copyfile(HERE / "gcc_driver.go", build / "pkg/gcc/signals_test.go")
    return build
