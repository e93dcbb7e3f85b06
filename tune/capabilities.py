# SPDX-License-Identifier: MIT
"""The table {knob x driver}: the drivers' own tables side by side, as cells and as a table of docs/tune.md.

Rules for this file: every cell comes from a driver's `reachable` and `unreachable`. Pure: the tables are
handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from configtron.model.knobs import KNOBS, NAMED_BY_HC, PER_CONNECTION, TABLE2, TUNABLE
from configtron.model.nouns import Value
from configtron.model.tuning import Reach
from configtron.model.tuning_json import value_text
from configtron.tune.guard import reach_text
from configtron.tune.pools import REACHES as POOLED
from configtron.tune.unsupported import UNSUPPORTED

# Settable knobs of a connection, with the three timers that are also measured (`knobs.py`, PER_CONNECTION); then the
# papers' other knobs: HC's list, and the SETTINGS of HTTP/2 in CT Table 2.
TIMERS = ("synack_rto", "data_rto", "min_rto")
SETTINGS = tuple(name for name in TABLE2 if KNOBS[name].layer == "http2")
SETTABLE = (
    *(knob.name for knob in TUNABLE), *TIMERS, *(knob.name for knob in PER_CONNECTION),
    *(knob.name for knob in NAMED_BY_HC), *SETTINGS,
)  # fmt: skip

# Measured knob -> the knob by which a server's operator sets it.
SET_INSTEAD = {"icw": "initcwnd", "icw_tls": "initcwnd", "rwin": "initrwnd", "rwin_first_ack": "initrwnd"}

# The table stands between these lines of `docs/tune.md`.
BEGIN, END = "<!-- the table of tune/capabilities.py: make man -->", "<!-- end of the table -->"


@dataclass(frozen=True, slots=True)
class DriverTables:
    """A driver's tables: knob -> its reach, knob -> why it has none; whether it also reaches open connections; whether
    it can act on some listeners only.
    """

    reaches: Mapping[str, Reach]
    refused: Mapping[str, str]
    moves: bool = False
    listens: bool = False


@dataclass(frozen=True, slots=True)
class CapabilityCell:
    """One knob by one driver: reached, or the reason why not; neither is a gap in that driver's tables."""

    knob: str
    driver: str
    reach: Reach | None
    why: str

    @property
    def text(self) -> str:
        """Return the cell in one word."""
        return self.reach.per if self.reach else "-"


def cells(drivers: Mapping[str, DriverTables]) -> Iterator[CapabilityCell]:
    """Yield every cell, a knob at a time."""
    for knob in SETTABLE:
        for driver, tables in drivers.items():
            yield CapabilityCell(knob, driver, tables.reaches.get(knob), tables.refused.get(knob, ""))


def printed(page: str, drivers: Mapping[str, DriverTables]) -> str:
    """Return the page `docs/tune.md` with the table of these drivers."""
    before, _, rest = page.partition(BEGIN)
    return "\n".join([before + BEGIN, "", *_matrix(drivers), "", END + rest.partition(END)[2]])


def _matrix(drivers: Mapping[str, DriverTables]) -> Iterator[str]:
    yield f"| knob | {' | '.join(drivers)} |"
    yield "|---" * (len(drivers) + 1) + "|"
    rows: dict[str, list[str]] = {}
    for cell in cells(drivers):
        rows.setdefault(cell.knob, []).append(cell.text)
    for knob, words in rows.items():
        yield f"| `{knob}` | {' | '.join(words)} |"
    moves = ("yes" if tables.moves else "-" for tables in drivers.values())
    yield f"| connections that are open (`tune reapply`) | {' | '.join(moves)} |"
    listens = ("yes" if tables.listens else "-" for tables in drivers.values())
    yield f"| only some listeners (`--listen`) | {' | '.join(listens)} |"


def _takes(reach: Reach) -> str:
    knob = KNOBS[reach.knob]
    if not reach.values and any(isinstance(value, str) for value in knob.values):
        return "any that the kernel has"
    return f"{reach_text(reach)} {knob.unit}".strip()


def refusal(knob: str, value: Value, drivers: Mapping[str, DriverTables]) -> str:
    """Return why no driver on any kernel sets a knob to that value, with the bounds; "" where one does."""
    takers: dict[str, list[str]] = {}
    for name, tables in drivers.items():
        reach = tables.reaches.get(knob)
        if reach is not None and (reach.takes(value) or isinstance(value, str) and not reach.values):
            return ""
        if reach is not None:
            takers.setdefault(_takes(reach), []).append(name)
    if takers:
        spans = "; ".join(f"{takes} ({', '.join(names)})" for takes, names in takers.items())
        return f"is beyond what any driver takes: {spans}"
    if knob in UNSUPPORTED and knob not in POOLED:
        return f"can be set by no driver: {UNSUPPORTED[knob]}"
    if knob not in SETTABLE and knob not in POOLED:
        instead = f"; {SET_INSTEAD[knob]} is set in its place" if knob in SET_INSTEAD else ""
        return f"can be set by no driver: it is measured on servers{instead}"
    known = KNOBS[knob].values if knob in SETTABLE else ()
    if known and value not in known:
        return f"is none of its values: {', '.join(map(value_text, known))}"
    return "is below 0" if isinstance(value, int | float) and value < 0 else ""
