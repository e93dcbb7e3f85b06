# SPDX-License-Identifier: MIT
"""Ends of connections as rows of a fleet: what initial windows are learned from, without addresses and bounded.

Question   Which ended connections does an agent report, and what was each client given?
Method     Connections that sent more than the default initial window are reported, so many of a prefix in a minute and
           of all in a turn: a prefix that opens many has no more say. What was given is read from the plan, as for page
           loads (`pageloads/plan_book.py`); a connection with a doubt, or whose profile was set anew, is no choice's
           result. A row is an `OutcomeRow` whose failure is `END_STATE`: numbered, spooled and stored once like all
           others, but in the table of end states.
Reads as   `OutcomeRow` without agent, boot and number, which the process that spools it adds; `state_of` is the other
           end of its way to the store.
Fails as   counts: "end not reported: ..." by reason, "end without ..." for each column that the driver has not
Source     `initial/end_states.py`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any

from configtron.intake.pageloads.plan_book import DrawnArm
from configtron.learner.initial.end_states import DEFAULT_WINDOW, OTHER, end_of
from configtron.learner.window_classes import strategy_of
from configtron.model.close_records import RESUMPTIONS, CloseRecord, OpenRecord, PackedRecords
from configtron.model.fleet import END_STATE, OutcomeRow

# Reports of a prefix in a minute, and of all prefixes in a turn of the reader, four of which are in a second.
OF_PREFIX, OF_TURN, MINUTE_NS = 20, 100, 60_000_000_000
# Columns that go as numbers; of a driver that has not one of them, it is unknown.
NUMBERS = ("min_rtt_ms", "max_rtt_ms", "max_cwnd", "packets_in", "packets_out")
BOUND, RESUMED = "bound", "resumed"


class EndReports:
    """Chooses which ends are reported. describe: what a connection's client was given, from its record and address;
    draws: the records have it themselves."""

    def __init__(self, describe: Callable[[OpenRecord, bytes], DrawnArm], draws: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._describe, self._draws = describe, draws
        self._of_prefix: Counter[str] = Counter()
        self._minute, self._reports = -1, list[OutcomeRow]()

    def take(self, record: CloseRecord, since_boot_ns: int) -> None:
        """Take a connection's end. since_boot_ns: wall clock less CLOCK_BOOTTIME, ns."""
        if record.segments <= DEFAULT_WINDOW:
            return
        prefix, minute = record.opened.prefix, record.end_ns // MINUTE_NS
        # A reader of several rings may hand an earlier minute's record out after a later one's.
        if minute > self._minute:
            self._minute = minute
            self._of_prefix.clear()
        if len(self._reports) >= OF_TURN:
            self.counts["end not reported: too many in a turn"] += 1
        elif self._of_prefix[prefix] >= OF_PREFIX:
            self.counts["end not reported: too many of a prefix"] += 1
        else:
            self._of_prefix[prefix] += 1
            self._report(record, since_boot_ns)

    def take_packed(self, packed: PackedRecords, since_boot_ns: int) -> None:
        """Take the ends among packed records, as `take` does; those of short connections stay packed."""
        for data, segments in zip(packed.closed, packed.segments, strict=True):
            if segments > DEFAULT_WINDOW:
                record = packed.unpacker.unpack(data)
                assert isinstance(record, CloseRecord)
                self.take(record, since_boot_ns)

    def _report(self, record: CloseRecord, since_boot_ns: int) -> None:
        found = end_of(record, since_boot_ns)
        if found["at_s"] is None or not found["prefix"]:
            self.counts["end not reported: no time or no prefix"] += 1
            return
        numbers = {name: found[name] for name in NUMBERS if found[name] is not None}
        for name in NUMBERS:
            if name not in numbers:
                self.counts[f"end without {name}"] += 1
        if found["resumed"] is None:
            self.counts["end without resumed"] += 1
        elif found["resumed"]:
            numbers[RESUMED] = float(RESUMPTIONS.index(found["resumed"]))
        numbers[BOUND] = float(found["bound"])
        drawn = self._describe(record.opened, ip_network(record.opened.prefix).network_address.packed)
        if record.moved:
            drawn = drawn._replace(doubt="moved")
        elif record.opened.profile and not drawn.class_name:
            # A person's profile, whatever its name is: no class was drawn from.
            drawn = drawn._replace(doubt=drawn.doubt or "set-by-hand")
        elif self._draws and record.opened.profile == "":
            # The kernel's record: nothing was set, whichever plan was in force.
            drawn = drawn._replace(doubt="")
        at_ns = max(record.opened.start_ns + since_boot_ns, 0)
        self._reports.append(OutcomeRow(
            "", "", 0, at_ns, "", drawn.prefix, drawn.unit, None, drawn.term, drawn.map_version, drawn.epoch,
            profile=drawn.profile, propensity=drawn.propensity, held=drawn.held, failure=END_STATE, teaches=False,
            why_not=drawn.doubt, loss=found["loss"], more=numbers,
        ))  # fmt: skip
        self.counts["end reported"] += 1

    def reports(self) -> list[OutcomeRow]:
        """Return the reports since the last call."""
        found, self._reports = self._reports, []
        return found


def state_of(row: OutcomeRow) -> Mapping[str, Any]:
    """Return the columns of `EndStates` of such a row."""
    numbers = dict(row.more)
    resumed = numbers.pop(RESUMED, -1.0)
    return {
        **{name: numbers[name] for name in NUMBERS if name in numbers},
        "at_s": row.at_ns / 1e9, "prefix": row.prefix, "bound": bool(numbers.get(BOUND, 1.0)), "loss": row.loss,
        "strategy": OTHER if row.why_not else strategy_of(row.profile), "propensity": row.propensity,
        "resumed": RESUMPTIONS[int(resumed)] if resumed in range(len(RESUMPTIONS)) else "",
    }  # fmt: skip
