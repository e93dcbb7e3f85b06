# SPDX-License-Identifier: MIT
"""The quick form of a study of the lab, by the command line and then from its complete parts."""

from __future__ import annotations

import json
from pathlib import Path

from configtron.cli.outermost import run
from configtron.model.errors import DONE
from configtron.studies.output.results import Evaluated
from configtron.studies.registry import claims_run
from configtron.studies.registry.kinds import Arguments, PartsProgress


def quick(name: str, folder: Path, *more: str) -> int:
    """Run the quick form of a study; return the exit code. Its page is `x.html`."""
    words = ["--db", str(folder / "x.db"), "replay", "study", name, "--smoke", "-f", "jsonl"]
    return run([*words, "--html", str(folder / "x.html"), *more])


def quick_in_guests(name: str, folder: Path) -> Evaluated:
    """Return the results of a study's quick form in guests: what is complete is not run again, and reads the same."""
    assert quick(name, folder, "-o", str(folder / "rows")) == DONE
    rows = [json.loads(line) for line in (folder / "rows").read_text().splitlines()]
    assert {row["study"] for row in rows} == {name} and not rows[0]["missing"]
    facts = [row["words"] for row in rows if row["kind"] == "fact"]
    steps = list[PartsProgress]()
    parts = folder / "x.db.studies" / name / "smoke"
    found = claims_run.study_of(name).run(Arguments(parts, smoke=True, worker=claims_run.WORKER, progress=steps.append))
    assert facts and facts == [fact.words for fact in found.facts] and not [step for step in steps if step.now]
    return found
