# SPDX-License-Identifier: MIT
"""Hosts for the lab: one command, run as root on a kernel of its own, with the host's files read-only beneath it.

Question   How can a thousand servers and their network run anywhere, exactly the same each time, and touch nothing?
Method     Three backends behind one call, `boot(job)`:
             uml-virtual  User-Mode Linux built by kernel.py. Time moves only while every process waits, so minutes of
                          time-outs pass in a second, and the same seed gives the same bytes.
             uml-real     Debian's user-mode-linux package: real delays, real time, no building.
             netns        namespaces of the host's kernel: no own kernel, real time.
           enclosure.py builds the walls, init.c (the guest's first process) the inside; netns has the same inside.
Sameness   Five things make two boots equal: getrandom() seeded by a preload; a constant start of time; no address
           randomisation; a root mounted read-only and noatime; the same kernel command line for every job. The last is
           why a guest knows its output folder as /run/output, wherever it lies outside, and why a job is a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.uml.backend import Backend, Guest
from configtron.lab.uml.enclosure import (
    GUEST_OUTPUT,
    NO_EXIT_CODE,
    GuestJob,
    Running,
    cannot_enclose,
    cannot_trace,
    enclose,
    guest_environment,
    place_arguments,
)
from configtron.lab.uml.kernel import ensure_programs
from configtron.lab.uml.recipes import LAB, UML_DEBUG
from configtron.model.choices import NETNS, UML_REAL, UML_VIRTUAL
from configtron.model.congestion import TABLE1_MODULES
from configtron.model.errors import BadInput, Missing

__all__ = [
    "BACKENDS",
    "GUEST_OUTPUT",
    "NO_EXIT_CODE",
    "Backend",
    "GuestJob",
    "Netns",
    "Running",
    "UmlDebug",
    "UmlReal",
    "UmlVirtual",
    "pick",
]

# 2027-01-15 08:00:00 UTC, where every guest's clock starts: a constant, and late enough for certificates made today.
START_NS = 1_800_000_000_000_000_000

# Debian's kernel keeps these as modules. Order matters: a module comes after those it needs.
REAL_KERNEL = Path("/usr/bin/linux.uml")
REAL_MODULES_FOLDER = Path("/usr/lib/uml/modules")
REAL_MODULES = (
    "lib/crc-ccitt", "net/ipv6/ipv6", "drivers/net/veth", "drivers/net/tun", "net/sched/sch_netem",
    "net/sched/sch_tbf", "net/sched/sch_fq",
    *(f"net/ipv4/{module}" for module in TABLE1_MODULES), "net/ipv4/inet_diag", "net/ipv4/tcp_diag",
    "net/sched/sch_ingress", "net/sched/cls_bpf",
)  # fmt: skip


@dataclass(frozen=True)
class Uml(Guest):
    """A guest of User-Mode Linux, which needs ptrace(2)."""

    def available(self) -> str:
        return super().available() or cannot_trace()


@dataclass(frozen=True)
class UmlVirtual(Uml):
    """A kernel of our own in virtual time: exact, repeatable, faster than the clock. Or, when asked, in real time."""

    name: str = UML_VIRTUAL
    virtual_time: bool = True
    recipe = LAB

    def boot(self, job: GuestJob) -> Running:
        programs = ensure_programs()
        clock = ["time-travel=inf-cpu", f"time-travel-start={START_NS}"] if self.virtual_time else []
        preload = str(programs / "seeded_getrandom.so")
        return enclose(job, uml_arguments(job, self.kernel(), programs / "init", preload, clock), ())


def wide_registers() -> str:
    """Return why Debian's kernel cannot run on this processor, or nothing: it lacks our fp_state.patch."""
    wide = "amx_tile" in Path("/proc/cpuinfo").read_text().split()
    return "Debian's user-mode-linux cannot hold the registers of a processor with AMX" if wide else ""


@dataclass(frozen=True)
class UmlReal(Uml):
    """Debian's packaged kernel in real time."""

    name: str = UML_REAL
    program: Path = REAL_KERNEL

    def available(self) -> str:
        return super().available() or wide_registers()

    def absent(self) -> list[str]:
        return [] if self.program.exists() else ["user-mode-linux"]

    def boot(self, job: GuestJob) -> Running:
        arguments = uml_arguments(job, self.program, ensure_programs() / "init", "none", [])
        return enclose(job, arguments, real_modules())


@dataclass(frozen=True)
class UmlDebug(Uml):
    """A kernel that watches itself, in real time, so that processes meet in an order left to chance."""

    name: str = "uml-debug"
    recipe = UML_DEBUG

    def boot(self, job: GuestJob) -> Running:
        # every report is logged, not the first only; unit tests run when loaded; warnings (level 4) reach the log
        words = ["kasan_multi_shot", "kmemleak=on", "kunit.enable=1", "loglevel=5"]
        arguments = uml_arguments(job, self.kernel(), ensure_programs() / "init", "none", [])
        return enclose(job, [*arguments, *words], ())


@dataclass(frozen=True)
class Netns:
    """The host's kernel with namespaces of our own; the command sees real time and the host's TCP."""

    name: str = NETNS
    virtual_time: bool = False
    delays: bool = False

    def available(self) -> str:
        return cannot_enclose() or ("needs root, to load BPF programs on this kernel" if os.geteuid() else "")

    def boot(self, job: GuestJob) -> Running:
        environment = [f"{name}={value}" for name, value in guest_environment(job)]
        return enclose(job, ["netns", *place_arguments(job), *environment, *job.command], (), "--net")


# In the order of preference.
BACKENDS: tuple[Backend, ...] = (UmlVirtual(), UmlReal(), Netns())


def pick(preferred: str = "", backends: Sequence[Backend] = BACKENDS) -> tuple[Backend, str]:
    """Return the backend to use and why. A preferred one that cannot be used is an error, not a silent change."""
    if preferred and preferred not in [backend.name for backend in backends]:
        raise BadInput(f"no lab backend {preferred!r}; choose from {', '.join(b.name for b in backends)}")
    refusals: dict[str, list[str]] = {}
    for backend in backends:
        if preferred not in ("", backend.name):
            continue
        reason = backend.available()
        if not reason:
            why = "as asked" if preferred else _joined(refusals) or "virtual time, the same bytes for the same seed"
            return backend, why
        refusals.setdefault(reason, []).append(backend.name)
    raise Missing(f"no lab backend can be used here: {_joined(refusals)}")


def _joined(refusals: Mapping[str, Sequence[str]]) -> str:
    """Return each reason once, after the backends that it is of."""
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in refusals.items())


def uml_arguments(job: GuestJob, kernel: Path, init: Path, preload: str, clock: list[str]) -> list[str]:
    """enclose.sh's arguments for a User-Mode Linux guest."""
    return ["uml", *place_arguments(job), str(job.seed), preload, str(kernel), str(init), *kernel_arguments(job, clock)]


def kernel_arguments(job: GuestJob, clock: list[str]) -> list[str]:
    """The guest kernel's command line: the same for all jobs of one size, since it is mixed into the random numbers."""
    root = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=/run/configtron/init"]
    return [f"mem={job.memory_mb}M", *root, *clock, "con=null", "con0=null,fd:1", "ssl=null", "quiet"]


def real_modules() -> tuple[str, ...]:
    """Those of REAL_MODULES that are modules in the installed package."""
    folders = sorted(REAL_MODULES_FOLDER.glob("*/kernel"))
    paths = [folder / f"{name}.ko" for folder in folders[-1:] for name in REAL_MODULES]
    return tuple(str(path) for path in paths if path.exists())
