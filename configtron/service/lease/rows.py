# SPDX-License-Identifier: MIT
"""Results of the lease engine as rows (JSON Lines, CSV, tables) and as closing lines for the operator.

Rows are records: their keys keep their meaning (`docs/formats.md`). Commands in lines are written
`configtron tune ...`, without `--db`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile
from configtron.model.records import Json, pairs_form, value_form
from configtron.model.tuning import Place
from configtron.model.tuning_json import place_of, place_text, settings_text

if TYPE_CHECKING:
    from configtron.service.lease.apply_transaction import Applied
    from configtron.service.lease.doctor import Examined, KnobSupport
    from configtron.service.lease.open_connections import Reapplied
    from configtron.service.lease.recovery import Recovered
    from configtron.service.lease.roll_back import Closed, RolledBack
    from configtron.service.lease.status_report import StatusReport, VerifyReport
    from configtron.service.lease.transaction_log import LoggedTransaction
    from configtron.service.lease.wanted_rules import StoredRules
    from configtron.tune.pools import Routing

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

# Up to so many prefixes that differ alike, as behind a gateway that changed, are rows of their own; more are one row.
SINGLY = 8
FOLLOWS = "its routes follow a change of gateway only while `configtron tune watch` runs"
NOTHING_HERE = "nothing of ours is in force here"


def apply_rows(applied: Applied) -> list[Row]:
    """Return the row of the transaction in force; no row where none is in force and none was wanted."""
    if applied.lost:
        return [{"act": None, "status": "frozen", "driver": applied.driver}]
    if (one := applied.transaction) is None:
        return []
    row = (one.id, one.status, one.driver, applied.changes, len(one.rules.profiles), len(one.rules.prefixes), one.held,
           one.lease_s)  # fmt: skip
    return [dict(zip(APPLY_COLUMNS, row, strict=True))]


def apply_lines(applied: Applied) -> list[str]:
    """Return lines about the applied rules, and about the next step."""
    if applied.lost:
        text = f"nothing is in force: another program took it away, and all {applied.frozen} changes are frozen"
        return [f"{text}; see: configtron tune status; to put it back: configtron tune unfreeze --all, then apply"]
    frozen = f"{applied.frozen} frozen after an external change and left alone: configtron tune status"
    return [_applied_text(applied), *([frozen] if applied.frozen else [])]


def _applied_text(applied: Applied) -> str:
    one = applied.transaction
    if one is None:
        return "nothing to change, and nothing is in force"
    done = _many(applied.changes, "change") if applied.changes else "nothing to change"
    if not one.lease_s:
        kept = f"transaction {one.id}: {done}; kept. Take it back: configtron tune rollback"
        return f"{kept}; {FOLLOWS}" if applied.needs_watch else kept
    lease = f"transaction {one.id}: {done}; undone in {one.lease_s:g} s unless renewed"
    return f"{lease} (configtron tune watch) or kept (configtron tune rollback --keep)"


def _many(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


def rollback_rows(done: RolledBack) -> Iterator[Row]:
    """Yield the closed transactions, the removed state without a journal, and the state that stays."""
    yield from map(_closed_row, done.closed)
    yield from (_rollback_row(None, driver, "unjournaled", "undone", what) for driver, what in done.unjournaled)
    yield from (_rollback_row(None, driver, "", "left", line) for driver, line in done.left)


def _closed_row(closed: Closed) -> Row:
    """Return the row of a transaction, with the result for open connections."""
    before, after, restored = closed
    row = _rollback_row(before.id, before.driver, before.status, after.status, after.why)
    if restored is not None:
        row |= {"connections": restored.connections, "restored": restored.restored, "carrying": dict(restored.left)}
    return row


def _rollback_row(*cells: Json) -> Row:
    return dict(zip(ROLLBACK_COLUMNS, cells, strict=True))


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
        yield {"act": each.transaction, "driver": each.driver, "served": served, "moved": moved, "about": about}


def recover_rows(done: Recovered) -> list[Row]:
    """Return the transactions that were undone."""
    rows = [(each.id, each.driver, each.status, each.why) for each in done.ended]
    return [dict(zip(RECOVER_COLUMNS, row, strict=True)) for row in rows]


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
    last = f"; {_end_text(report.last)}" if report.last else ""
    return [f"nothing of ours is in force{last}", *frozen]


def _end_text(logged: LoggedTransaction) -> str:
    """Return the end of a transaction in a few words: "transaction 1 ended 2 s ago: lease"."""
    one = logged.transaction
    return f"transaction {one.id} ended {logged.ended_s_ago:.0f} s ago: {one.why.removesuffix(' ended')}"


def log_rows(logged: Iterable[LoggedTransaction]) -> Iterator[Row]:
    """Yield a row a transaction."""
    for one, ended_s_ago in logged:
        row = (one.id, one.driver, one.begun_at, one.status, ended_s_ago, one.why)
        yield {**dict(zip(LOG_COLUMNS, row, strict=True)), "kind": "log", "place": place_text(one.place)}


def difference_rows(report: VerifyReport) -> list[Row]:
    """Return a row a difference; answers about many prefixes that differ alike are one row."""
    rows = [
        _difference(one.transaction, one.driver, one.scope, one.knob, value_form(one.applied), value_form(one.found))
        for one in report.differences
    ]
    for act, answers in report.answers:
        alike: dict[tuple[str, str, str], list[str]] = {}
        for one in answers.differences:
            alike.setdefault((one.knob, one.applied, one.found), []).append(one.scope)
        for ends, scopes in alike.items():
            many = len(scopes) > SINGLY
            for scope in [f"{len(scopes)} prefixes, e.g. {scopes[0]}"] if many else scopes:
                rows.append(_difference(act.id, act.driver, scope, *ends))
    return rows


def _difference(*cells: Json) -> Row:
    return dict(zip(VERIFY_COLUMNS, cells, strict=True))


def unasked_rows(report: VerifyReport) -> Iterator[Row]:
    """Yield rules that the kernel cannot be asked about; they are in JSON Lines alone."""
    for act, answers in report.answers:
        for line in answers.unasked:
            yield {"kind": "unasked", "act": act.id, "driver": act.driver, "scope": "", "knob": "", "found": line}


def verify_lines(report: VerifyReport, differences: int) -> Iterator[str]:
    """Yield how much was read back, and the rules that the kernel gives no answer about."""
    prefixes = _many(report.prefixes, "prefix", "es")
    asked = "".join(
        f", {_many(each.asked, 'client')} of {_many(each.prefixes, 'prefix', 'es')} asked about"
        for _, each in report.answers
    )
    result = f"{_many(report.transactions, 'transaction')}, {prefixes} read back{asked}"
    yield f"{result}: {_many(differences, 'difference')}" if report.transactions else NOTHING_HERE
    for act, answers in report.answers:
        yield from (f"transaction {act.id} ({act.driver}): {line}" for line in answers.unasked)


def driver_rows(drivers: Sequence[Examined]) -> list[Row]:
    """Return a row a driver: the number of knobs it reaches, and the reason why it cannot act."""
    return [{"kind": "driver", "driver": one.name, "knobs": len(one.reach), "missing": one.lack} for one in drivers]


def knob_rows(knobs: Sequence[KnobSupport]) -> list[Row]:
    """Return a row a knob: which driver would set it, how far that reaches, which others would."""
    return [
        {
            "kind": "knob", "knob": one.knob, "by": one.driver, "per": one.per, "takes": one.takes,
            "else": ", ".join(one.others), "instead_of": ", ".join(one.instead_of), "note": one.note,
        }
        for one in knobs
    ]  # fmt: skip


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
    return [dict(zip(PREFIX_COLUMNS, row, strict=True)) for row in found.prefixes()]


def client_rows(answers: Iterable[tuple[str, str, Profile]]) -> Iterator[Row]:
    """Yield a row for each (address, its prefix, the profile that a client there gets)."""
    for address, prefix, profile in answers:
        text = settings_text(profile.settings)
        yield {"address": address, "prefix": prefix, "profile": profile.name, "settings": text}
