# SPDX-License-Identifier: MIT
"""Results of the lease engine, plans and events too, as rows (JSON Lines, CSV, tables) and as lines for the operator.

Rows are records: their keys keep their meaning (`docs/formats.md`). Commands in lines are written
`configtron tune ...`, without `--db`.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO, cast

from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.records import Json, pairs_form, value_form
from configtron.model.tuning import Answers, Place
from configtron.model.tuning_json import place_of, place_text, settings_text
from configtron.model.wording import count_of, visible
from configtron.report.rows import emit
from configtron.service.lease.plan_file import advice_form, lines
from configtron.service.lease.planner import DUE, Planned, PlanReport
from configtron.tune.plan import OF_PROFILE, SINGLY, WHOLE, Advice

if TYPE_CHECKING:
    from configtron.service.lease.apply_transaction import Applied
    from configtron.service.lease.doctor import Examined, KnobSupport
    from configtron.service.lease.recovery import Recovered
    from configtron.service.lease.retuning import Reapplied
    from configtron.service.lease.roll_back import RolledBack
    from configtron.service.lease.status_report import LoggedTransaction, StatusReport, VerifyReport
    from configtron.service.lease.wanted_rules import StoredRules
    from configtron.service.lease.watcher import WatchEvent
    from configtron.tune.pools import Routing

log = logging.getLogger("configtron.tune")
Row = dict[str, Json]

STATUS_COLUMNS = (
    "act", "status", "driver", "place", "profiles", "prefixes", "in_force", "held", "lease_left_s", "keeper", "about",
)  # fmt: skip
APPLY_COLUMNS = ("act", "status", "driver", "changes", "profiles", "prefixes", "held", "lease_s")
ROLLBACK_COLUMNS = ("act", "driver", "was", "status", "why")
REAPPLY_COLUMNS = ("act", "driver", "served", "moved", "about")
VERIFY_COLUMNS = ("act", "driver", "scope", "knob", "applied", "found")
RECOVER_COLUMNS = ("act", "driver", "status", "why")
LOG_COLUMNS = ("act", "driver", "begun_at", "status", "ended_s_ago", "why")
DRIVER_COLUMNS = ("driver", "knobs", "missing")
KNOB_COLUMNS = ("knob", "by", "per", "takes", "else", "instead_of", "note")
UNSET_COLUMNS = ("knobs that no driver sets here",)
POOL_COLUMNS = ("pool", "prefixes", "default")
PROFILE_COLUMNS = ("profile", "settings", "prefixes", "default", "owner")
SETTING_COLUMNS = ("profile", "knob", "value", "unit", "note")
PREFIX_COLUMNS = ("prefix", "profile", "owner")
CLIENT_COLUMNS = ("address", "prefix", "profile", "settings")
PLAN_COLUMNS = ("id", "scope", "knob", "was", "to", "state")
EVENT_COLUMNS = ("at", "event", "act", "driver", "scope", "was", "found")

FOLLOWS = "its routes follow a change of gateway only while `configtron tune watch` runs"
NOTHING_HERE = "nothing of ours is in force here"


def _row(columns: Sequence[str], *cells: Json) -> Row:
    return dict(zip(columns, cells, strict=True))


def apply_rows(applied: Applied) -> list[Row]:
    """Return the row of the transaction in force; no row where none is in force and none was wanted."""
    if applied.lost:
        return [{"act": None, "status": "frozen", "driver": applied.driver}]
    if (one := applied.transaction) is None:
        return []
    counts = len(one.rules.profiles), len(one.rules.prefixes)
    return [_row(APPLY_COLUMNS, one.id, one.status, one.driver, applied.changes, *counts, one.held, one.lease_s)]


def apply_lines(applied: Applied) -> list[str]:
    """Return lines about the applied rules, and about the next step."""
    if applied.lost:
        text = f"nothing is in force: another program took it away, and all {applied.frozen} changes are frozen"
        return [f"{text}; see: configtron tune status; to put it back: configtron tune unfreeze --all, then apply"]
    frozen = f"{applied.frozen} frozen after an external change and left alone: configtron tune status"
    differing = [one for answers in applied.answers for one in answers.differences]
    text = "clients do not get it: {}: {} {} was applied, found {}; see: configtron tune verify"
    lines = [text.format(one.scope, one.knob, one.applied, one.found) for one in differing[:1]]
    return [_applied_text(applied), *([frozen] if applied.frozen else []), *lines]


def _applied_text(applied: Applied) -> str:
    one = applied.transaction
    if one is None:
        return "nothing to change, and nothing is in force; what is wanted: configtron tune prefix list"
    done = count_of(applied.changes, "change") if applied.changes else "nothing to change"
    if not one.lease_s:
        kept = (
            f"transaction {one.id}: {done}; kept.{_seen_text(applied.answers)} Take it back: configtron tune rollback"
        )
        return f"{kept}; {FOLLOWS}" if applied.needs_watch else kept
    lease = f"transaction {one.id}: {done}; undone in {one.lease_s:g} s unless renewed"
    return f"{lease} (configtron tune watch) or kept (configtron tune rollback --keep)"


def _seen_text(answers: Sequence[Answers]) -> str:
    """Return how many clients were asked about, or why none was; "" where nothing tells."""
    if asked := sum(each.asked for each in answers):
        return f" {count_of(asked, 'client')} asked about."
    why = next((why for each in reversed(answers) for why in (*each.unasked, each.note) if why), "")
    return f" What clients get is not known: {why}." if why else ""


def rollback_rows(done: RolledBack) -> Iterator[Row]:
    """Yield the closed transactions, the removed state without a journal, and the state that stays."""
    for before, after, restored in done.closed:
        row = _row(ROLLBACK_COLUMNS, before.id, before.driver, before.status, after.status, after.why)
        if restored is not None:
            row |= {"connections": restored.connections, "restored": restored.restored, "carrying": dict(restored.left)}
        yield row
    for driver, what in done.unjournaled:
        yield _row(ROLLBACK_COLUMNS, None, driver, "unjournaled", "undone", what)
    for driver, line in done.left:
        yield _row(ROLLBACK_COLUMNS, None, driver, "", "left", line)


def follow_lines(done: RolledBack) -> list[str]:
    """Return a line for each kept transaction that needs a watch."""
    return [f"transaction {number}: {FOLLOWS}" for number in done.needs_watch]


def rollback_lines(done: RolledBack, *, anything: bool) -> Iterator[str]:
    """Yield remarks on a rollback for the operator, beside its rows. anything: there are rows."""
    if not anything:
        yield NOTHING_HERE
    for before, _, restored in done.closed:
        if restored is not None and restored.text and not restored.left:  # a warning has reported the rest
            yield f"transaction {before.id}: {restored.text}"
    for driver, line in done.left:
        yield f"{driver}: left as it is, for it is not ours: {line}"
    yield from frozen_lines(done.frozen)


def frozen_lines(scopes: Sequence[str]) -> list[str]:
    """Return how many scopes are frozen and how that ends, in one line; [] if none is."""
    if not scopes:
        return []
    count = f"{scopes[0]} is" if len(scopes) == 1 else f"{len(scopes)} scopes are"
    which = scopes[0] if len(scopes) == 1 else "SCOPE..., or --all"
    return [f"{count} frozen: no plan touches what another program changed, until configtron tune unfreeze {which}"]


def reapply_rows(done: Sequence[Reapplied]) -> Iterator[Row]:
    """Yield a row a transaction: open connections of clients, and those that got their profile."""
    for each in done:
        served, moved = each.connections or (None, None)
        about = "" if each.connections is not None else "does not reach open connections"
        yield _row(REAPPLY_COLUMNS, each.transaction, each.driver, served, moved, about)


def recover_rows(done: Recovered) -> list[Row]:
    """Return the transactions that were undone."""
    return [_row(RECOVER_COLUMNS, each.id, each.driver, each.status, each.why) for each in done.ended]


def recover_lines(done: Recovered) -> list[str]:
    """Return a line for each transaction that could not be undone."""
    return [f"transaction {each.id} ({each.driver}): {each.why}" for each in done.left]


def _where(place: Place, form: str) -> str:
    """Return a place: in a table by the options that name it, else as JSON."""
    named = ", ".join(f"{name} {value}" for name, value in asdict(place).items() if value)
    return (named or "this host") if form == "table" else place_text(place)


def status_rows(report: StatusReport, place: Place, form: str) -> Iterator[Row]:
    """Yield open transactions, state of ours without a journal at the place, and frozen scopes."""
    for each in report.transactions:
        one = each.transaction
        yield {
            "kind": "act", "act": one.id, "status": one.status, "driver": one.driver, "place": _where(one.place, form),
            "space": one.space, "begun_at": one.begun_at, "profiles": len(one.rules.profiles),
            "prefixes": len(one.rules.prefixes), "in_force": each.in_force, "default": one.rules.default,
            "held": one.held, "over": one.over, "lease_left_s": each.lease_left_s, "keeper": each.watchdog,
            "about": each.about,
        }  # fmt: skip
    for driver, what, owner in report.unjournaled:
        about = f"{what}: {owner or 'in no journal; configtron tune rollback takes it away'}"
        yield {"kind": "unjournaled", "status": "unjournaled", "driver": driver, "place": _where(place, form),
               "about": about}  # fmt: skip
    yield from _frozen_rows(report, form)


def _frozen_rows(report: StatusReport, form: str) -> Iterator[Row]:
    for frozen, has_transaction in report.frozen:
        about = f"{frozen.scope}: {frozen.was or 'none'} became {frozen.found or 'none'} by another program"
        if not has_transaction:
            about += "; taken back since"
        yield {
            "kind": "frozen", "status": "frozen", "driver": frozen.driver,
            "place": _where(place_of(frozen.place), form), "scope": frozen.scope,
            "was": frozen.was, "found": frozen.found, "frozen_at": frozen.frozen_at, "about": about,
        }  # fmt: skip


def status_lines(report: StatusReport) -> list[str]:
    """Return remarks for the operator, beside the rows."""
    frozen = frozen_lines([scope.scope for scope, _ in report.frozen])
    if report.transactions or report.unjournaled:
        return frozen
    if report.last is None:
        return ["nothing of ours is in force", *frozen]
    one, ago_s = report.last
    ended = f"transaction {one.id} ended {ago_s:.0f} s ago: {one.why.removesuffix(' ended')}"
    return [f"nothing of ours is in force; {ended}", *frozen]


def log_rows(logged: Iterable[LoggedTransaction]) -> Iterator[Row]:
    """Yield a row a transaction."""
    for one, ended_s_ago in logged:
        row = _row(LOG_COLUMNS, one.id, one.driver, one.begun_at, one.status, ended_s_ago, one.why)
        yield {**row, "kind": "log", "place": place_text(one.place)}


def difference_rows(report: VerifyReport) -> list[Row]:
    """Return a row a difference; answers about many prefixes that differ alike are one row."""
    rows = [
        _row(VERIFY_COLUMNS, *one[:4], value_form(one.applied), value_form(one.found)) for one in report.differences
    ]
    for act, answers in report.answers:
        alike: dict[tuple[str, str, str], list[str]] = {}
        for one in answers.differences:
            alike.setdefault((one.knob, one.applied, one.found), []).append(one.scope)
        for ends, scopes in alike.items():
            many = len(scopes) > SINGLY
            what = "connections" if answers.connections else "prefixes"
            for scope in [f"{len(scopes)} {what}, e.g. {scopes[0]}"] if many else scopes:
                rows.append(_row(VERIFY_COLUMNS, act.id, act.driver, scope, *ends))
    return rows


def unasked_rows(report: VerifyReport) -> Iterator[Row]:
    """Yield rules that the kernel cannot be asked about; they are in JSON Lines alone."""
    for act, answers in report.answers:
        for line in filter(None, (*answers.unasked, answers.note)):
            yield {"kind": "unasked", "act": act.id, "driver": act.driver, "scope": "", "knob": "", "found": line}


def verify_lines(report: VerifyReport, differences: int) -> Iterator[str]:
    """Yield how much was read back, and the rules that the kernel gives no answer about."""
    prefixes = count_of(report.prefixes, "prefix")
    asked = "".join(
        f", {count_of(each.asked, 'client')} of {count_of(each.prefixes, 'prefix')} asked about"
        for _, each in report.answers
        if each.prefixes
    )
    if looked_at := sum(each.connections for _, each in report.answers):
        asked += f", {count_of(looked_at, 'open connection')} looked at"
    result = f"{count_of(report.transactions, 'transaction')}, {prefixes} read back{asked}"
    yield f"{result}: {count_of(differences, 'difference')}" if report.transactions else NOTHING_HERE
    for act, answers in report.answers:
        yield from (f"transaction {act.id} ({act.driver}): {line}" for line in answers.unasked)


def driver_rows(drivers: Sequence[Examined]) -> list[Row]:
    """Return a row a driver: the number of knobs it reaches, and the reason why it cannot act."""
    return [{"kind": "driver", "driver": one.name, "knobs": len(one.reach), "missing": one.lack} for one in drivers]


def knob_rows(knobs: Sequence[KnobSupport]) -> list[Row]:
    """Return a row a knob: which driver would set it, how far that reaches, which others would."""
    return [
        {"kind": "knob", **_row(KNOB_COLUMNS, *one[:4], ", ".join(one.others), ", ".join(one.instead_of), one.note)}
        for one in knobs
    ]


def unset_rows(knobs: Iterable[Row]) -> list[Row]:
    """Return of the rows of `knob_rows` those without a driver, one a reason."""
    alike: dict[Json, list[str]] = {}
    for row in knobs:
        if not row["per"]:
            alike.setdefault(row["note"], []).append(str(row["knob"]))
    return [{UNSET_COLUMNS[0]: ": ".join(filter(None, (", ".join(names), str(note))))} for note, names in alike.items()]


def pool_rows(routed: Routing) -> Iterator[Row]:
    """Yield a row a pool of servers, with how many prefixes it serves."""
    counts = Counter(routed.pools.values())
    for pool in sorted({*counts, routed.default}):
        yield {"kind": "pool", "pool": pool, "prefixes": counts[pool], "default": pool == routed.default}


def profile_rows(found: StoredRules, form: str) -> list[Row]:
    """Return a row a profile; its settings are an object in "jsonl", one text in other forms."""
    having = Counter(found.rules.prefixes.values())
    return [
        {
            "profile": name,
            "settings": pairs_form(one.settings) if form == "jsonl" else settings_text(one.settings),
            "prefixes": having[name],
            "default": name == found.rules.default,
            "owner": found.profile_owner(name),
        }
        for name, one in sorted(found.rules.profiles.items())
    ]


def setting_rows(profile: Profile) -> list[Row]:
    """Return a row a knob of a profile."""
    return [
        {"profile": profile.name, "knob": knob, "value": value_form(value), "unit": KNOBS[knob].unit,
         "note": KNOBS[knob].note}
        for knob, value in profile.settings
    ]  # fmt: skip


def prefix_rows(found: StoredRules) -> list[Row]:
    """Return a row a prefix, in the order of addresses, and the default."""
    return [_row(PREFIX_COLUMNS, *row) for row in found.prefixes()]


def client_rows(answers: Iterable[tuple[str, str, Profile]]) -> Iterator[Row]:
    """Yield a row for each (address, its prefix, the profile that a client there gets)."""
    for address, prefix, profile in answers:
        yield _row(CLIENT_COLUMNS, address, prefix, profile.name, settings_text(profile.settings))


def plan_rows(
    found: Planned, place: Place, form: str, *, everything: bool, refused: Collection[str] = ()
) -> Iterator[Row]:
    """Yield what would change, in the form of "jsonl", "csv" or "table".

    everything  acknowledged and frozen too
    refused     profiles that the guard refuses; a table marks their rows, and those of the clients they are for
    """
    if form == "jsonl":
        return iter(lines(found, place))
    if form == "csv":
        shown = found.shown(everything=everything)
        return (advice_form(advice, state, found.untouched) for advice, state in shown)
    return _plan_table(found, everything, refused)


def _plan_table(found: Planned, everything: bool, refused: Collection[str]) -> Iterator[Row]:
    """Yield advice for people: many prefixes that change alike are one row."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    for advice, state in found.shown(everything=everything):
        # An advice changes a knob of a profile, or which profile clients have.
        sets_knob = advice.scope.startswith(OF_PROFILE) and advice.knob != WHOLE
        if state == DUE and (advice.scope.removeprefix(OF_PROFILE) if sets_knob else advice.to) in refused:
            state = "refused"
        one = "/" in advice.scope and (advice.was, advice.to, state)
        key: tuple[object, ...] = one or (advice.scope, advice.knob)
        counts[key] += 1
        if counts[key] > SINGLY + 1:
            continue
        row = advice._asdict() if one else _shown(advice_form(advice, state, found.untouched))
        row["state"] = state
        alike.setdefault(key, []).append(row)
    for kind, rows in alike.items():
        if len(rows) > SINGLY:
            yield {**rows[0], "id": "", "scope": f"{counts[kind]} prefixes, e.g. {rows[0]['scope']}"}
        else:
            yield from (_with_id(row) for row in rows)


def _shown(row: Row) -> Row:
    """Return a row for people: where no rule of ours is in force, what the kernel has."""
    return {**row, "was": f"{row['now']} (the kernel's)"} if "now" in row else row


def _with_id(row: Row) -> Row:
    """Return a row with its id, a hash that is computed only for what is shown."""
    if "id" in row:
        return row
    ends = (cast(Value | None, row["was"]), cast(Value | None, row["to"]))
    return {**row, "id": Advice(str(row["driver"]), str(row["scope"]), str(row["knob"]), *ends).id}


def plan_summary(found: Planned, refused: Collection[str] = ()) -> str:
    """Return how many changes are due, acknowledged and frozen, and what the guard refuses, in one line."""
    counts = found.counts()
    parts = [f"{counts[state]} {state}" for state in ("due", "muted", "frozen") if counts[state]]
    if counts["frozen"]:
        parts[-1] += " (external changes; see configtron tune status)"
    if not (found.advices or found.have.profiles):
        parts = ["nothing to change: no client has a profile yet (configtron tune profile set, prefix set)"]
    stopped = f"; profiles refused: {', '.join(sorted(refused))}" if refused else ""
    held = f"; {count_of(found.held, 'prefix')} in the control group" if found.held else ""
    return f"plan by {found.driver.name}: {', '.join(parts) or 'nothing to change'}{held}{stopped}; nothing was written"


def obstacle_lines(report: PlanReport) -> list[str]:
    """Return what is under way, and which other database would make `apply` refuse."""
    under_way = [
        f"transaction {number} is under way, or was left half done: configtron tune recover"
        for number in report.unfinished
    ]
    return [*under_way, *([f"apply will be refused: {report.owner}"] if report.owner else [])]


class EventWriter:
    """Write events as rows; the first ones with a header."""

    def __init__(self, form: str, out: TextIO) -> None:
        self._form, self._out, self._header = form, out, True

    def write(self, events: list[WatchEvent]) -> None:
        """Write the events of one turn, and log those that do not go to a terminal's table."""
        if self._form != "table" or self._out is not sys.stdout:
            for event in events:
                log.warning("%s", event.text)
        if self._form == "table":
            self._out.writelines(visible(event.text) + "\n" for event in events)
        else:
            emit(self._form, EVENT_COLUMNS, [event.form() for event in events], self._out, header=self._header)
        self._header = False
        self._out.flush()
