# SPDX-License-Identifier: MIT
"""Make a Debian package of this checkout, and of the packages in the environment that runs this: `make deb`.

    PYTHON deploy/deb/build.py [--output FOLDER] [--revision N] [--compress zstd|xz|gzip|none]

Everything Python is under /usr/lib/configtron: an environment of its own, on Debian's Python. The environment that
runs this has setuptools, packaging and what configtron needs with its extras `fleet` and `learn`, from wheels. A file
is taken only with the hash that its wheel's RECORD states. Neither network nor root is needed.
Source     deb(5), deb-control(5), PEP 376 and 427; Debian Policy 3 to 12
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
EXTRAS = frozenset({"", "fleet", "learn"})
PYTHON = (3, 11)
HOME = "usr/lib/configtron"
SITE = f"{HOME}/lib/python3.11/site-packages"
# Names under which wheels carry licences.
LICENCE = re.compile(r"(^|/)(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
# Parts of a path in site-packages that are not taken: byte code, programs, what pip notes, tests (64 MB).
LEFT_OUT = frozenset({"..", "__pycache__", "direct_url.json", "REQUESTED", "tests"})
# Part of the checkout that a wheel is not made of.
LEFT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "runs", "tests", "*.egg-info", "__pycache__")
PROGRAM = f"#!/{HOME}/bin/python3\nfrom configtron.cli import main\n\nraise SystemExit(main())\n"
VENV = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n"
SCRIPTS = ("postinst", "prerm", "postrm")
COPIED = {
    "sysusers.conf": "usr/lib/sysusers.d/configtron.conf",
    "tmpfiles.conf": "usr/lib/tmpfiles.d/configtron-state.conf",
    "default-agent": "etc/default/configtron-agent",
    "default-manager": "etc/default/configtron-manager",
}
CONTROL = """\
Package: configtron
Version: {version}
Architecture: {architecture}
Maintainer: configtron <configtron@localhost>
Installed-Size: {kibibytes}
Depends: python3 (>= 3.11), python3 (<< 3.12), libc6 (>= 2.28), libstdc++6, libbpf1, iproute2, systemd,
 init-system-helpers
Recommends: sudo, libpcap0.8, nftables
Suggests: dkms
Section: net
Priority: optional
Description: measure how servers configure TCP and HTTP, tune them, learn
 Program, man pages and the units of a fleet's manager and agents. No service
 is started or enabled. The Python packages that it needs are inside.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a Debian package of this checkout.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--revision", default="1")
    parser.add_argument("--compress", default="zstd")
    given = parser.parse_args()
    if sys.version_info[:2] != PYTHON:
        raise SystemExit("Debian 12's Python is 3.11: run this by python3.11")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        stage = work / "stage"
        own = unpack(wheel(work), stage)
        packages = [copied(each, stage / SITE) for each in needed(own)]
        program(stage)
        data(stage, own.version)
        documents(stage, own, packages)
        units(stage)
        compiled(stage)
        given.output.mkdir(parents=True, exist_ok=True)
        print(package(work, stage, f"{own.version}-{given.revision}", given.output, given.compress))


def wheel(work: Path) -> Path:
    """Return the wheel of this checkout, made from a copy."""
    shutil.copytree(ROOT, work / "copy", symlinks=True, ignore=LEFT)
    code = "import setuptools.build_meta as b; b.build_wheel('..')"
    subprocess.run([sys.executable, "-c", code], cwd=work / "copy", check=True, stdout=subprocess.DEVNULL)
    (found,) = work.glob("*.whl")
    return found


def unpack(file: Path, stage: Path) -> Distribution:
    """Put our wheel into place, its data files under the environment; return what its metadata says."""
    site = stage / SITE
    with zipfile.ZipFile(file) as held:
        held.extractall(site)
    (data_folder,) = site.glob("*.data")
    shutil.copytree(data_folder / "data", stage / HOME, dirs_exist_ok=True)
    shutil.rmtree(data_folder)
    (info,) = site.glob("configtron-*.dist-info")
    return PathDistribution(info)


def needed(own: Distribution) -> list[Distribution]:
    """Return the installed distributions that ours asks for, and theirs, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(each, EXTRAS) for each in own.requires or ()]
    while waiting:
        text, extras = waiting.pop()
        asked = Requirement(text)
        name = canonicalize_name(asked.name)
        if name in found or asked.marker and not any(asked.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        found[name] = distribution(name)
        if not asked.specifier.contains(found[name].version, prereleases=True):
            raise SystemExit(f"{name} {found[name].version} is installed, and {text} is asked for")
        waiting += [(each, frozenset({"", *asked.extras})) for each in found[name].requires or ()]
    return [found[name] for name in sorted(found)]


def copied(each: Distribution, site: Path) -> Distribution:
    """Copy what a distribution has in site-packages, if each file still is the wheel's; return it."""
    for file in each.files or ():
        if not LEFT_OUT.isdisjoint(file.parts):
            continue
        content = Path(str(file.locate())).read_bytes()
        if file.hash and _digest(file.hash.mode, content) != file.hash.value:
            raise SystemExit(f"{file} is not as the wheel of {each.name} has it")
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return each


def _digest(mode: str, content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.new(mode, content).digest()).decode().rstrip("=")


def program(stage: Path) -> None:
    """Make the environment's Python and the program, and its name on the path."""
    folder = stage / HOME / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to("/usr/bin/python3.11")
    (stage / HOME / "pyvenv.cfg").write_text(VENV)
    (folder / "configtron").write_text(PROGRAM)
    (folder / "configtron").chmod(0o755)
    (stage / "usr/bin").mkdir()
    (stage / "usr/bin/configtron").symlink_to(f"../lib/{Path(HOME).name}/bin/configtron")


def data(stage: Path, version: str) -> None:
    """Move man pages, completions and the module's source to their places in Debian; copy what the services need."""
    shutil.move(stage / HOME / "share", stage / "usr/share")
    for page in (stage / "usr/share/man/man1").iterdir():
        _gzip(page)
    (stage / "usr/src").mkdir()
    source = f"configtron-{version}"
    shutil.move(stage / HOME / "src" / source, stage / "usr/src" / source)
    (stage / HOME / "src" / source).symlink_to(f"/usr/src/{source}")
    for name, place in COPIED.items():
        (stage / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / name, stage / place)


def _gzip(file: Path) -> None:
    file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    file.unlink()


def units(stage: Path) -> None:
    """Write the units of manager and agent as `tune unit --fleet` does, for the program on the path."""
    code = (
        "import sys; from pathlib import Path; from configtron.tune.fleet_units import fleet_units\n"
        "for name, text in fleet_units(['/usr/bin/configtron']).items(): Path(sys.argv[1], name).write_text(text)"
    )
    folder = stage / "lib/systemd/system"
    folder.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(stage / SITE), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-P", "-c", code, str(folder)], check=True, env=environment)


def documents(stage: Path, own: Distribution, packages: list[Distribution]) -> None:
    """Write licences, the changelog and the pages that the deployment is described in."""
    folder = stage / "usr/share/doc/configtron"
    folder.mkdir(parents=True)
    (folder / "copyright").write_text("\n".join(_copyright(own, packages)))
    shutil.copy(ROOT / "CHANGELOG.md", folder / "changelog")
    _gzip(folder / "changelog")
    for name in ("fleet.md", "learn.md"):
        shutil.copy(ROOT / "docs" / name, folder)


def _copyright(own: Distribution, packages: list[Distribution]) -> Iterator[str]:
    """Yield machine-readable paragraphs (copyright-format 1.0): ours, then each package's with all of its texts."""
    yield "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: configtron\n"
    yield from _paragraphs("*", own)
    for each in packages:
        tops = sorted({file.parts[0] for file in each.files or () if LEFT_OUT.isdisjoint(file.parts)})
        yield from _paragraphs("\n ".join(f"{SITE}/{top}*" for top in tops), each)


def _paragraphs(files: str, each: Distribution) -> Iterator[str]:
    stated = _stated(each)
    name = f"{canonicalize_name(each.name)}-{each.version}"
    source = "this package" if files == "*" else f"https://pypi.org/project/{each.name}/{each.version}/"
    yield f"Files: {files}\nCopyright: see the texts of its licence\nLicense: {name}"
    yield f"Comment: {stated}; source:\n {source}\n"
    yield f"License: {name}"
    texts = [file for file in each.files or () if LICENCE.search(str(file)) and file.suffix != ".py"]
    for file in texts:
        yield f" {Path(file).name}:"
        yield from (
            f" {line.rstrip() or '.'}" for line in Path(str(file.locate())).read_text(errors="replace").splitlines()
        )
    yield "" if texts else f" {stated}\n"


def _stated(each: Distribution) -> str:
    """Return the licence that a distribution's metadata states, in one line."""
    known = each.metadata
    kinds = [text.rpartition(" :: ")[2] for text in known.get_all("Classifier", ()) if text.startswith("License")]
    return known["License-Expression"] or " and ".join(kinds) or (known["License"] or "not stated").splitlines()[0]


def compiled(stage: Path) -> None:
    """Make byte code that Python takes without a look at its source's time, and never writes anew."""
    where = ["-s", str(stage), "-p", "/", str(stage / SITE)]
    command = [sys.executable, "-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "unchecked-hash", *where]
    # It would be written to the prefix, and the package would have none.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    subprocess.run(command, check=True, env=environment)


def package(work: Path, stage: Path, version: str, output: Path, compress: str) -> Path:
    """Write the package and return its path."""
    files = sorted(path for path in stage.rglob("*") if path.is_file() and not path.is_symlink())
    for path in stage.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    control = stage / "DEBIAN"
    control.mkdir()
    asked = ["dpkg", "--print-architecture"]
    architecture = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    size = sum(path.stat().st_size for path in files) // 1024
    (control / "control").write_text(CONTROL.format(version=version, architecture=architecture, kibibytes=size))
    (control / "conffiles").write_text("".join(f"/{place}\n" for place in COPIED.values() if place.startswith("etc/")))
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(stage)}\n" for path in files)
    (control / "md5sums").write_text("".join(sums))
    for name in SCRIPTS:
        shutil.copy(HERE / name, control)
        (control / name).chmod(0o755)
    _no_trace(work, files)
    target = output / f"configtron_{version}_{architecture}.deb"
    words = [
        "dpkg-deb",
        f"-Z{compress}",
        *(["-z3"] if compress == "zstd" else []),
        "--root-owner-group",
        "--build",
        str(stage),
        str(target),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0")}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
    return target


def _no_trace(work: Path, files: list[Path]) -> None:
    """End with an error if a file names the folder that it was made in."""
    traces = [str(path) for path in files if str(work).encode() in path.read_bytes()]
    if traces:
        raise SystemExit(f"these name the folder of the build: {', '.join(traces[:5])}")


if __name__ == "__main__":
    main()
