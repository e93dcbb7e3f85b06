"""What a finished run prints, and the exit code it earned."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from configtron.cli.probe.fail_on import Rule, true_of
from configtron.cli.probe.options import ProbeOptions
from configtron.cli.probe.runs import render, vantages_of_run
from configtron.cli.settings import Settings
from configtron.db.store import Store
from configtron.errors import CONDITION, DONE, NOTHING, PARTIAL, REFUSED, BadInput
from configtron.records import canonical
from configtron.report.found import found_in
from configtron.report.lines import opened


def show(options: ProbeOptions, held: Settings, store: Store, number: int, rules: tuple[Rule, ...]) -> int:
    """Print the run as asked; the exit code."""
    found = list(found_in(store.results(number)))
    run = store.run(number)
    with opened(options.output_file) as out:
        render(found, vantages_of_run(run), options.format, out)
    empty = sum(item.empty for item in found)
    blocked = sum(item.verdicts["address"].reason == "blocked" for item in found if "address" in item.verdicts)
    if blocked and held.loudness >= 0:
        print(
            f"configtron: {blocked} of {len(found)} blocked; --allowlist-file names what may be probed", file=sys.stderr
        )
    counts: dict[str, int | str] = {"run": number, "status": run.status, "targets": len(found), "without_value": empty}
    if options.metadata_file:
        _metadata(
            options.metadata_file, run.config, {**counts, "begun_at": run.begun_at, "finished_at": run.finished_at}
        )
    held_true = true_of(rules, found)
    for text in held_true:
        print(f"configtron: --fail-on {text} holds", file=sys.stderr)
    if held.loudness >= 0 and run.status != "interrupted":
        print(f"run {number}: {run.status}; see it again with: configtron probe show {number}", file=sys.stderr)
    if held_true:
        return CONDITION
    if blocked and blocked == len(found):
        return REFUSED
    if empty == len(found):
        return NOTHING
    return PARTIAL if empty else DONE


def _metadata(path: Path, config: str, counts: dict[str, int | str]) -> None:
    try:
        path.write_text(canonical({"schema": "configtron.run/1", **counts, "config": json.loads(config)}) + "\n")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
