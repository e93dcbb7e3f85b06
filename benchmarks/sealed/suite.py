# SPDX-License-Identifier: MIT
"""The sealed suite: every policy, of ours and of other libraries, on worlds that no one has seen.

    python -m benchmarks.sealed [--seed N] [--world FILE]... [--folder FOLDER] [-o FILE] [--quick] [-j N]

Without --seed the operating system draws one, so no policy can have been fitted to it. It is printed with date and
commit; the same seed gives the same worlds. Once printed, a seed is a validation seed.
Worlds: four families that share nothing with the product's formula (`families.py`), that formula itself, a measured
set with few updates, seven distortions, 20 000 and 60 000 sessions, and your own files (docs/studies.md). Every result
is printed; the exit code is 1 only if a policy could not be run on a world.

Each world and policy is a file in the folder; to resume an interrupted run, name its folder. A
whole run takes half an hour on two idle cores, --quick two minutes. Other libraries: pip install 'configtron[rivals]'.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.evidence import commit_of
from benchmarks.sealed import table
from benchmarks.sealed.choosers import FAIR, WARM, chooser, readings, roster
from benchmarks.sealed.ground import Spec, made, quick, standard
from benchmarks.sealed.play import play
from configtron.learner import PREFERRED
from configtron.model.errors import BadInput
from tests.support import ROOT

RUN = "run.json"
# CPU seconds of a thousand sessions, roughly: only the time left is made of it.
COST_S = {
    "thompson": 1.0, "linucb": 0.7, "squarecb": 0.3, "configtron": 0.2, "vw squarecb": 1.3,
    "contextualbandits BootstrappedUCB": 0.4,
}  # fmt: skip
LEAST_COST_S = 0.05
# Rows of the distorted and the long worlds: who could be ahead, and what they are compared with.
NARROW = ("default", "static", "cell_optimum", "mab_nc", "linucb", PREFERRED, f"{PREFERRED}{WARM}", "mabwiser LinUCB",
          "vw squarecb", "contextualbandits LinUCB")  # fmt: skip
Task = tuple[Spec, str, int, Path]


def tasks(specs: Iterable[Spec], seed: int, folder: Path) -> list[Task]:
    """Every world with every row that is played on it, a world's together."""
    found = []
    for spec in specs:
        narrow = "quick" not in spec.name and (spec.kind != "plain" or spec.sessions > 20_000)
        rows = [row for row in roster() if not narrow or row in (*NARROW, *readings())]
        if spec.family == "file":
            rows = [row for row in rows if not row.endswith(WARM)]
        found += [(spec, row, seed, folder) for row in rows]
    return found


def file_of(task: Task) -> Path:
    """Where what a task found is kept."""
    spec, row, _, folder = task
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{spec.name}--{row}")
    return folder / f"{name}.json"


def perform(task: Task) -> str:
    """Play one row on one world and keep it; why not, where its library is absent or the world is none."""
    spec, row, seed, folder = task
    try:
        ground = made(spec, seed, folder)
        found = play(chooser(row, ground), ground)
    except ImportError:
        return ""
    except BadInput as error:
        return f"{spec.name}, {row}: {error}"
    except (ValueError, ArithmeticError, LookupError, RuntimeError) as error:
        return f"{spec.name}, {row}: {type(error).__name__}: {error}"
    file = file_of(task)
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"world": spec.name, "row": row, "found": found}))
    part.replace(file)
    return ""


def cost(task: Task) -> float:
    """CPU seconds it takes, roughly."""
    spec, row, _, _ = task
    name = row.removesuffix(WARM)
    each = COST_S.get("configtron" if name in readings() else name, LEAST_COST_S)
    return each * spec.sessions / 1000.0 + 1.0


def run(all_: list[Task], jobs: int) -> list[str]:
    """Do what is not done yet; what went wrong, a line each."""
    left = [task for task in all_ if not file_of(task).exists()]
    begun, done, whole, wrong = time.monotonic(), 0.0, sum(map(cost, left)), []
    if len(left) < len(all_):
        _say(f"{len(all_) - len(left)} of {len(all_)} rows are there already")
    for number, (task, why) in enumerate(_performed(left, jobs), 1):
        if why:
            wrong.append(why)
            _say(f"FAILED: {why}")
        done += cost(task)
        ends_s = (time.monotonic() - begun) * (whole - done) / done
        _say(f"{number}/{len(left)} rows, {ends_s / 60:.0f} min left: {task[0].name}: {task[1]}")
    return wrong


def _performed(left: list[Task], jobs: int) -> Iterator[tuple[Task, str]]:
    """Each task with what went wrong. Processes begin anew: a copy of one whose libraries have threads may hang."""
    if jobs == 1:
        yield from ((task, perform(task)) for task in left)
        return
    # A process is a core's; its libraries' threads would take the others'.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = {pool.submit(perform, task): task for task in left}
        yield from ((waiting[future], future.result()) for future in as_completed(waiting))


def found_in(all_: list[Task]) -> dict[str, dict[str, dict[str, Any]]]:
    """What is in the folder, by world and row, in the run's order."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for task in all_:
        file = file_of(task)
        if file.exists():
            one = json.loads(file.read_text())
            found.setdefault(one["world"], {})[one["row"]] = one["found"]
    return found


def fresh(seed: int | None, folder: Path) -> tuple[int, str]:
    """A run's seed and when it began: as asked for, as the folder has it, or the operating system's."""
    file = folder / RUN
    if file.exists():
        kept = json.loads(file.read_text())
        if seed not in (None, kept["seed"]):
            raise BadInput(f"{folder}: a run of seed {kept['seed']} is here; name another folder, or leave --seed out")
        return kept["seed"], kept["began"]
    chosen = secrets.randbits(31) if seed is None else seed
    began = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"seed": chosen, "began": began}))
    return chosen, began


def main(words: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="benchmarks.sealed", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="seed of the worlds [default: drawn by the operating system]")
    parser.add_argument(
        "--world",
        action="append",
        default=[],
        metavar="FILE",
        help="also run on your own world (docs/studies.md); several times",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORDS",
        help="only worlds whose name has these words; several times",
    )
    parser.add_argument(
        "--policy", action="append", default=[], metavar="ROW", help="only these rows of the table; several times"
    )
    parser.add_argument("--folder", type=Path, help="where results are kept [default: runs/sealed/SEED]")
    parser.add_argument(
        "--quick", action="store_true", help="small worlds, two minutes: a test of the suite, not of policies"
    )
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes [default: one a core]")
    parser.add_argument("-o", "--output-file", type=Path, help="write the report here [default: stdout]")
    arguments = parser.parse_args(words)
    chosen = secrets.randbits(31) if arguments.seed is None else arguments.seed
    folder = arguments.folder or ROOT / "runs" / "sealed" / str(chosen)
    try:
        return _main(arguments, arguments.seed if arguments.folder else chosen, folder)
    except (BadInput, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _main(arguments: argparse.Namespace, seed: int | None, folder: Path) -> int:
    seed, began = fresh(seed, folder)
    specs = (quick if arguments.quick else standard)(tuple(arguments.world))
    if arguments.only:
        specs = tuple(spec for spec in specs if any(word in spec.name for word in arguments.only))
    all_ = [task for task in tasks(specs, seed, folder) if not arguments.policy or task[1] in arguments.policy]
    commit = commit_of(ROOT)
    _say(f"seed {seed}, {began}, commit {commit}; {len(specs)} worlds, {len(all_)} rows; kept in {folder}")
    wrong = run(all_, arguments.jobs)
    found = found_in(all_)
    candidates = (PREFERRED, f"{PREFERRED}{WARM}")
    title = f"Made by `python -m benchmarks.sealed` on {began} at commit {commit}, seed {seed}"
    title += f" ({FAIR} is the fair reading of the paper). A warm start is the tensor of another family for worlds of"
    title += " odd numbers, of the same family with other networks and pages for even ones; a missing cell loads as"
    title += " under Default.\n"
    notes = [line for line in (table.absent(), *wrong) if line]
    title += "".join(f"\n* {line}\n" for line in notes)
    text = table.page(found, title, candidates)
    if arguments.output_file:
        arguments.output_file.write_text(f"# The sealed suite\n\n{text}")
    else:
        print(text)
    print(table.verdicts(found, candidates), file=sys.stderr)
    return 1 if wrong else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
