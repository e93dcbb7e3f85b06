# SPDX-License-Identifier: MIT
"""Counts over the records of a run, made while the records pass by: the records are not kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from configtron.db.store import Run
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, REFUSED, cannot_write
from configtron.model.records import canonical
from configtron.report.target_results import TargetResult
from configtron.service.campaign.conditions import ConditionCheck, RunCondition


class RunSummary:
    """Count targets (times vantages), those without any value, those that were blocked; check conditions on them."""

    def __init__(self, conditions: Sequence[RunCondition] = ()) -> None:
        self._checked = ConditionCheck(conditions)
        self.total = self.empty = self.blocked = 0
        # The address of a blocked target.
        self.example = ""

    def counting(self, found: Iterable[TargetResult]) -> Iterator[TargetResult]:
        """Yield the same records, and count each."""
        for item in found:
            self.total += 1
            self.empty += item.empty
            if "address" in item.verdicts and item.verdicts["address"].reason == "blocked":
                self.blocked += 1
                self.example = self.example or item.fingerprint.target.address
            self._checked.add(item)
            yield item

    def true_conditions(self) -> list[str]:
        """Return the conditions that hold over the records so far, as they were written."""
        return self._checked.true_conditions(self.empty, self.total)

    def exit_code(self, conditions: Sequence[str]) -> int:
        """Return the exit code of a run that was not interrupted, of which these conditions hold."""
        if conditions:
            return CONDITION
        if self.blocked and self.blocked == self.total:
            return REFUSED
        if self.empty == self.total:
            return NOTHING
        return PARTIAL if self.empty else DONE

    def lines(self) -> list[str]:
        """Return a line for people about blocked targets, if there are any."""
        if not self.blocked:
            return []
        which = f", for example {self.example}" if self.example else ""
        return [
            f"configtron: {self.blocked} of {self.total} blocked{which}; what is yours may be probed:"
            f" --allow {self.example or 'ADDRESS'}, or --allowlist-file FILE"
        ]

    def write_metadata(self, path: Path, run: Run) -> None:
        """Write a run's configuration and counts as JSON. Errors: `BadInput`, `Unwritten`."""
        counts: dict[str, int | str] = {
            "run": run.id, "status": run.status, "targets": self.total, "without_value": self.empty,
            "begun_at": run.begun_at, "finished_at": run.finished_at,
        }  # fmt: skip
        form = {"schema": "configtron.run/1", **counts, "config": json.loads(run.config)}
        try:
            path.write_text(canonical(form) + "\n")
        except OSError as error:
            raise cannot_write(path, error) from error
