# SPDX-License-Identifier: MIT
"""What a finished run prints, and the exit code it earned."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from configtron.cli.probe.fail_on import Rule, Tried
from configtron.cli.probe.options import ProbeOptions
from configtron.cli.probe.runs import render, vantages_of_run
from configtron.cli.settings import Settings, hint
from configtron.db.store import Store
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, REFUSED, cannot_write
from configtron.model.records import canonical
from configtron.report.found import TargetResult, found_in
from configtron.report.lines import opened


def show(options: ProbeOptions, held: Settings, store: Store, number: int, rules: tuple[Rule, ...]) -> int:
    """Print the run as asked; the exit code."""
    seen = _Seen(rules)
    run = store.run(number)
    with opened(options.output_file) as out:
        render(seen.passing(found_in(store.results(number))), vantages_of_run(run), options.format, out)
    total, empty, blocked = seen.total, seen.empty, seen.blocked
    if blocked and held.loudness >= 0:
        which = ", for example " + seen.example if seen.example else ""
        print(
            f"configtron: {blocked} of {total} blocked{which}; what is yours may be probed:"
            f" --allow {seen.example or 'ADDRESS'}, or --allowlist-file FILE",
            file=sys.stderr,
        )
    counts: dict[str, int | str] = {"run": number, "status": run.status, "targets": total, "without_value": empty}
    if options.metadata_file:
        _metadata(
            options.metadata_file, run.config, {**counts, "begun_at": run.begun_at, "finished_at": run.finished_at}
        )
    held_true = seen.tried.held(empty, total)
    for text in held_true:
        print(f"configtron: --fail-on {text} holds", file=sys.stderr)
    if held.loudness >= 0 and run.status != "interrupted":
        print(hint(f"run {number}: {run.status}; see it again with: configtron probe show {number}"), file=sys.stderr)
    if held_true:
        return CONDITION
    if blocked and blocked == total:
        return REFUSED
    if empty == total:
        return NOTHING
    return PARTIAL if empty else DONE


class _Seen:
    """What the exit code is made from, counted while the results pass by: they are not kept."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.tried = Tried(rules)
        self.total = self.empty = self.blocked = 0
        self.example = ""

    def passing(self, found: Iterable[TargetResult]) -> Iterator[TargetResult]:
        """The same, counted."""
        for item in found:
            self.total += 1
            self.empty += item.empty
            if "address" in item.verdicts and item.verdicts["address"].reason == "blocked":
                self.blocked += 1
                self.example = self.example or item.fingerprint.target.address
            self.tried.on(item)
            yield item


def _metadata(path: Path, config: str, counts: dict[str, int | str]) -> None:
    try:
        path.write_text(canonical({"schema": "configtron.run/1", **counts, "config": json.loads(config)}) + "\n")
    except OSError as error:
        raise cannot_write(path, error) from error
