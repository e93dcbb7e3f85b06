# SPDX-License-Identifier: MIT
"""A coverage-guided fuzzer for reading captures and for every inference.

    python -m tests.support.fuzzer SECONDS [SEED] [FOLDER]

An input is kept and changed further if it reached something new. In columnar code a branch is a mask, so lines alone
say little; new is also a count, a column or a verdict of a size that was not seen before. That is why this is a loop of
our own: libFuzzer (atheris) sees bytecode only, and is no package of every platform.

What must hold: nothing raises but `BadInput`, nothing takes longer than `HANG_S`, memory stays below `MEMORY` more
than at the start, no frame is lost without a name, and every inference says a value or a reason. An input that breaks
this is written to FOLDER. The same seed makes the same inputs.
"""

from __future__ import annotations

import hashlib
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from configtron.fingerprint import INFERENCES, read
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.model.nouns import GRADES, Message, Packet, Segment, Session, Target, Trace
from tests.fingerprint.capture.test_reading import DIALECTS
from tests.fingerprint.passive.test_fuzz import APART, everything
from tests.support import ROOT
from tests.support import capture_bytes as write

# Seconds of one input; bytes of address space above those of the start. Inputs are some kilobytes.
HANG_S, MEMORY = 20, 768 << 20
FOLDER = str(ROOT / "fingerprint")
INPUT_MOST = 1 << 15
# Numbers that lengths and offsets trip over.
ODD = (b"\0", b"\xff", b"\x7f", b"\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\1\0", b"\1\0\0\0", b"\x80\0\0\0")
ODD_SEGMENTS = (b"\x16\x03\x01", b"HTTP/1.1 200", b"\0\0\x06\x04\0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x81\0\0\5")
Feature = tuple[object, ...]


class Report(NamedTuple):
    """Inputs tried, features reached, inputs kept, and how inputs failed (name, path of the input)."""

    runs: int
    features: int
    kept: int
    failures: tuple[tuple[str, str], ...]


def of_capture(data: bytes) -> set[Feature]:
    """Read as a file, whole and in parts."""
    found: set[Feature] = set()
    for most in (None, 7):
        reports, counts = everything(data, most)
        shown = sum(int(one.numbers["packets"] or 0) + int(one.numbers["copies"] or 0) for one in reports)
        assert shown == counts["tcp"], "segments were lost"
        named = sum(n for name, n in counts.items() if name not in APART)
        assert named >= counts["frames"] - counts["malformed-record"], "frames were lost"
        found |= {("count", name, size.bit_length()) for name, size in counts.items()}
        for one in reports:
            found |= _findings(one)
    return found


def _findings(one: ConnectionReport) -> set[Feature]:
    numbers = {("column", name, min(int(abs(n or 0)).bit_length(), 12), n is None) for name, n in one.numbers.items()}
    return numbers | {("finding", o.knob, o.grade, o.reason, o.detail("proof")) for o in one.observations}


def of_trace(data: bytes) -> set[Feature]:
    """Read as a trace of any probe."""
    found: set[Feature] = set()
    trace = trace_of(data)
    for observation in read(trace):
        assert (observation.value is None) != (observation.reason is None) and observation.grade in GRADES
        found.add(("finding", observation.knob, observation.grade, observation.reason))
    return found


def trace_of(data: bytes) -> Trace:
    """Any bytes as a trace: a probe, its session, packets of 12 bytes, then what was sent."""
    head, rest = data[:4].ljust(4, b"\0"), data[4:]
    probes = sorted({probe for inference in INFERENCES.values() for probe in inference.probes})
    packets, at = [], 0.0
    for place in range(0, min(len(rest), 12 * (head[1] & 63)), 12):
        part = rest[place : place + 12].ljust(12, b"\0")
        at += part[0] / 50
        options = ((part[9] % 35, part[10 : 10 + part[11] % 11]),) if part[9] & 128 else ()
        segment = Segment(part[2], part[3] * 64, part[4] * 64, part[5] << 8, options, rest[: part[7] & 63], part[6] * 8)
        packets.append(Packet(at, "in" if part[1] & 1 else "out", segment, place // 12, 4 + (part[1] & 2), part[8]))
    payload = rest[12 * len(packets) :]
    messages = tuple(
        Message(n / 2, "in" if n & 1 else "out", payload[n * 40 : n * 40 + 40]) for n in range(head[2] & 7)
    )
    alpn = ("", "h2", "http/1.1")[head[3] % 3]
    session = Session("TLSv1.3", alpn) if head[3] & 128 else None
    way = (("way", ("clear", "h2c", "tls")[head[3] % 3]),) if head[3] & 64 else ()
    target = Target("x.example", "192.0.2.1")
    probe = probes[head[0] % len(probes)]
    return Trace("t", target, "here", probe, way, 0, tuple(packets), messages, session)


TARGETS: dict[str, Callable[[bytes], set[Feature]]] = {"capture": of_capture, "trace": of_trace}


def seeds() -> dict[str, list[bytes]]:
    """Where the changing begins."""
    tagged = [(at, write.ethernet(frame, 0x8100, 0x88A8)) for at, frame in write.conversation(6)]
    captures = [*DIALECTS.values(), write.pcap(tagged, link=1), write.pcap(write.conversation(), snap=60)]
    return {"capture": captures, "trace": [bytes((n, 40, 3, 129)) + bytes(range(256)) * 2 for n in range(20)]}


@contextmanager
def traced(lines: set[Feature]) -> Iterator[None]:
    """Collect the steps from line to line of the folder's functions."""
    names: dict[str, str] = {}

    def call(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        path = frame.f_code.co_filename
        name = names.get(path)
        if name is None:
            name = names[path] = Path(path).stem if Path(path).resolve().is_relative_to(FOLDER) else ""
        if not name:
            return None
        last = 0

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            lines.add((name, last, frame.f_lineno))
            last = frame.f_lineno
            return step

        return step

    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)


def changed(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """An input made of another one."""
    made = bytearray(data)
    for _ in range(1 << chance.randrange(5)):
        at = chance.randrange(len(made) + 1)
        size = 1 << chance.randrange(7)
        how = chance.randrange(6)
        if how == 0 and at < len(made):
            made[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            word = chance.choice((*ODD, *ODD_SEGMENTS))
            made[at : at + len(word)] = word
        elif how == 2:
            made[at : at + size] = b""
        elif how == 3:
            made[at:at] = made[at : at + size]
        elif how == 4:
            made[at : at + size] = chance.randbytes(size)
        else:
            begin = chance.randrange(len(other) + 1)
            made[at : at + size] = other[begin : begin + size]
    return bytes(made[:INPUT_MOST])


def fuzz(*, seed: int, runs: int | None = None, seconds: float = 0, folder: Path | None = None) -> Report:
    """So many inputs, or as many as the time allows. Call it where memory may be limited for good: in a child."""
    chance = random.Random(seed)
    seen: set[Feature] = set()
    kept = {name: list(found) for name, found in seeds().items()}
    fresh = [(name, data) for name, found in kept.items() for data in found]
    failures: dict[str, str] = {}
    tried, end = 0, time.monotonic() + seconds
    limit(MEMORY)
    while tried < runs if runs is not None else time.monotonic() < end:
        name, data = fresh.pop() if fresh else _next(kept, chance)
        tried += 1
        reached: set[Feature] = set()
        signal.alarm(HANG_S)
        try:
            with traced(reached):
                reached |= TARGETS[name](data)
        except Exception as error:  # a fuzzer's outermost loop
            _fail(name, data, error, failures, folder)
        finally:
            signal.alarm(0)
        if reached - seen:
            seen |= reached
            kept[name].append(data)
    return Report(tried, len(seen), sum(map(len, kept.values())), tuple(failures.items()))


def _next(kept: dict[str, list[bytes]], chance: random.Random) -> tuple[str, bytes]:
    name = chance.choice(("capture", "capture", "trace"))
    # What was found last leads on; but every input gets its turns.
    mine = kept[name]
    place = len(mine) - 1 - min(int(chance.expovariate(1 / 40)), len(mine) - 1) if chance.random() < 0.5 else -1
    data = mine[place] if place >= 0 else chance.choice(mine)
    return name, changed(data, chance.choice(mine), chance)


def _fail(name: str, data: bytes, error: Exception, failures: dict[str, str], folder: Path | None) -> None:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place else ""
    what = f"{name}: {type(error).__name__} {error} at {where}"[:200]
    path = (folder or Path(tempfile.gettempdir())) / f"fuzz-{hashlib.sha256(data).hexdigest()[:12]}"
    if what not in failures:
        path.write_bytes(data)
        failures[what] = str(path)


class Hung(Exception):
    """An input took too long."""


def limit(more: int) -> None:
    """Bound this process's memory, and have an alarm raise."""

    def late(*_: object) -> None:
        raise Hung(f"longer than {HANG_S} s")

    signal.signal(signal.SIGALRM, late)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    words = dict(enumerate(sys.argv))
    found = fuzz(seconds=float(words[1]), seed=int(words.get(2, "1")), folder=Path(words[3]) if 3 in words else None)
    print(f"{found.runs} inputs, {found.features} features, {found.kept} kept, {len(found.failures)} failures")
    for failure, path in found.failures:
        print(f"  {failure}\n    {path}")
    sys.exit(1 if found.failures else 0)
