# SPDX-License-Identifier: MIT
"""A guest that is none: the same job, run as a process of this host, whose worker makes page load times up.

As a program it is that worker: `python -m tests.support.lab.pretended_guest PAUSE_S FOLDER`. It pauses after each
configuration, so that it can be killed in between. What it makes up depends on its orders alone; vegas it refuses; and
under a condition of 500 ms it fails.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.testbed.measure import Guests
from configtron.lab.testbed.shard import LINES, ORDERS, Orders, seed_of
from configtron.lab.uml.enclosure import GUEST_OUTPUT, GuestJob, Running, tie
from configtron.model.errors import DONE, NOTHING
from configtron.model.samples import Sample, Stack, end_line, sample_line, shard_line, slowness, stack_line
from tests.support import ROOT

SOFTWARE = (("configtron", "pretended"),)


@dataclass(frozen=True)
class Here:
    """A backend without a kernel."""

    name: str = "here"
    virtual_time: bool = True
    delays: bool = True

    def available(self) -> str:
        return ""

    def boot(self, job: GuestJob) -> Running:
        words = [str(job.output) if word == GUEST_OUTPUT else word for word in job.command]
        (job.output / "kernel.log").touch()
        (job.output / "exit").unlink(missing_ok=True)
        script = 'setpriv --pdeathsig KILL "$@"; echo $? >"$0/exit"'
        fds = [file.fileno() for file in job.keeps]
        with (job.output / "console.log").open("wb") as log:
            command = [*tie(job), "sh", "-c", script, str(job.output), *words]
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=ROOT, pass_fds=fds, start_new_session=bool(fds)
            )
            return Running(process, job.output)


def guests(pause_s: float = 0.0) -> Guests:
    """Pretended guests."""
    return Guests(Here(), (sys.executable, "-m", __name__, str(pause_s)), SOFTWARE)


def main(pause_s: float, folder: Path) -> int:
    orders = Orders.from_json((folder / ORDERS).read_text())
    count = 0
    with (folder / LINES).open("w") as out:
        print(shard_line(orders.condition.name, {"servers eth0": "made up"}), file=out, flush=True)
        for at, profile in enumerate(orders.configurations):
            settings = dict(profile.settings)
            if settings["tcp_congestion_control"] == "vegas":
                print(stack_line(Stack(at, reason="stack-not-as-asked", words="no vegas here")), file=out)
                continue
            read_back = tuple((knob, str(value)) for knob, value in profile.settings)
            print(stack_line(Stack(at, read_back)), file=out)
            for page in orders.pages:
                samples = cell(orders, at, page.name, page.size)
                count += len(samples)
                print(*map(sample_line, samples), sep="\n", file=out, flush=True)
            time.sleep(pause_s)
            if orders.condition.rtt_ms == 500:
                print("made up: the guest is lost", file=sys.stderr)
                return NOTHING
        print(end_line(count, 1.5 * count), file=out)
    return DONE


def cell(orders: Orders, at: int, site: str, size: int) -> list[Sample]:
    """Loads of one cell: the more loss, the more restless, and one in twenty of those fails."""
    samples: list[Sample] = []
    quiet = orders.condition.rtt_ms + size * 8 / (orders.condition.down.rate_kbit or 1e5) + at
    while more := orders.rule.more(slowness(samples)):
        for _ in range(more):
            chance = random.Random(seed_of(orders.seed, site, len(samples)) + at)
            factor = 1 + 20 * orders.condition.down.loss * chance.random()
            failed = "timeout" if chance.random() < orders.condition.down.loss else ""
            times = (None, None, None) if failed else (quiet * factor, quiet / 3, quiet / 2)
            samples.append(Sample(at, site, len(samples), failed, *times, 0 if failed else size))
    return samples


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), Path(sys.argv[2])))
