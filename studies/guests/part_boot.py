# SPDX-License-Identifier: MIT
"""One part in one guest: its folder, its boot, and what it came to. The same on this machine and on a cluster's."""

from __future__ import annotations

from pathlib import Path
from typing import IO, NamedTuple

from configtron.lab.testbed import measure
from configtron.lab.uml import user_mode_linux as uml
from configtron.model.errors import DONE, PRIVILEGE, Missing
from configtron.model.records import canonical

# In a part's folder: its orders, its result.
ORDERS, FOUND = "part.json", "found.txt"


class BootedPart(NamedTuple):
    """A part under way: its guest, and the claim on its core."""

    folder: Path
    running: uml.Running
    core: IO[bytes]

    def close(self) -> None:
        """End the guest if it lives."""
        self.running.kill()
        self.core.close()

    def ended(self) -> tuple[str, str]:
        """Return the text of a part whose guest has ended, or why there is none. Errors: `Missing`."""
        self.core.close()
        code = self.running.poll()
        if code == DONE and (self.folder / FOUND).exists():
            return (self.folder / FOUND).read_text(), ""
        words = measure.last_words(self.running)
        if code == PRIVILEGE:
            raise Missing(f"{self.folder.name}: {words}")
        return "", f"its guest ended with exit code {code}: {words}"


def boot(folder: Path, orders: str, seed: int, guests: measure.Guests) -> BootedPart:
    """Begin a part with these orders in that folder. Errors: `Missing`, `Refused`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FOUND).unlink(missing_ok=True)
    (folder / measure.SOFTWARE).write_text(canonical(dict(guests.software)))
    (folder / ORDERS).write_text(orders)
    number, core = measure.claimed_core()
    job = uml.GuestJob((*guests.command, uml.GUEST_OUTPUT), folder, seed, number, measure.MEMORY_MB)
    try:
        return BootedPart(folder, guests.backend.boot(job), core)
    except BaseException:
        core.close()
        raise
