# SPDX-License-Identifier: MIT
"""When a played link lets packets pass: a period's moments, of a way of the network or of a trace's file.

Question   At which moments may a full packet leave, for a link whose rate is not even?
Method     One list of moments, and the period after which it comes again, whatever the kind: drawn uniformly for
           "poisson" (a Poisson process, given how many come in a period), equal ones for "bursts", evenly spaced ones
           where an even link is played beside an uneven one, the file's for "trace".
Reads as   Mahimahi's format: a whole millisecond a line, in order, one full packet each; the last line is the period.
Fails as   `BadInput` naming file and line.
Differs    from Pantheon's files, whose realised means are 2 to 8 % off what they are called: ours are exact, because
           the number in a period is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.testbed.conditions import PACKET_BYTES, LinkDirection
from configtron.model.errors import BadInput

# Where traces without a folder in their name lie.
TRACES = Path(__file__).with_name("traces")
# As long as Pantheon's files: what is drawn repeats after it.
DRAWN_US = 60_000_000
# An even link's list covers about so much; it is exact in the mean.
EVEN_US = 1_000_000
# A longer trace is a mistake: eleven days.
MOST_MS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Opportunities:
    """Moments of one period in microseconds, in order."""

    at_us: tuple[int, ...]
    period_us: int

    @property
    def rate_kbit(self) -> float:
        """The mean rate of full packets."""
        return len(self.at_us) * PACKET_BYTES * 8 * 1e3 / self.period_us

    def between(self, start_us: int, end_us: int) -> int:
        """Return the number of opportunities from one moment to another of the endless repetition."""
        return self._before(end_us) - self._before(start_us)

    def _before(self, at_us: int) -> int:
        periods, within = divmod(at_us, self.period_us)
        return periods * len(self.at_us) + sum(moment < within for moment in self.at_us)


def of(way: LinkDirection, salt: int, read: Callable[[str], Opportunities]) -> Opportunities | None:
    """Return a way's moments; None where it has no limit. `salt` is the condition's; `read` reads a trace."""
    if way.kind == "trace":
        return read(way.trace)
    if not way.rate_kbit or way.kind == "policer":
        return None
    packet_us = PACKET_BYTES * 8 * 1e3 / way.rate_kbit
    if way.kind == "poisson":
        chance = random.Random(f"{salt} {way.rate_kbit}")
        count = max(1, round(DRAWN_US / packet_us))
        return Opportunities(tuple(sorted(chance.randrange(DRAWN_US) for _ in range(count))), DRAWN_US)
    if way.kind == "bursts":
        return Opportunities((0,) * way.burst_packets, round(way.burst_packets * packet_us))
    count = math.ceil(EVEN_US / packet_us)
    return Opportunities(tuple(round(n * packet_us) for n in range(count)), round(count * packet_us))


def read(name: str) -> Opportunities:
    """Return a trace's moments by its file's name, in `TRACES` unless it has a folder. Errors: `BadInput`."""
    path = Path(name) if "/" in name else TRACES / name
    try:
        return parse(path.read_text(), name)
    except (OSError, UnicodeDecodeError) as error:
        there = sorted({file.name.rpartition(".")[0] for file in TRACES.glob("*.down")})
        raise BadInput(
            f"no trace {name!r} ({error}); there is: {', '.join(there)}, or give FILE with its folder"
        ) from error


def parse(text: str, name: str) -> Opportunities:
    """Mahimahi's format. Errors: `BadInput`."""
    moments: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.isascii() or not line.strip().isdigit() or int(line) > MOST_MS:
            raise BadInput(f"{name}:{number}: {line[:40]!r} is no moment; each line is one in whole milliseconds")
        if moments and int(line) < moments[-1]:
            raise BadInput(f"{name}:{number}: moment {int(line)} comes after {moments[-1]}; they stand in order")
        moments.append(int(line))
    if not moments or not moments[-1]:
        raise BadInput(f"{name}: a trace ends with its period in milliseconds, which is not 0")
    return Opportunities(tuple(moment * 1000 for moment in moments), moments[-1] * 1000)
