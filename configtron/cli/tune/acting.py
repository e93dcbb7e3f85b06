# SPDX-License-Identifier: MIT
"""Acting on the host as the journal demands (`tune/journal.py`): each step is committed before it is taken.

Every function here is called by whoever holds `desk.sole`: one at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from configtron.cli.settings import hint
from configtron.cli.tune import claims, keeping
from configtron.cli.tune.desk import Desk, gone
from configtron.model.errors import BadInput, ConfigtronError, Mismatch
from configtron.model.protocols import Driver, Follower, Mover
from configtron.model.tuning import Place, Rules
from configtron.tune.journal import (
    BEGUN,
    FORGET,
    GUARD,
    KEPT,
    LEASED,
    OPEN,
    REPLACED,
    UNDO,
    UNDOING,
    UNDONE,
    WRITING,
    Act,
    due,
)
from configtron.tune.plan import advise, changes, recognised

if TYPE_CHECKING:
    from configtron.tune.drivers.open_connections import Leaving, Restored

# Why an act is undone that somebody wanted undone.
ASKED = "rollback"
# Between why an act is to be undone and why it could not be.
NOT_YET = "; not undone yet: "
log = logging.getLogger("configtron.tune")
# An apply that is to be kept has no lease; one that has not ended after so long hangs.
HANG_S = 600.0


class Unwritten(Mismatch):
    """What stood before is back, but the journal could not be told (a full disk): it will be put back once more."""


def in_force(driver: Driver, known: Iterable[Rules]) -> Rules:
    """What is in force by our hand, under the names that we know it by."""
    return recognised(driver.read(), known)


def enforce(desk: Desk, driver: Driver, place: Place, have: Rules, target: Rules, lease_s: float, held: int) -> Act:
    """Bring what is in force to the target, for so long; 0 keeps it. All of it, or what stood before is put back.

    The lease counts from the moment all of it is in force. Errors: the driver's; `Refused` where another database has
    rules in force at that place; `Mismatch` where what was written does not read back.
    """
    space = desk.space_of(place)
    standing = desk.book.standing(driver.name, place, space)
    before = standing.before if standing else driver.before()
    over = 0 if standing is None else standing.id if standing.status == KEPT else standing.over
    act = Act(driver.name, place, space, desk.boot, BEGUN, before, target, lease_s=lease_s, over=over, held=held,
              expires_s=desk.now_s() + (lease_s or HANG_S))  # fmt: skip
    with claims.claimed(desk, driver.name, place):
        act = desk.book.begin(act)
    # A kept act has no end, but until it is wholly in force somebody must be there to undo it.
    act = replace(act, keeper=keeping.start(desk, act.id), status=WRITING)
    desk.book.put(act, *_replaced(standing, act))
    try:
        write(driver, have, target)
    except BaseException as error:
        _take_back(desk, act, error)
        raise
    act = replace(act, status=LEASED, expires_s=desk.now_s() + lease_s)
    if lease_s:
        desk.book.put(act)
        return act
    kept = keep(desk, act)
    keeping.dismissed(act)
    return kept


def _take_back(desk: Desk, act: Act, error: BaseException) -> None:
    """Undo an act that failed. Errors: `Mismatch` with both reasons if that fails as well; then it is tried again."""
    why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
    try:
        undo(desk, act, why)
    except (ConfigtronError, OSError) as second:
        not_yet(desk, act, why, second)
        again = hint("it is tried again: configtron tune status")
        raise Mismatch(f"{why}; and what stood before is not put back yet ({second}); {again}") from error


def _replaced(standing: Act | None, by: Act) -> list[Act]:
    """What an act replaces. What was kept stays in the journal with its rules: they come back if this act is undone."""
    if standing is None:
        return []
    if standing.id == by.over:
        return [replace(standing, status=REPLACED)]
    return [standing.closed(REPLACED, f"act {by.id}")]


def write(driver: Driver, have: Rules, target: Rules) -> None:
    """Bring what is in force to the target, and compare what reads back with it.

    A driver reads back what it was told to change; where something was to go, all is read. Errors: `Mismatch`.
    """
    todo = changes(have, target)
    back = driver.apply(todo)
    if todo.dropped_profiles or todo.dropped_prefixes:
        found = in_force(driver, [target])
    else:
        untold = {name: target.profiles[name] for name in target.profiles.keys() - todo.profiles.keys()}
        back = recognised(back, [target])
        same = {prefix: name for prefix, name in target.prefixes.items() if prefix not in todo.prefixes}
        found = Rules({**back.profiles, **untold}, {**same, **back.prefixes}, back.default)
    if wrong := advise(driver.name, target, found):
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Mismatch(f"driver {driver.name}: does not read back as written: {wrong[0].text}{more}")


def keep(desk: Desk, act: Act) -> Act:
    """Accept an act: it stands until somebody says otherwise, and there is nothing to go back to but the untouched."""
    kept = replace(act, status=KEPT, lease_s=0.0, expires_s=0.0, over=0, keeper="")
    before = desk.book.act(act.over) if act.over else None
    desk.book.put(kept, *([before.closed(REPLACED, f"act {act.id}")] if before else []))
    return kept


def besides(desk: Desk, act: Act) -> str:
    """What else a kept act needs, to be told to whoever keeps it: routes do not follow the host's own by themselves."""
    if not isinstance(desk.load(act.driver, act.place), Follower):
        return ""
    return hint("its routes follow a change of gateway only while `configtron tune watch` runs")


def undo(
    desk: Desk, act: Act, why: str, *, wholly: bool = False, connections: dict[int, Restored] | None = None
) -> Act:
    """Put back what stood before an act: what had been kept, or (`wholly`, or if there is none) the untouched stack.

    Open connections are put back too; what became of them is added to `connections`, by the act's number. A journal
    that cannot be written keeps nobody from it. Errors: the driver's; `Unwritten`.
    """
    base = desk.book.act(act.over) if act.over and not wholly else None
    dropped = desk.book.act(act.over) if act.over and wholly else None
    act = replace(act, status=UNDOING, over=base.id if base else 0, why=why)
    with suppress(BadInput):
        desk.book.put(act, *([dropped.closed(UNDONE, why)] if dropped else []))
    driver, is_taken = desk.load(act.driver, act.place), claims.taken(desk, act)
    is_gone = is_taken or gone(act.place)
    leaving = None if is_gone else _leaving(driver, act.place, lambda: _rules_of(desk, act))
    if not is_taken:
        # Most of what was set went with a namespace, and its driver says that there is none; a pinned program did not.
        with suppress(*([BadInput] if is_gone else [])):
            driver.revert(act.before)
    if base is not None and not is_gone:
        write(driver, Rules(), base.rules)
        base = replace(base, status=KEPT)
    restored = _restored(leaving, driver, base)
    if connections is not None:
        connections[act.id] = restored
    done = act.closed(UNDONE, why)
    ends = [done, *([base] if base else []), *([dropped.closed(UNDONE, why)] if dropped else [])]
    try:
        desk.book.put(*ends)
    except BadInput as error:
        raise Unwritten(f"act {act.id}: what stood before is back, but not in the journal: {error}") from error
    _released(desk)
    # What was asked for is no news.
    log.log(logging.INFO if why == ASKED else logging.WARNING, "act %d (%s) undone: %s", act.id, act.driver, why)
    return done


def reverted(driver: Driver, place: Place, before: str) -> Restored:
    """Revert what no journal can be asked about, open connections too. Errors: the driver's."""
    leaving = _leaving(driver, place, driver.read)
    driver.revert(before)
    return _restored(leaving, driver, None)


def _leaving(driver: Driver, place: Place, had: Callable[[], Rules]) -> Leaving | None:
    """Open connections with these rules' profiles, before their driver reverts; the driver's own part is put back."""
    from configtron.tune.drivers.open_connections import Leaving

    try:
        leaving = Leaving(driver, place, had())
        leaving.before()
    except (ConfigtronError, OSError) as error:
        log.warning("%s: open connections were not read: %s", driver.name, error)
        return None
    return leaving


def _restored(leaving: Leaving | None, driver: Driver, base: Act | None) -> Restored:
    """Open connections after the driver has reverted: put back, or counted."""
    from configtron.tune.drivers.open_connections import Restored

    if leaving is None:
        return Restored()
    try:
        restored = leaving.after(base.rules if base else Rules())
        if base is not None and isinstance(driver, Mover):
            driver.move()
    except (ConfigtronError, OSError) as error:
        log.warning("%s: open connections keep their profiles: %s", driver.name, error)
        return Restored()
    if restored.left:
        log.warning("%s: %s", driver.name, restored.text)
    return restored


def _rules_of(desk: Desk, act: Act) -> Rules:
    """An act's rules, also of one that was read without them."""
    return (act if act.rules.profiles else desk.book.act(act.id) or act).rules


def recover(desk: Desk) -> list[Act]:
    """Do what is due to acts that nobody is working on; those that were ended by it.

    An act made in another network namespace is that namespace's business; one whose driver fails is told in the
    log and in the journal, and does not keep others from being mended. Errors: `Unwritten`, after all were mended.
    """
    ended: list[Act] = []
    unwritten: Unwritten | None = None
    # What an act set is not asked for: a watch comes by four times a second, and it may be megabytes.
    for act in desk.book.acts(*OPEN, bare=True):
        rebooted = act.boot != desk.boot
        step = due(act.status, rebooted=rebooted, expired=bool(act.lease_s) and desk.now_s() >= act.expires_s)
        is_gone = gone(act.place) and step != FORGET
        if step == FORGET:
            ended.append(forget(desk, act, "reboot" if rebooted else "killed before it wrote"))
        elif act.space not in ("", desk.space):
            continue
        elif step == UNDO or is_gone:
            why = act.why.partition(NOT_YET)[0] or (
                "its network namespace is gone" if is_gone
                else "killed while it wrote" if act.status == WRITING else "lease ended"
            )  # fmt: skip
            try:
                ended.append(undo(desk, act, why))
            except Unwritten as error:
                unwritten = error
            except (ConfigtronError, OSError) as error:
                log.error("act %d (%s) is not undone: %s", act.id, act.driver, error)
                not_yet(desk, act, why, error)
        elif step == GUARD and not keeping.guarded(act):
            keeping.start(desk, act.id)
    if unwritten is not None:
        raise unwritten
    return ended


def not_yet(desk: Desk, act: Act, why: str, error: Exception) -> None:
    """Keep what is in the way of an act's end, where the journal can be written."""
    with suppress(BadInput):
        desk.book.note(act.id, f"{why}{NOT_YET}{error}")


def forget(desk: Desk, act: Act, why: str) -> Act:
    """Close an act of which nothing is on the host."""
    done = act.closed(UNDONE, why)
    desk.book.put(done)
    _released(desk)
    return done


def _released(desk: Desk) -> None:
    """A claim that stays keeps nobody out: it is not worth an error."""
    with suppress(BadInput):
        claims.released(desk)
