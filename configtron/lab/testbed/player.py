# SPDX-License-Identifier: MIT
"""The link that plays (player.c): compiled once, configured by lines, read back.

    player = TracePlayer(program, netns="client", near="play0", far="play1")
    player.put(condition, seed=3)

The program is built outside the guest, which cannot write to the cache; a guest is handed its path. Beside it lie the
library of `datagrams.py` and, where clang is, the program of `echo.py`, built with it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from configtron.lab.internet import bpf
from configtron.lab.internet.links import splitmix64
from configtron.lab.testbed import opportunities
from configtron.lab.testbed.conditions import LinkDirection
from configtron.lab.uml import kernel
from configtron.model.errors import Mismatch, Missing

SOURCES = (Path(__file__).with_name("player.c"), Path(__file__).with_name("played_way.h"))
LIBRARY_SOURCE, LIBRARY = Path(__file__).with_name("datagrams.c"), "datagrams.so"
ECHO_SOURCE, ECHO = Path(__file__).with_name("echo.bpf.c"), "echo.o"
WAYS = ("down", "up")
BY_SEED = ("offset_us", "seed")


def program() -> Path:
    """Return the player's path in the cache; compile it if it is not there. Call it on the host, not in a guest."""
    # what is built depends on clang too
    sources = (*SOURCES, LIBRARY_SOURCE, *([ECHO_SOURCE] if shutil.which("clang") else []))
    folder = kernel.cache_folder() / f"player-{kernel.key(*(source.read_bytes() for source in sources))}"
    if not kernel.is_whole(folder):
        with kernel.build_lock(lambda line: None, "player.lock"):
            if not kernel.is_whole(folder):
                _build(folder)
    return folder / "player"


def datagrams(program: Path) -> Path:
    """Return the library of `datagrams.py` that lies beside a player."""
    return program.with_name(LIBRARY)


def echo(program: Path) -> Path:
    """Return the program of `echo.py` that lies beside a player; it exists only where clang could build it."""
    return program.with_name(ECHO)


def _build(folder: Path) -> None:
    kernel.require(kernel.absent_packages(kernel.INIT_PROGRAMS), "building the link's player")
    work = kernel.cache_folder() / "player-building"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log = kernel.cache_folder() / "player-build.log"
    kernel.run(["gcc", "-O2", "-Wall", "-o", str(work / "player"), str(SOURCES[0]), "-lm"], log)
    library = str(datagrams(work / "player"))
    kernel.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", library, str(LIBRARY_SOURCE)], log)
    if shutil.which("clang"):
        shutil.copyfile(bpf.compiled(ECHO_SOURCE, work), echo(work / "player"))
    kernel.keep(work, folder)


@dataclass(frozen=True, slots=True)
class Counts:
    """Packets of one way since the player began."""

    arrived: int
    dropped: int  # for want of room
    lost: int  # by chance
    delivered: int
    delivered_bytes: int
    waiting: int  # queued or under way now


class MomentList(NamedTuple):
    """A list of moments as the player reads it."""

    file: str
    moments: int
    period_us: int


class TracePlayer:
    """A running player. Errors of all its methods: `Missing` when it has died, with its words."""

    def __init__(self, program: Path, *, netns: str, near: str, far: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="player-")
        # its report of each way when it was last set, without what the seed decides
        self.seen: dict[str, str] = {}
        self._lists: dict[tuple[LinkDirection, int], MomentList] = {}
        self._errors = Path(self._folder.name, "errors").open("w+")
        self._process = subprocess.Popen(
            [str(program), netns, near, far],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )
        self.counts()

    def put(self, ways: Mapping[str, LinkDirection], *, salt: int, seed: int, waits: bool = True) -> None:
        """Set both ways, "down" and "up"; chance begins anew. Errors: `Mismatch`, naming the way.

        waits    a way's list of moments begins when the next packet comes, in either direction; else now
        """
        for number, name in enumerate(WAYS):
            self._put(number, ways[name], salt, (splitmix64(seed * 2 + number), seed), waits)

    def _put(self, number: int, way: LinkDirection, salt: int, seeds: tuple[int, int], waits: bool) -> None:
        """seeds: the way's own, and the one that both ways share."""
        listed, seed = self._list(way, salt), seeds[0]
        # the two files of a trace begin at one moment
        begin = seeds[1] if way.kind == "trace" else seed
        settings = {
            "opportunities": listed.moments,
            "period_us": listed.period_us,
            "offset_us": _offset_us(way, listed.period_us, begin),
            "delay_us": round(way.delay_ms * 1e3),
            "loss": f"{way.loss:.9g}",
            "packets": way.queue_packets,
            "bytes": way.queue_bytes,
            "rate": round(way.rate_kbit * 125) if way.bucket_bytes else 0,
            "bucket": way.bucket_bytes,
            "outage_us": round(way.loss_run_ms * 1e3),
            "seed": seed,
            "waits": int(waits),
        }
        words = [str(value) for value in settings.values()]
        answer = self._ask(" ".join(["way", str(number), listed.file, *words[1:]]))
        wanted = " ".join([f"way {number}", *(f"{name} {value}" for name, value in settings.items())])
        if answer != wanted:
            raise Mismatch(f"the player's way {WAYS[number]} is {answer!r} instead of {wanted!r}")
        lasting = {name: value for name, value in settings.items() if name not in BY_SEED}
        self.seen[WAYS[number]] = " ".join(f"{name} {value}" for name, value in lasting.items())

    def _list(self, way: LinkDirection, salt: int) -> MomentList:
        """Return a way's moments as a file, written once."""
        same = way, salt
        if same not in self._lists:
            found = opportunities.of(way, salt, opportunities.read)
            if found is None:
                self._lists[same] = MomentList("-", 0, 1)
            else:
                path = Path(self._folder.name, str(len(self._lists)))
                path.write_text("\n".join(map(str, found.at_us)))
                self._lists[same] = MomentList(str(path), len(found.at_us), found.period_us)
        return self._lists[same]

    def counts(self) -> dict[str, Counts]:
        """Return the packets so far, "down" and "up"."""
        numbers = [int(word) for word in self._ask("counts").split()[1:]]
        half = len(numbers) // len(WAYS)
        return {name: Counts(*numbers[n * half : (n + 1) * half]) for n, name in enumerate(WAYS)}

    def _ask(self, line: str) -> str:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(line + "\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._process.wait()
            self._errors.seek(0)
            raise Missing(f"the link's player has ended: {self._errors.read().strip()}")
        return answer.strip()

    def close(self) -> None:
        """End it; its devices go with it."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()
        self._folder.cleanup()


def _offset_us(way: LinkDirection, period_us: int, seed: int) -> int:
    """Return the offset in its period at which a way begins: the trace's, else by chance, as users come at any time."""
    if way.offset_drawn:
        return splitmix64(seed) % period_us
    if way.kind == "trace":
        return round(way.offset_s * 1e6) % period_us
    return splitmix64(seed) % period_us if way.kind in ("poisson", "bursts") else 0
