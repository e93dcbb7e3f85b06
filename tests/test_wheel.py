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
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement

from configtron.cli.manual import contexts
from configtron.linux.netns import holds
from configtron.model.packages import PACKAGES
from configtron.service.doctor import CAPABILITIES
from tests.support import ROOT
from tests.support.waiting import PATIENCE_S
from tests.test_packaging import built_wheel, link

pytestmark = pytest.mark.wheel

# What a plain install runs: modules under these import without any extra.
PLAIN = ("configtron.cli", "configtron.probe", "configtron.fingerprint", "configtron.tune", "configtron.report",
         "configtron.db")  # fmt: skip
# One run of each command that gets past its imports, by the exit codes that are right for it:
# 0 done, 1 a condition, 2 input, 3 in part, 4 nothing there, 5 something is absent, 6 refused.
CODES: dict[tuple[int, ...], str] = {
    (0, 6): "probe run 127.0.0.1 --dry-run",
    (0,): """
        probe resolve 127.0.0.1 -o resolved.csv ; probe plan --top 1000 ; probe lists ;
        fingerprint pcap CAPTURE ; tune doctor ; tune log ; tune profile set web initcwnd=20 ;
        tune profile show web ; tune prefix set 198.51.100.0/24 web ; tune prefix show 198.51.100.1 ;
        tune recover ; tune unit ; learn policies ; learn knobs ; learn indigo show ; learn manager agents ;
        learn manager maps ; learn manager rotate-key ; replay packets FIXTURES ; replay study hotcloud ;
        replay sessions --sessions 50 --policy default
    """,
    (0, 4): """
        probe regions ; fingerprint socket ; fingerprint contexts ; tune status ; tune apply ; tune rollback ;
        tune watch --for 0.5 ; tune reapply ; tune verify ; tune profile list ; tune prefix list ;
        learn status
    """,
    (2, 4): """
        probe show 1 ; probe diff 1 2 ; probe export 1 ; probe validate ; fingerprint diversity 1 ;
        tune profile drop unknown ; learn measure --resume 1 ; learn run ; learn evaluate --policy default ;
        learn explain rtt_ms=3 ; learn export ; learn drop --policy x
    """,
    (2,): """
        probe merge absent.db ; learn initial evaluate ; learn indigo train --folder indigo --rounds 0 ;
        learn manager run ; learn manager rollback 9.9
    """,
    (0, 1): "probe doctor ; doctor",
    (2, 4, 5): "fingerprint live -i no-such-link",
    (0, 1, 4): "tune plan",
    (2, 5): "tune agent --folder agent",
    (0, 2, 4): """
        tune prefix drop 198.51.100.0/24 ; tune prefix import /dev/null ; tune router nginx ;
        tune export --as iproute2 ; tune acknowledge 1 ; tune unacknowledge 1 ; tune unfreeze ;
        learn import /dev/null ; learn report ; learn initial train CAPTURE
    """,
    (0, 2): "learn initial predict 192.0.2.1 ; learn manager enroll web1 --address tcp://127.0.0.1:5560",
    (4,): "learn manager revoke web9",
    (0, 5): "learn serve --local --driver memory --for 1",
}
PLACES = {
    "CAPTURE": str(next((ROOT / "fixtures" / "icw").rglob("*.pcap*"))),
    "FIXTURES": str(ROOT / "fixtures" / "icw"),
}
RUNS = [
    ([PLACES.get(word, word) for word in run.split()], codes)
    for codes, runs in CODES.items()
    for run in runs.split(";")
]
# What `tune` ends with besides where no driver can act: nothing there, something is absent.
UNABLE = frozenset() if holds(CAPABILITIES["CAP_NET_ADMIN"]) else frozenset((4, 5))
# Commands that may ask for an extra when nothing but the plain install is there.
NEED_EXTRAS = {"learn", "tune agent", "replay sessions", "replay study"}


COMMANDS = {
    context.command_path.partition(" ")[2] for context in contexts() if not isinstance(context.command, click.Group)
}


def name_of(words: list[str]) -> str:
    return next(name for n in (3, 2, 1) if (name := " ".join(words[:n])) in COMMANDS)


def test_every_command_has_a_run() -> None:
    assert sorted(name_of(words) for words, _ in RUNS) == sorted(COMMANDS)


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
        link(name, site)
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
    # Commands that need no extra run in the plain install: one that is there changes nothing for them. `tune profile
    # set` makes the database.
    due = NEED_EXTRAS | {"tune profile set"}
    for words, codes in [run for run in RUNS if not extra or {name_of(run[0]), run[0][0]} & due]:
        name = name_of(words)
        done = call(python, ["-m", "configtron", "--db", "c.db", *words], tmp_path)
        if done.returncode == 5 and "pip install 'configtron[" in done.stderr:
            named = done.stderr.partition("configtron[")[2].partition("]")[0]
            fair = named != extra and (name in NEED_EXTRAS or words[0] in NEED_EXTRAS)
            # A command may say what it is about to do before it meets the import.
            complaints = [line for line in done.stderr.splitlines() if line.startswith("configtron:")]
            if fair and len(complaints) == 1 and "Traceback" not in done.stderr:
                continue
        if done.returncode not in {*codes, *(UNABLE if words[0] == "tune" else ())} or "Traceback" in done.stderr:
            wrong.append(f"{name}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    assert not wrong, "\n".join(wrong)


def test_every_help_is_there(installed: tuple[str, Path], tmp_path: Path) -> None:
    _, python = installed
    script = (
        "from configtron.cli.outermost import run\n"
        f"print([run([*name.split(), '--help']) for name in {sorted(COMMANDS)!r}][-1:], len({sorted(COMMANDS)!r}))\n"
    )
    done = call(python, ["-c", script], tmp_path)
    assert done.returncode == 0 and done.stdout.rstrip().endswith(f"[0] {len(COMMANDS)}"), done.stderr
    assert done.stdout.count("Usage: ") == len(COMMANDS)
