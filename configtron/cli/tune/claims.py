# SPDX-License-Identifier: MIT
"""One database a place: who has rules in force in a network namespace is written where every database sees it.

Question   Two databases on one host each have a journal and a lock of their own. Who keeps the end of one's lease from
           taking away what the other has put in force in the same namespace?
Method     A claim is a file in /run, named by the boot, the namespace's cookie (which is never given twice) and the
           control group; in it stands the path of the database. It is written under its lock together with an act's
           first row in the journal.
Reads as   A claim counts as long as that database has an act there that is not over: its journal is asked. So a claim
           whose writer was killed, or whose database is gone, keeps nobody out, and none has to be mended.
Fails as   `Refused`, with whose it is and what to do. Where /run cannot be written, a warning: then nobody is kept out.
Differs    from `desk.sole`, which is a database's own and ends with a process: a claim lasts as long as an act.
Source     lockf(3) advisory locks; SO_NETNS_COOKIE, Linux 5.14.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from configtron.cli.tune.desk import Desk, locked
from configtron.db.glance import glance
from configtron.linux.netns import NAMED, cookie
from configtron.model.errors import BadInput, ConfigtronError, Refused
from configtron.model.tuning import Place
from configtron.tune.drivers import FOR_TRIALS
from configtron.tune.journal import OPEN

if TYPE_CHECKING:
    from configtron.db.tuning import Tuning
    from configtron.tune.journal import Act

# Beside other daemons' runtime files; empty after a boot.
FOLDER = Path("/run/configtron-tune")
# A claim is held for as long as one row takes to write, on a slow disk.
PATIENCE_S = 2.0
log = logging.getLogger("configtron.tune")


@contextmanager
def claimed(desk: Desk, driver: str, place: Place) -> Iterator[None]:
    """Claim a place for this database; within, the act is begun that makes it count. Errors: `Refused`."""
    file = None if driver == FOR_TRIALS else _file(desk, place)
    if file is None:
        yield
        return
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        claim = _open(file)
    except BlockingIOError as error:
        raise Refused(f"{file}: another apply is claiming this network namespace; wait until it is done") from error
    except OSError as error:
        log.warning("%s: %s; another database that acts here would not be noticed", file, error.strerror)
        yield
        return
    with claim:
        claimant = claim.read()
        if told := _told(desk, place, file, claimant):
            raise Refused(told)
        # Not written anew: killed between emptying and writing, we would leave an act that stands without its claim.
        if claimant != _mine(desk):
            claim.seek(0)
            claim.truncate()
            claim.write(_mine(desk))
            claim.flush()
        yield


def other(desk: Desk, driver: str, place: Place) -> str:
    """Which other database has rules in force at a place, and what to do, in one line; "" if none has."""
    file = None if driver == FOR_TRIALS else _file(desk, place)
    if file is None:
        return ""
    try:
        return _told(desk, place, file, file.read_bytes())
    except OSError:
        return ""


def taken(desk: Desk, act: Act) -> bool:
    """Whether another database's rules are in force at an act's place, by the same driver.

    They were refused while the act's namespace stood: this one was made anew under its name, and nothing in it is ours.
    """
    file = None if act.driver == FOR_TRIALS else _file(desk, act.place)
    with suppress(BadInput, OSError):
        if file is not None and (claimant := file.read_bytes()) not in (b"", _mine(desk)):
            return any(theirs.driver == act.driver for theirs in _standing(desk, act.place, claimant))
    return False


def released(desk: Desk) -> None:
    """Take away this database's claims on places where nothing of it is left."""
    acts = desk.book.acts(*OPEN, bare=True)
    if any(act.space not in ("", desk.space) for act in acts):
        return  # which claim is that one's can only be said from within its namespace
    _forget(_mine(desk), {_file(desk, act.place) for act in acts})


def abandoned(database: Path) -> None:
    """Take away the claims of a database that is gone."""
    _forget(os.fsencode(database.resolve()), set())


def _forget(database: bytes, but: set[Path | None]) -> None:
    with suppress(OSError):
        for file in set(FOLDER.iterdir()) - but:
            with _open(file, 0) as claim:
                if claim.read() in (b"", database):
                    file.unlink()


def _file(desk: Desk, place: Place) -> Path | None:
    """The claim on a place; None where there is no such namespace, or a kernel that does not number them."""
    try:
        number = cookie(place.netns)
    except (ConfigtronError, OSError):
        return None
    group = blake2b(place.cgroup.strip("/").encode(), digest_size=4).hexdigest()
    return FOLDER / f"{desk.boot}-{number}-{group}"


def _mine(desk: Desk) -> bytes:
    return os.fsencode(desk.book.path.resolve())


def _open(file: Path, patience_s: float = PATIENCE_S) -> BinaryIO:
    """Its lock in hand, from the beginning. Errors: `OSError`."""
    while True:
        claim = file.open("a+b")
        try:
            if not locked(claim.fileno(), patience_s):
                raise BlockingIOError(None, "somebody holds its lock")
            # Whoever held the lock may have taken the file away.
            if file.exists() and os.fstat(claim.fileno()).st_ino == file.stat().st_ino:
                claim.seek(0)
                return claim
        except BaseException:
            claim.close()
            raise
        claim.close()


def _told(desk: Desk, place: Place, file: Path, claimant: bytes) -> str:
    if claimant in (b"", _mine(desk)):
        return ""
    database = os.fsdecode(claimant)
    try:
        acts = _standing(desk, place, claimant)
    except (BadInput, OSError) as error:
        useless = f"if it is of no use any more, remove {file}"
        return f"the database {database} has claimed this network namespace and cannot be read ({error}); {useless}"
    if not acts:
        return ""
    act = acts[0]
    return (
        f"act {act.id} ({act.driver}, {act.status}) of another database, {database}, is in force in this network "
        f"namespace; use that one (--db {database}), or take it back first: configtron --db {database} tune rollback"
    )


def _standing(desk: Desk, place: Place, claimant: bytes) -> list[Act]:
    """The acts of the database that claimed a place which are not over there. Errors: `BadInput`, `OSError`."""

    def theirs(book: Tuning) -> list[Act]:
        here = (_space(place, desk.space), place.cgroup.strip("/"))
        return [act for act in book.acts(*OPEN, bare=True) if act.boot == desk.boot and _at(act) == here]

    return glance(Path(os.fsdecode(claimant)), theirs)


def _at(act: Act) -> tuple[str, str]:
    return _space(act.place, act.space), act.place.cgroup.strip("/")


def _space(place: Place, unnamed: str) -> str:
    """The namespace of a place as the journal writes those without a name; "" where it is gone."""
    if not place.netns:
        return unnamed
    try:
        return f"net:[{(NAMED / place.netns).stat().st_ino}]"
    except OSError:
        return ""
