# SPDX-License-Identifier: MIT
"""Cellular links drawn by seed, as traces in Mahimahi's format: those in `traces/`, and whatever else one wants.

    python -m configtron.lab.testbed.cellular FOLDER      draws all of `LINKS` again

Question   What does a link look like whose rate changes by the second, without a foreign recording in the repository?
Method     Sprout's model of a cellular link: packets leave by a Poisson process whose rate wanders, and that falls
           silent now and then. The logarithm of the rate is drawn back to its mean (an Ornstein-Uhlenbeck process), so
           that a trace of a minute has about the rate that its row asks for. Both directions fall silent together, as
           when a phone changes its cell.
Differs    from Sprout: it lets the rate walk freely and learns the parameters; ours are by hand, near the means and
           spreads that Mahimahi's recordings of such networks have. No recording's bytes are here.
Source     Winstein, Sivaraman, Balakrishnan, "Stochastic forecasts achieve high throughput and low delay over cellular
           networks", NSDI 2013, section 3
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.testbed.conditions import PACKET_BYTES
from configtron.model.errors import DONE, USAGE

# The rate changes by so small steps that a packet's worth hardly ever passes within one.
STEP_MS = 20


@dataclass(frozen=True, slots=True)
class CellularLink:
    """One link.

    down_kbit, up_kbit   mean rates while it speaks
    spread               standard deviation of the rate's logarithm
    memory_s             after so long it has forgotten all but 1/e of where its rate was
    silences_per_minute, silence_s   how often it falls silent, and for how long in the mean
    seconds              of the trace, which then comes again
    """

    down_kbit: float
    up_kbit: float
    spread: float
    memory_s: float
    silences_per_minute: float
    silence_s: float
    seconds: int
    seed: int


# Short and slow enough to be small files; a browser's page loads last seconds.
LINKS: Mapping[str, CellularLink] = {
    # LTE in a moving car: fast changes, handovers
    "commute": CellularLink(4500, 1200, 0.7, 3, 4, 0.5, 40, seed=1),
    # 3G on foot
    "walk": CellularLink(1600, 500, 0.5, 5, 2, 1.0, 60, seed=2),
    # LTE indoors, many others in the cell
    "desk": CellularLink(6000, 2500, 0.35, 1, 0.5, 0.3, 30, seed=3),
}


def moments(link: CellularLink, direction: str) -> list[int]:
    """Milliseconds at which a full packet may leave, in order; the last is the period."""
    silent = _silences(link, random.Random(f"{link.seed} silences"))
    chance = random.Random(f"{link.seed} {direction}")
    mean_per_ms = (link.down_kbit if direction == "down" else link.up_kbit) / (PACKET_BYTES * 8)
    kept = math.exp(-STEP_MS / 1e3 / link.memory_s)
    nudge = link.spread * math.sqrt(1 - kept * kept)
    log_rate = chance.gauss(0, link.spread)
    found: list[int] = []
    for start in range(0, link.seconds * 1000, STEP_MS):
        log_rate = kept * log_rate + chance.gauss(0, nudge)
        # the mean of exp(x) is exp(spread^2 / 2) when x is normal
        rate = mean_per_ms * math.exp(log_rate - link.spread**2 / 2)
        at = start + chance.expovariate(rate)
        while at < start + STEP_MS:
            if not any(begin <= at < end for begin, end in silent):
                found.append(int(at))
            at += chance.expovariate(rate)
    return [*found, link.seconds * 1000]


def _silences(link: CellularLink, chance: random.Random) -> list[tuple[float, float]]:
    """Beginnings and ends, in ms."""
    found, at = [], 0.0
    while (at := at + chance.expovariate(link.silences_per_minute / 60e3)) < link.seconds * 1e3:
        end = at + chance.expovariate(1 / (link.silence_s * 1e3))
        found.append((at, end))
        at = end
    return found


def write(folder: Path) -> list[Path]:
    """Write all of `LINKS`, both directions, as files; return their names."""
    written = []
    for name, link in LINKS.items():
        for direction in ("down", "up"):
            path = folder / f"{name}.{direction}"
            path.write_text("\n".join(map(str, moments(link, direction))) + "\n")
            written.append(path)
    return written


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m configtron.lab.testbed.cellular FOLDER", file=sys.stderr)
        return USAGE
    for path in write(Path(arguments[0])):
        print(path)
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
