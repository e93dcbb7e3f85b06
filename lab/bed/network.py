"""(stub) Servers, router and client of the bed, and the link between them.

    origins --- "servers" namespace --- router (here) --- "client" namespace
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from configtron.lab.bed.conditions import Condition

# Namespaces: start servers in the one (all origins' addresses are there), page loads in the other.
SERVERS, CLIENT = "servers", "client"


@dataclass
class Bed:
    """A raised bed; origin -> its address. A bed stays raised as long as its guest; `close` ends the player."""

    addresses: Mapping[str, str]
    condition: Condition

    def change(self, condition: Condition, *, seed: int, cell: str = "") -> None:
        """Put a condition in force and read it back; its chance starts anew from `seed` (and the condition's salt).

        Call it before every load, with the load's seed. Errors: `Mismatch`, naming `cell` and the knob.
        """
        raise NotImplementedError

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While inside (one page load), the condition's steps happen at their times."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        """End the player, if one runs."""


def raise_bed(condition: Condition, origins: Sequence[str], *, seed: int) -> Bed:
    """Namespaces, links, addresses, routes; `condition` in force. Once per boot. Errors: `Missing`, `Mismatch`."""
    raise NotImplementedError
