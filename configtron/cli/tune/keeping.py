# SPDX-License-Identifier: MIT
"""Keepers: one small process an act, which undoes it when its lease ends or when whoever works on it is gone.

    python -m configtron.cli.tune.keeping DATABASE ACT

It glances at the journal four times a second, and holds nothing open between. It ends when the act is over, kept, or
replaced, so none is left after a rollback. It works in the network namespace that it was started in.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import configtron
from configtron.cli.tune.processes import alive, end, ended, named, used
from configtron.model.errors import DONE, BadInput, ConfigtronError, Missing, Refused
from configtron.model.tuning import Rules
from configtron.tune.journal import KEPT, LEASED, OPEN, UNDOING, UNDONE, Act

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk

# A quarter of the second within which others are to see what became of an act.
LOOK_S = 0.25
# After this long past the end of a lease, whoever still holds the lock is looked at: does he work, or does he hang?
OVERRUN_S = 2.0
# Who works uses the processor; nothing that he waits for (a commit on a slow disk) takes so long.
IDLE_S = 5.0
# Nor does anything that he does: a million routes take a minute.
ENDLESS_S = 600.0
# How long to wait before trying again what failed.
AGAIN_S = 1.0
READY = b"."


def start(desk: Desk, act: int) -> str:
    """Start an act's keeper and wait until it watches; which process it is. Errors: `Missing`."""
    # -P: nothing is imported from the folder that somebody stands in, who is root here.
    command = [sys.executable, "-P", "-m", "configtron.cli.tune.keeping", str(desk.book.path.resolve()), str(act)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "PYTHONPATH": _importable()},
    )  # fmt: skip
    assert process.stdout is not None
    keeper = named(process.pid)
    desk.book.guarded(act, keeper)
    with process.stdout as out:
        if out.read(1) != READY:
            raise Missing(f"act {act}: its keeper did not start; nothing was written. Try by hand: {' '.join(command)}")
    # Whoever started it does not wait for its end: that is what it is for.
    process.returncode = 0
    return keeper


def _importable() -> str:
    """Where this configtron lies, for a process that must find the same one."""
    here = str(Path(configtron.__file__).parent.parent)
    return os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))


def guarded(act: Act) -> bool:
    """Whether an act's keeper is there."""
    return alive(act.keeper)


def dismissed(act: Act) -> None:
    """Wait for the end of a keeper whose act is over; one that does not notice is told."""
    if act.keeper and act.keeper.split()[0] != str(os.getpid()) and not ended(act.keeper, 4 * LOOK_S):
        end(act.keeper, signal.SIGTERM)
        ended(act.keeper, 4 * LOOK_S)


def main(arguments: list[str]) -> int:
    """Watch over one act until it is over."""
    from configtron.db.glance import glance

    path, number = Path(arguments[0]).resolve(), int(arguments[1])
    logging.getLogger("configtron").addHandler(logging.NullHandler())
    act = glance(path, lambda book: book.act(number, bare=True))
    # A keeper of days holds no file system that somebody wants to unmount.
    os.chdir("/")
    os.write(1, READY)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
    return _keep(path, act) if act is not None else DONE


def _keep(path: Path, act: Act) -> int:
    from configtron.cli.tune.acting import Unwritten
    from configtron.db.glance import glance

    expires_s, other = act.expires_s, Other()
    while True:
        try:
            status, expires_s = glance(path, lambda book: book.state(act.id)) if path.exists() else _lost(act, path)
            if status not in OPEN or status == KEPT:
                return DONE
            late_s = _late_s(expires_s)
            if (status != LEASED or late_s >= 0) and not _mended(path, late_s if status != UNDOING else 0.0, other):
                time.sleep(AGAIN_S)
        except Unwritten:
            return DONE
        except Exception:
            # A journal that cannot be read or written (its disk went read-only) must not keep in force what is due.
            with suppress(Exception):
                if _late_s(expires_s) >= OVERRUN_S:
                    _lost(act, path)
                    return DONE
            time.sleep(AGAIN_S)
        time.sleep(LOOK_S)


def _late_s(expires_s: float) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - expires_s


def _lost(act: Act, path: Path) -> tuple[str, float]:
    """Undo an act whose database was removed, or fails: nobody can renew or keep it any more.

    What was kept before it comes back, where the database can still be read.
    """
    from configtron.cli.tune.acting import reverted, write
    from configtron.cli.tune.claims import abandoned
    from configtron.cli.tune.desk import gone
    from configtron.db.glance import glance
    from configtron.tune.drivers import load

    driver, base, is_gone = load(act.driver, act.place), None, gone(act.place)
    with suppress(*([BadInput] if is_gone else [])):
        reverted(driver, act.place, act.before)
    with suppress(ConfigtronError, OSError):
        base = glance(path, lambda book: book.act(act.over)) if act.over else None
    if base is not None and not is_gone:
        write(driver, Rules(), base.rules)
    if not path.exists():
        abandoned(path)
    return UNDONE, 0.0


class Other:
    """Whoever holds the lock, while we wait for it: when he was last seen to use the processor."""

    def __init__(self) -> None:
        self._seen, self._since_s = ("", 0), 0.0

    def hangs(self, process: str, now_s: float) -> bool:
        """Whether that process has done nothing for too long, by what was seen at the calls before."""
        seen = (process, used(process))
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        return now_s - self._since_s >= IDLE_S


def _mended(path: Path, late_s: float, other: Other) -> bool:
    """If nobody is acting, an act that is half done was left so by somebody who died: mend it. Who hangs is ended.

    Who is only slow is waited for, also past the end of a lease: his own begins when he is done, and is not yet told.
    False if it could not be mended.
    """
    from configtron.cli.tune.acting import recover
    from configtron.cli.tune.desk import desk, sole, worker
    from configtron.db.tuning import Tuning

    try:
        with sole(path, 0), Tuning(path) as book:
            return bool(recover(desk(book)))
    except Refused:
        hangs = other.hangs(worker(path), time.monotonic())
        if late_s > OVERRUN_S and (hangs or late_s > ENDLESS_S):
            end(worker(path), signal.SIGKILL)
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
