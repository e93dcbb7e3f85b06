# SPDX-License-Identifier: MIT
"""The nets: kernels that catch mistakes of kernel code, and what is thrown at the module in each.

    python -m tests.support.kmod.nets [NET ...] [--connections NUMBER]

Question   Does the module survive every order of events, every allocation that fails, a second processor?
Method     Two kernels with checks: uml (one processor; bad accesses, lock order, RCU, leaks, failing allocations) and
           smp (two emulated ones, preemption; the same checks and sleeping while atomic). Four of Debian, with two
           processors: debian (Debian 12's), 6.12 (Debian 13's), 6.18 and newest (of its backports). In each:
           inside.py's steps, and then the kernel's log is read by gate.py. One of the steps takes each congestion
           control that the kernel has by itself (schemes.py) and prints a table; another one each driver and knob
           (knobs.py), of which the last table has a column for each kernel: the matrix.
           First of all mistakes are planted: a net that lets one of them through is torn, its silence worth nothing.
Reads as   a line a step; exit code 0 when every step ended well and no kernel complained, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configtron.lab.uml.backend import Backend, say
from configtron.lab.uml.debian import ensure_debian
from configtron.lab.uml.debian import tree as debian_tree
from configtron.lab.uml.enclosure import GuestJob
from configtron.lab.uml.kernel import ensure_kernel
from configtron.lab.uml.kmod import WERROR, module_for_tree
from configtron.lab.uml.modules import ensure_tree, make_module
from configtron.lab.uml.qemu import QemuDebian, QemuDebug
from configtron.lab.uml.recipes import UML_DEBUG, X86_DEBUG, KernelRecipe
from configtron.lab.uml.user_mode_linux import UmlDebug
from configtron.model.errors import ConfigtronError
from tests.support import ROOT
from tests.support.kmod import debian13, gate, knobs
from tests.support.kmod.debian13 import QemuDebian13

HERE = Path(__file__).resolve().parent

KMOD = ROOT / "kmod"

# Each program of stress/, and what it is made of.
PROGRAMS = {
    "churn": ("churn.c", "changes.c", "traffic.c"),
    "loads": ("loads.c", "traffic.c"),
    "failnth": ("failnth.c", "failcalls.c"),
}
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers")

# The step that plants, and the congestion controls that a net must find fault with (planted/replacing.c).
PLANT = "plant"
FAULTY = ("lost_get", "rep_late")
# A mistake of planted/planted.c -> the kernel's words for it; a net must bring those of its own.
PLANTED = {
    "rcu": "suspicious RCU usage", "lock-order": "possible circular locking dependency",
    "use-after-free": "KASAN: slab-use-after-free in planted_use_after_free", "leak": "a planted leak",
    "atomic-sleep": "sleeping function called from invalid context",
}  # fmt: skip

MEMORY_MB, LIMIT_S = 1024, 4 * 3600
# As many as a busy server's minute.
CONNECTIONS = 100_000
LOADS = 100
# Of these, as many for each congestion control with ECN, and as many without.
SCHEME_SHARE = 0.002
# With its checks the emulated kernel does so much of what User-Mode Linux does in the same time.
SMP_SHARE = 0.05


@dataclass(frozen=True)
class Net:
    """One kernel: how it is booted and made (None: Debian's own), the steps, and the planted mistakes it must see."""

    backend: Backend
    recipe: KernelRecipe | None
    steps: Callable[[int, int], tuple[str, ...]]
    catches: tuple[str, ...] = ()

    def modules(self, folder: Path) -> Iterator[Path]:
        """Our module, the planted ones and those of the kernel's congestion controls, built for it."""
        if isinstance(self.backend, QemuDebian13):
            for sources in (KMOD, HERE / "planted"):
                yield from debian13.modules(debian13.newest(self.backend.of), sources)
            schemes = self.backend.folder()
        else:
            tree = ensure_tree(say, self.recipe) if self.recipe else debian_tree()
            arch = self.recipe.arch if self.recipe else "x86_64"
            schemes = ensure_kernel(say, self.recipe).parent if self.recipe else ensure_debian(say)
            yield from module_for_tree(tree, arch, say, (WERROR,)).parent.glob("*.ko")
            yield from make_module(HERE / "planted", folder / "planted", tree, arch)
        yield from (path for path in schemes.glob("tcp_*.ko") if path.stem != "tcp_diag")


def schemes_step(connections: int, link: str = "") -> str:
    return f"schemes={max(10, int(connections * SCHEME_SHARE))}{link}"


# The debug kernel of User-Mode Linux does not live through netem on its loopback (with no module of ours in it).
LOSSY = ",lossy"
NETS = {
    "uml": Net(
        UmlDebug(), UML_DEBUG,
        lambda connections, times: (
            "kunit", schemes_step(connections), f"churn={connections}", f"loads={times}", "failures", "leaks",
        ),
        ("rcu", "lock-order", "use-after-free", "leak"),
    ),
    "smp": Net(
        QemuDebug(), X86_DEBUG,
        lambda connections, times: (
            schemes_step(connections // 4, LOSSY), f"churn={int(connections * SMP_SHARE)}",
            f"loads={max(1, int(times * SMP_SHARE))}",
        ),
        ("rcu", "lock-order", "use-after-free", "atomic-sleep"),
    ),
    "debian": Net(
        QemuDebian(), None,
        lambda connections, times: (
            schemes_step(connections, LOSSY), f"churn={connections}", f"loads={times}", "knobs",
        ),
    ),
    "6.12": Net(QemuDebian13(of="6.12."), None, lambda connections, _: (schemes_step(connections, LOSSY), "knobs")),
    # its headers are in the archive no more: no module of ours
    "6.18": Net(QemuDebian13(of="6.18."), None, lambda _, __: ("knobs",)),
    "newest": Net(QemuDebian13(), None, lambda connections, _: (schemes_step(connections, LOSSY), "knobs")),
}  # fmt: skip


@dataclass(frozen=True)
class Catch:
    """The result of one boot: the steps as inside.py reported them, and the kernel's complaints."""

    code: int
    steps: list[dict[str, Any]]
    reports: list[str]
    console: str

    def rows(self) -> list[dict[str, Any]]:
        """One for each congestion control and ECN."""
        return [row for step in self.steps for row in step.get("rows", ())]

    def knobs(self) -> list[knobs.Row]:
        """One for each driver and setting."""
        return [row for step in self.steps for row in step.get("knobs", ())]

    def well(self) -> bool:
        fine = all(str(row["result"]).startswith("ok") for row in self.rows())
        fine = fine and all(row["result"] != "wrong" for row in self.knobs())
        return fine and self.code == 0 and not self.reports and not any(step.get("leaked") for step in self.steps)


def cast(net: Net, steps: tuple[str, ...], folder: Path) -> Catch:
    """Boot the net's kernel with everything compiled for it, run the steps, read what came of them."""
    for module in net.modules(folder):
        shutil.copy(module, folder)
    for name, sources in PROGRAMS.items():
        paths = [str(HERE / "stress" / source) for source in sources]
        subprocess.run(["gcc", "-O2", *WARNINGS, f"-I{KMOD}", "-o", str(folder / name), *paths], check=True)
    command = (sys.executable, "-m", "tests.support.kmod.inside", str(folder), *steps)
    job = GuestJob(command, folder / "output", 1, 0, MEMORY_MB, (("PYTHONPATH", str(ROOT)),), LIMIT_S)
    running = net.backend.boot(job)
    code = running.wait()
    console = running.console.read_text()
    results = [json.loads(line) for line in console.splitlines() if line.startswith("{")]
    return Catch(code, results, gate.reports(running.kernel_log.read_text(errors="replace")), console)


def torn(net: Net, catch: Catch) -> list[str]:
    """The planted mistakes that a net should have caught and did not."""
    words = "\n".join([*catch.reports, *(block for step in catch.steps for block in step.get("leaked", ()))])
    missed = [mistake for mistake in net.catches if PLANTED[mistake] not in words]
    passed = {row["cc"] for row in catch.rows() if str(row["result"]).startswith("ok")}
    faulted = {row["cc"] for row in catch.rows()} - passed
    return missed + [name for name in FAULTY if name not in faulted]


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows of schemes.py; references are those of the congestion control's module and of ours."""
    line = "{:12} {:>3} {:>6} {:>6}  {:24} {:>12} {:>12}  {:9} {}"
    yield line.format("cc", "ecn", "conn", "agreed", "ran", "refs before", "refs after", "unload", "result")
    for row in rows:
        ran = ", ".join(f"{name} {count}" for name, count in row.get("ran", {}).items()) or row.get("refused", "-")
        before, after = (
            "/".join("-" if count is None else str(count) for count in row.get(when, ()))
            for when in ("before", "after")
        )
        counts = (row["connections"], row.get("ecn agreed", "-"))
        yield line.format(row["cc"], row["ecn"], *counts, ran, before, after, row.get("unload", ""), row["result"])


def matrix(seen: dict[str, list[knobs.Row]]) -> Iterator[str]:
    """Each driver and setting by kernel; then, for what is refused or wrong somewhere, the reason."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    rows = [(kernel, row) for kernel in seen for row in seen[kernel]]
    for kernel, row in rows:
        cells.setdefault((row["driver"], row["set"]), {})[kernel] = row["result"]
    line = "{:7} {:62}" + " {:9}" * len(seen)
    yield line.format("driver", "set", *seen).rstrip()
    for (driver, settings), results in cells.items():
        yield line.format(driver, settings, *(results.get(kernel, "-") for kernel in seen)).rstrip()
    for kernel, row in rows:
        if row["why"]:
            yield f"{kernel}: {row['driver']} {row['set']}: {row['result']}: {row['why']}"


def try_net(name: str, connections: int, times: int) -> Catch | None:
    """Plant, then stress; prints as it goes. None: not tried, or the net is torn."""
    net = NETS[name]
    if reason := net.backend.available():
        print(f"{name}: {reason}")
        return None
    well = True
    with tempfile.TemporaryDirectory(prefix="configtron-nets-") as folder:
        if net.catches:
            started = time.monotonic()
            leaks = ("leaks",) if "leak" in net.catches else ()
            planted = tuple(f"scheme={scheme}" for scheme in FAULTY)
            missed = torn(net, cast(net, (PLANT, *leaks, *planted), Path(folder)))
            well &= not missed
            caught = ", ".join(mistake for mistake in (*net.catches, *FAULTY) if mistake not in missed)
            print(f"{name}  planted mistakes: caught {caught or 'none'}", end="")
            print(f"; TORN: {', '.join(missed)}" if missed else "", f"({time.monotonic() - started:.0f} s)", flush=True)
    with tempfile.TemporaryDirectory(prefix="configtron-nets-") as folder:
        started = time.monotonic()
        catch = cast(net, net.steps(connections, times), Path(folder))
        for step in catch.steps:
            print(f"{name}  {json.dumps({key: value for key, value in step.items() if key not in ('rows', 'knobs')})}")
            for line in table(step["rows"]) if "rows" in step else ():
                print(f"{name}    {line}".rstrip())
        for report in catch.reports:
            print(f"{name}  REPORT\n{report}")
        verdict = "well" if catch.well() else f"NOT well (exit code {catch.code}) {catch.console[-2000:]}"
        print(f"{name}  {verdict} ({time.monotonic() - started:.0f} s)", flush=True)
    return catch if well else None


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.kmod.nets")
    parser.add_argument("net", nargs="*", metavar="NET", help=f"of {', '.join(NETS)}; all when none is named")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--loads", type=int, default=LOADS)
    asked = parser.parse_args(words)
    if unknown := sorted(set(asked.net) - set(NETS)):
        parser.error(f"no net {', '.join(unknown)}; there are {', '.join(NETS)}")
    try:
        # a list, not a generator: a torn net must not keep the others from being cast
        caught = {name: try_net(name, asked.connections, asked.loads) for name in asked.net or NETS}
    except ConfigtronError as error:
        print(f"nets: {error}", file=sys.stderr)
        return error.code
    for line in matrix({name: catch.knobs() for name, catch in caught.items() if catch and catch.knobs()}):
        print(line)
    return 0 if all(catch and catch.well() for catch in caught.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
