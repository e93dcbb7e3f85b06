# SPDX-License-Identifier: MIT
"""Boot the guest of one part, and read its result. Used on this host and on the workers of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import IO, NamedTuple

from configtron.lab.testbed import measure
from configtron.lab.uml import user_mode_linux as uml
from configtron.model.errors import DONE, PRIVILEGE, Missing
from configtron.model.records import canonical

# Files in a part's folder.
ORDERS_FILE, RESULT_FILE = "part.json", "found.txt"


class BootedPart(NamedTuple):
    """A part whose guest was booted. core: the lock of the processor core that the guest runs on."""

    folder: Path
    running: uml.Running
    core: IO[bytes]

    def close(self) -> None:
        """Kill the guest if it still runs, and free its core."""
        self.running.kill()
        self.core.close()

    def result(self) -> tuple[str, str]:
        """Return the text of a part whose guest has ended, and "" or the reason why there is no text. Errors:
        `Missing`."""
        self.core.close()
        code = self.running.poll()
        if code == DONE and (self.folder / RESULT_FILE).exists():
            return (self.folder / RESULT_FILE).read_text(), ""
        words = measure.last_words(self.running)
        if code == PRIVILEGE:
            raise Missing(f"{self.folder.name}: {words}")
        return "", f"its guest ended with exit code {code}: {words}"


def boot(folder: Path, orders: str, seed: int, guests: measure.Guests) -> BootedPart:
    """Boot the guest of a part in that folder. orders: the part's, JSON. Errors: `Missing`, `Refused`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT_FILE).unlink(missing_ok=True)
    (folder / measure.SOFTWARE).write_text(canonical(dict(guests.software)))
    (folder / ORDERS_FILE).write_text(orders)
    number, core = measure.claimed_core()
    job = uml.GuestJob((*guests.command, uml.GUEST_OUTPUT), folder, seed, number, measure.MEMORY_MB)
    try:
        return BootedPart(folder, guests.backend.boot(job), core)
    except BaseException:
        core.close()
        raise
