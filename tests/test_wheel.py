# SPDX-License-Identifier: MIT
"""The wheel, installed with what each extra brings and nothing else: every module imports or names its extra, every
command runs or says in one line which extra it needs.

The environments are made offline: the distributions that the wheel's metadata asks for are linked from this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement

from configtron.cli.root import root
from configtron.linux.netns import holds
from configtron.model.packages import PACKAGES
from configtron.service.doctor import CAPABILITIES
from tests.support import ROOT
from tests.support.waiting import PATIENCE_S
from tests.test_packaging import built_wheel

pytestmark = pytest.mark.wheel

# What a plain install runs: modules under these import without any extra.
PLAIN = ("configtron.cli", "configtron.probe", "configtron.fingerprint", "configtron.tune", "configtron.report",
         "configtron.db")  # fmt: skip
CAPTURE = next((ROOT / "fixtures" / "icw").rglob("*.pcap*"))
# One run of each command that gets past its imports, and the exit codes that are right for it.
# 0 done, 1 a condition, 2 input, 3 in part, 4 nothing there, 5 something is absent, 6 refused.
RUNS: dict[str, tuple[tuple[str, ...], set[int]]] = {
    "probe run": (("probe", "run", "127.0.0.1", "--dry-run"), {0, 6}),
    "probe resolve": (("probe", "resolve", "127.0.0.1", "-o", "resolved.csv"), {0}),
    "probe plan": (("probe", "plan", "--top", "1000"), {0}),
    "probe lists": (("probe", "lists"), {0}),
    "probe regions": (("probe", "regions"), {0, 4}),
    "probe show": (("probe", "show", "1"), {2, 4}),
    "probe diff": (("probe", "diff", "1", "2"), {2, 4}),
    "probe export": (("probe", "export", "1"), {2, 4}),
    "probe merge": (("probe", "merge", "absent.db"), {2}),
    "probe doctor": (("probe", "doctor"), {0, 1}),
    "doctor": (("doctor",), {0, 1}),
    "probe validate": (("probe", "validate"), {2, 4}),
    "fingerprint pcap": (("fingerprint", "pcap", str(CAPTURE)), {0}),
    "fingerprint diversity": (("fingerprint", "diversity", "1"), {2, 4}),
    "fingerprint live": (("fingerprint", "live", "-i", "no-such-link"), {2, 4, 5}),
    "fingerprint socket": (("fingerprint", "socket"), {0, 4}),
    "fingerprint contexts": (("fingerprint", "contexts"), {0, 4}),
    "tune status": (("tune", "status"), {0, 4}),
    "tune plan": (("tune", "plan"), {0, 1, 4}),
    "tune apply": (("tune", "apply"), {0, 4}),
    "tune rollback": (("tune", "rollback"), {0, 4}),
    "tune watch": (("tune", "watch", "--for", "0.5"), {0, 4}),
    "tune agent": (("tune", "agent", "--folder", "agent"), {2, 5}),
    "tune reapply": (("tune", "reapply"), {0, 4}),
    "tune verify": (("tune", "verify"), {0, 4}),
    "tune doctor": (("tune", "doctor"), {0}),
    "tune log": (("tune", "log"), {0}),
    "tune profile drop": (("tune", "profile", "drop", "unknown"), {2, 4}),
    "tune profile list": (("tune", "profile", "list"), {0, 4}),
    "tune profile set": (("tune", "profile", "set", "web", "initcwnd=20"), {0}),
    "tune profile show": (("tune", "profile", "show", "web"), {0}),
    "tune prefix drop": (("tune", "prefix", "drop", "198.51.100.0/24"), {0, 2, 4}),
    "tune prefix import": (("tune", "prefix", "import", "/dev/null"), {0, 2, 4}),
    "tune prefix list": (("tune", "prefix", "list"), {0, 4}),
    "tune prefix set": (("tune", "prefix", "set", "198.51.100.0/24", "web"), {0}),
    "tune prefix show": (("tune", "prefix", "show", "198.51.100.1"), {0}),
    "tune router": (("tune", "router", "nginx"), {0, 2, 4}),
    "tune export": (("tune", "export", "--as", "iproute2"), {0, 2, 4}),
    "tune acknowledge": (("tune", "acknowledge", "1"), {0, 2, 4}),
    "tune unacknowledge": (("tune", "unacknowledge", "1"), {0, 2, 4}),
    "tune unfreeze": (("tune", "unfreeze"), {0, 2, 4}),
    "tune recover": (("tune", "recover"), {0}),
    "tune unit": (("tune", "unit"), {0}),
    "learn measure": (("learn", "measure", "--resume", "1"), {2, 4}),
    "learn import": (("learn", "import", "/dev/null"), {0, 2, 4}),
    "learn run": (("learn", "run"), {2, 4}),
    "learn status": (("learn", "status"), {0, 4}),
    "learn report": (("learn", "report"), {0, 2, 4}),
    "learn policies": (("learn", "policies"), {0}),
    "learn knobs": (("learn", "knobs"), {0}),
    "learn evaluate": (("learn", "evaluate", "--policy", "default"), {2, 4}),
    "learn explain": (("learn", "explain", "rtt_ms=3"), {2, 4}),
    "learn export": (("learn", "export"), {2, 4}),
    "learn initial train": (("learn", "initial", "train", str(CAPTURE)), {0, 2, 4}),
    "learn initial predict": (("learn", "initial", "predict", "192.0.2.1"), {0, 2}),
    "learn initial evaluate": (("learn", "initial", "evaluate"), {2}),
    "learn indigo train": (("learn", "indigo", "train", "--folder", "indigo", "--rounds", "0"), {2}),
    "learn indigo show": (("learn", "indigo", "show"), {0}),
    "learn manager run": (("learn", "manager", "run"), {2}),
    "learn manager enroll": (("learn", "manager", "enroll", "web1", "--address", "tcp://127.0.0.1:5560"), {0, 2}),
    "learn manager revoke": (("learn", "manager", "revoke", "web9"), {4}),
    "learn manager agents": (("learn", "manager", "agents"), {0}),
    "learn manager maps": (("learn", "manager", "maps"), {0}),
    "learn manager rotate-key": (("learn", "manager", "rotate-key"), {0}),
    "learn manager rollback": (("learn", "manager", "rollback", "9.9"), {2}),
    "learn serve": (("learn", "serve", "--local", "--driver", "memory", "--for", "1"), {0, 5}),
    "learn drop": (("learn", "drop", "--policy", "x"), {2, 4}),
    "replay packets": (("replay", "packets", str(ROOT / "fixtures" / "icw")), {0}),
    "replay study": (("replay", "study", "hotcloud"), {0}),
    "replay sessions": (("replay", "sessions", "--sessions", "50", "--policy", "default"), {0}),
}  # fmt: skip
# What `tune` ends with besides where no driver can act: nothing there, something is absent.
UNABLE = frozenset() if holds(CAPABILITIES["CAP_NET_ADMIN"]) else frozenset((4, 5))
# Commands that may ask for an extra when nothing but the plain install is there.
NEED_EXTRAS = {"learn", "tune agent", "replay sessions", "replay study"}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


def test_every_command_has_a_run() -> None:
    assert set(leaves(root)) == set(RUNS)


def closure(requirements: list[str], extras: frozenset[str]) -> set[str]:
    """Names of all distributions that these requirements bring. Errors: `PackageNotFoundError`."""
    found: set[str] = set()
    todo = [(requirement, extra) for requirement in requirements for extra in sorted(extras | {""})]
    while todo:
        text, extra = todo.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name.lower() in found:
            continue
        found.add(requirement.name.lower())
        wanted = sorted(requirement.extras | {""})
        todo += [(text, extra) for text in distribution(requirement.name).requires or [] for extra in wanted]
    return found


def environment(folder: Path, wheel: Path, extra: str) -> Path:
    """A virtual environment with the wheel and exactly what its metadata asks for; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, site], check=True)
    (metadata,) = site.glob("configtron-*.dist-info/METADATA")
    asked = [line[15:] for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist: ")]
    for name in closure(asked, frozenset({extra} if extra else ())):
        there = distribution(name)
        for top in {file.parts[0] for file in there.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            link = site / top
            if not link.exists():
                link.symlink_to(Path(str(there.locate_file(top))).resolve())
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(
    scope="module",
    params=[pytest.param("", marks=pytest.mark.proof), "learn", "lab", "dask", "gpyopt", "fleet", "parquet"],
)
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """(extra, the environment's Python)."""
    folder = tmp_path_factory.mktemp(f"with-{request.param}")
    try:
        return request.param, environment(folder / "venv", wheel, request.param)
    except PackageNotFoundError as lack:
        pytest.skip(f"{lack.name} is not installed here")


def call(python: Path, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {"HOME": str(folder), "PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([python, *words], capture_output=True, text=True, cwd=folder, env=variables, input="",
                          timeout=PATIENCE_S)  # fmt: skip


def test_every_module_imports_or_lacks_an_extra(installed: tuple[str, Path], tmp_path: Path) -> None:
    extra, python = installed
    script = (
        "import configtron, importlib, json, pkgutil\n"
        "lacks = {}\n"
        "for module in pkgutil.walk_packages(configtron.__path__, 'configtron.'):\n"
        "    if module.name.endswith('__main__'): continue\n"
        "    try: importlib.import_module(module.name)\n"
        "    except ModuleNotFoundError as error: lacks[module.name] = error.name\n"
        "print(json.dumps(lacks))\n"
    )
    done = call(python, ["-c", script], tmp_path)
    assert done.returncode == 0, done.stderr
    lacks: dict[str, str] = json.loads(done.stdout)
    assert [name for name in lacks if name.startswith(PLAIN)] == []
    for module, package in lacks.items():
        first = package.partition(".")[0]
        assert first in PACKAGES and PACKAGES[first].extra not in ("", extra), f"{module} lacks {package}"


def test_every_command_runs_or_names_its_extra(installed: tuple[str, Path], tmp_path: Path) -> None:
    extra, python = installed
    wrong = []
    for name, (words, codes) in RUNS.items():
        done = call(python, ["-m", "configtron", "--db", "c.db", *words], tmp_path)
        asks = done.returncode == 5 and "pip install 'configtron[" in done.stderr
        if asks:
            named = done.stderr.partition("configtron[")[2].partition("]")[0]
            fair = named != extra and (name in NEED_EXTRAS or name.split()[0] in NEED_EXTRAS)
            # A command may say what it is about to do before it meets the import.
            complaints = [line for line in done.stderr.splitlines() if line.startswith("configtron:")]
            if fair and len(complaints) == 1 and "Traceback" not in done.stderr:
                continue
        if done.returncode not in codes | (UNABLE if words[0] == "tune" else set()) or "Traceback" in done.stderr:
            wrong.append(f"{name}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    assert not wrong, "\n".join(wrong)


def test_every_help_is_there(installed: tuple[str, Path], tmp_path: Path) -> None:
    _, python = installed
    script = (
        "from configtron.cli.outermost import run\n"
        f"print([run([*name.split(), '--help']) for name in {sorted(RUNS)!r}][-1:], len({sorted(RUNS)!r}))\n"
    )
    done = call(python, ["-c", script], tmp_path)
    assert done.returncode == 0 and done.stdout.rstrip().endswith(f"[0] {len(RUNS)}"), done.stderr
    assert done.stdout.count("Usage: ") == len(RUNS)
