# SPDX-License-Identifier: MIT
"""Claim: of TCP stacks that are not Linux, verdicts are right or honest bounds and reasons.

    python -m benchmarks.stacks [--quick] [NAME...]      as root

Builds a web server on gVisor's netstack (Go), on smoltcp (Rust) and on lwIP (Debian's liblwip-dev), each from its
source in benchmarks/stacks/, kept in the cache; raises them behind TAP devices in a namespace of our own, probes them
with the program itself, and compares each verdict with the stack's known settings and with what tcpdump recorded at its
device. `--quick` leaves out what takes minutes (the end of a SYN-ACK's repeats). Exit code 1 if a value is wrong.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configtron.lab.uml.kernel import cache_folder, key
from configtron.linux.netns import inside
from configtron.model.errors import Missing
from configtron.probe.wire.namespaces import addresses, ip
from tests.support.namespaces import own_namespace, throwaway
from tests.support.servers import ended

SOURCES = Path(__file__).with_name("stacks")
# Longer than any window here, and what lwIP's send buffer passes within a second.
PAGE_BYTES = 200_000
LISTENS_WITHIN_S = 15.0
# Timers agree within the wheel of the one kernel that has a coarse one; a busy host adds some ms.
SHARE, SLACK_S = 0.125, 0.03
FIELDS = ("frame.time_epoch", "tcp.stream", "tcp.srcport", "tcp.flags.syn", "tcp.seq", "tcp.len", "tcp.ack")


@dataclass(frozen=True, slots=True)
class Stack:
    """How to build and run one, and what is known of it.

    build     the command, run in a copy of its sources; @OUT@ is the folder for the program
    program   what it makes there, `package` what brings the compiler
    windows   segments that the initial window may hold at our segment sizes; () for a stack without a window
    min_s     the minimum timeout; None: it has none that a timer shows
    """

    name: str
    build: tuple[str, ...]
    program: str
    package: str
    windows: tuple[int, ...]
    min_s: float | None


# gVisor: InitialCwnd, MinRTO (pkg/tcpip/transport/tcp); lwIP: LWIP_TCP_CALC_INITIAL_CWND, which is RFC 3390's.
STACKS = {
    row.name: row
    for row in (
        Stack("gvisor", ("go", "build", "-o", "@OUT@/server", "."), "server", "Go 1.23 (go.dev)", (10,), 0.2),
        Stack(
            "smoltcp",
            ("cargo", "build", "--release", "--locked", "--target-dir", "@OUT@"),
            "release/stack-smoltcp",
            "Rust 1.80 (rustup.rs)",
            (),
            None,
        ),
        Stack(
            "lwip",
            ("gcc", "-O1", "-Wall", "-I/usr/include/lwip", "-o", "@OUT@/server", "server.c", "-llwip"),
            "server",
            "liblwip-dev",
            (3, 4),
            None,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """First gaps (s) of what came again, by connection: of SYN-ACKs, and of the first data."""

    synack_s: tuple[float, ...]
    data_s: tuple[float, ...]


def built(stack: Stack) -> Path:
    """The server's program, built unless the cache has it for these sources; Missing where the compiler is absent."""
    folder = SOURCES / stack.name
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "target" not in path.parts)
    parts = [part for path in files for part in (str(path.relative_to(folder)).encode(), path.read_bytes())]
    kept = cache_folder() / f"stack-{stack.name}-{key(*parts)}"
    if (kept / stack.program).exists():
        return kept / stack.program
    if shutil.which(stack.build[0]) is None:
        raise Missing(f"{stack.name} needs {stack.build[0]}, which is not installed: {stack.package}")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"stack-{stack.name}-", dir=cache_folder()) as work:
        out = Path(work) / "out"
        out.mkdir()
        shutil.copytree(folder, Path(work) / "source")
        command = [word.replace("@OUT@", str(out)) for word in stack.build]
        done = subprocess.run(command, cwd=Path(work) / "source", capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"{stack.name} does not build (needs {stack.package}):\n{done.stderr[-2000:]}")
        fresh = Path(work) / "kept"
        (fresh / stack.program).parent.mkdir(parents=True)
        shutil.move(out / stack.program, fresh / stack.program)
        shutil.rmtree(kept, ignore_errors=True)
        fresh.rename(kept)
    return kept / stack.program


@contextmanager
def raised(stacks: Sequence[Stack], folder: Path) -> Iterator[dict[str, str]]:
    """The stacks, answering and recorded into FOLDER/NAME.pcap: name -> address; vantage and targets lie in FOLDER."""
    with ExitStack() as exits:
        netns = exits.enter_context(throwaway("stacks"))
        vantage, gateway = exits.enter_context(own_namespace(netns, name="host"))
        assert gateway in addresses(netns)
        with inside(netns):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        found = {}
        for number, stack in enumerate(stacks):
            # not the vantage's 198.18.N
            network = f"198.19.{number + 1}"
            device = f"tap-{stack.name}"
            ip("tuntap", "add", "dev", device, "mode", "tap", netns=netns)
            ip("addr", "add", f"{network}.1/24", "dev", device, netns=netns)
            ip("link", "set", device, "up", netns=netns)
            found[stack.name] = f"{network}.2"
            command = [str(built(stack)), device, f"{network}.2", f"{network}.1", str(PAGE_BYTES)]
            if stack.name == "lwip":
                command = ["env", f"PRECONFIGURED_TAPIF={device}", command[0], *command[2:]]
            exits.enter_context(_running(netns, folder / f"{stack.name}.log", *command))
            _await(netns, f"{network}.2", folder / f"{stack.name}.log")
            _record(exits, netns, device, folder / f"{stack.name}.pcap")
        (folder / "vantages.toml").write_text(
            f'[[vantage]]\nname = "host"\nregion = "this host"\nnetns = "{vantage.netns}"\n'
            f'interface = "{vantage.interface}"\nsource_address = "{vantage.source_address}"\n'
        )
        (folder / "targets.csv").write_text("".join(f"{a},{name}.test,{name},80\n" for name, a in found.items()))
        (folder / "allowed.txt").write_text("".join(f"{a}\n" for a in found.values()))
        yield found


@contextmanager
def _running(netns: str, log: Path, *command: str) -> Iterator[None]:
    with log.open("wb") as console:
        argv = ["setpriv", "--pdeathsig", "TERM", "ip", "netns", "exec", netns, *command]
        with ended(subprocess.Popen(argv, stdout=console, stderr=console)):
            yield


def _record(exits: ExitStack, netns: str, device: str, path: Path) -> None:
    exits.enter_context(_running(netns, path.with_suffix(".tcpdump"), "tcpdump", "-i", device, "-U", "-w", str(path)))
    deadline = time.monotonic() + LISTENS_WITHIN_S
    while not path.exists() or not path.stat().st_size:
        if time.monotonic() > deadline:
            raise Missing(f"tcpdump does not start: {path.with_suffix('.tcpdump').read_text()}")
        time.sleep(0.05)


def _await(netns: str, address: str, log: Path) -> None:
    """Until the server answers a request."""
    deadline = time.monotonic() + LISTENS_WITHIN_S
    while time.monotonic() < deadline:
        command = ["ip", "netns", "exec", netns, "curl", "-s", "-o", "/dev/null", "-m", "5", f"http://{address}/"]
        if subprocess.run(command, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise Missing(f"{address} does not answer; its log:\n{log.read_text()}")


def probed(folder: Path, *words: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Host -> knob -> verdict, of a run of the program itself."""
    command = [sys.executable, "-m", "configtron", "--db", "stacks.db", "-q", "probe", "run", "-i", "targets.csv",
               "--vantages", "vantages.toml", "-w", "allowed.txt", "-r", "0", "--per-host-rate", "0",
               "--per-network-rate", "0", "-f", "jsonl", *words]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"the probe failed: {done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["target"]["host"].partition(".")[0]: row["observations"] for row in rows}


def recorded(path: Path) -> Recorded:
    """Read tcpdump's file with tshark: no code of ours takes part."""
    fields = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-r", str(path), "-Y", "tcp", "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    synacks: dict[str, list[float]] = {}
    first: dict[str, list[float]] = {}
    acked: set[str] = set()
    for line in done.stdout.splitlines():
        at, stream, port, syn, seq, length, ack = line.split("\t")
        if port != "80":
            acked |= {stream} if int(ack or 0) > 1 else set()
        elif syn in ("1", "True"):
            synacks.setdefault(stream, []).append(float(at))
        elif seq == "1" and length != "0" and stream not in acked:
            first.setdefault(stream, []).append(float(at))
    return Recorded(_first_gaps(synacks), _first_gaps(first))


def _first_gaps(times: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
    return tuple(round(several[1] - several[0], 6) for several in times.values() if len(several) > 1)


def wrong(stack: Stack, verdicts: Mapping[str, Mapping[str, Any]], seen: Recorded) -> list[str]:
    """Sentences about values that the stack's settings, or what was recorded, contradict."""
    found = []
    for knob, gaps_s in (("synack_rto", seen.synack_s), ("data_rto", seen.data_s)):
        value, grade = verdicts.get(knob, {}).get("value"), verdicts.get(knob, {}).get("grade", "")
        near = [s for s in gaps_s if value is not None and abs(s - value) <= SHARE * s + SLACK_S]
        if value is not None and not (near if grade == "C" else 2 * len(near) > len(gaps_s)):
            found.append(f"{stack.name}: {knob} {value} {grade}, recorded {sorted(gaps_s)}")
    least = verdicts.get("min_rto", {}).get("value")
    if least is not None and (stack.min_s is None or abs(least - stack.min_s) > SHARE * stack.min_s):
        found.append(f"{stack.name}: min_rto {least}, is {stack.min_s}")
    window = verdicts.get("icw", {})
    if window.get("value") is not None:
        bound = window.get("grade") == "L"
        right = (
            not stack.windows or window["value"] <= max(stack.windows) if bound else window["value"] in stack.windows
        )
        if not right:
            found.append(f"{stack.name}: icw {window['text']}, is {stack.windows or 'none'}")
    return found


def main(words: Sequence[str]) -> int:
    """Build, raise, probe, compare, print."""
    quick = "--quick" in words
    names = [word for word in words if word != "--quick"] or list(STACKS)
    stacks = [STACKS[name] for name in names]
    with tempfile.TemporaryDirectory(prefix="stacks-") as name:
        folder = Path(name)
        with raised(stacks, folder):
            found = probed(folder, "--profile", "standard", *(["--tests", "icw"] if quick else []))
        complaints = []
        for stack in stacks:
            seen = recorded(folder / f"{stack.name}.pcap")
            verdicts = found[stack.name]
            for knob in ("icw", "synack_rto", "synack_backoff", "synack_retries", "data_rto", "min_rto"):
                if knob in verdicts:
                    print(f"{stack.name:8} {knob:15} {verdicts[knob]['text']:30} {verdicts[knob]['grade']}")
            complaints += wrong(stack, verdicts, seen)
    print("\n".join(complaints) or "no value contradicts what the stacks are, or what was recorded of them")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
