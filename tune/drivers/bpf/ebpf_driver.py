# SPDX-License-Identifier: MIT
"""Profiles by a BPF program on a control group: no module, no route, nothing of the application changed.

Question   How does a server on a stock kernel give each client's connections the profile of the client's prefix?
Method     A sock_ops program is called at each handshake. It looks the client up in a table and sets the profile's
           options before the first byte is sent (bpf/sockops.bpf.c). Where no option reaches, a congestion control of
           our own wraps the kernel's (bpf/keep.bpf.c, bpf/unpaced.bpf.c). Connections that live already keep what they
           have until `move` puts them right (bpf/move.bpf.c).
Lasts      Maps and link are pinned (bpf/pins.py): in force after this process has gone, and gone after `revert` or the
           next boot. A run that was killed leaves a folder without a link, or rules half written; both are mended by
           the next `apply` and ended by `revert`.
Reads as   `read` dumps the maps; a program that was detached has nothing in force, so it reads as nothing.
Draws      `load_plan` and `turn` put a plan in force under a lease (bpf/drawing.h): a client of a class gets a profile
           of the class's mix, and its connections are recorded (bpf/recording.h). Watching leaves the plan alone.
Watched    The prefixes are frozen and written by a program only, which counts (bpf/write.bpf.c): `mark` takes a few
           system calls, however many prefixes there are.
Fails as   Missing (BPF not allowed here, no libbpf, a changed source and no clang, no control groups version 2);
           BadInput (a value out of reach, a name of nothing); Refused (another program holds the group for itself, the
           kernel says no). An option that the kernel refuses at a connection is counted by knob: `refusals`.
Differs    from the module: nothing for vegas after idle, no first time-out of data, time-outs at most 0.2 s; but the
           SYN-ACK's timer and the first window offered, which no congestion control sees.
Source     tools/lib/bpf, net/core/filter.c; kernel's Documentation/bpf
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from configtron.linux import netns
from configtron.linux.libbpf import LIBRARY, Map, Object, library
from configtron.linux.ring_buffer import RingBuffer
from configtron.model.close_records import CloseRecord, OpenRecord, PackedRecords
from configtron.model.draw import Mix, Plan, PlanState
from configtron.model.errors import ConfigtronError, Missing, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Answers, Changes, Place, Reach, Rules
from configtron.tune.drivers.bpf import controls, drawing, layout, objects, pins, reach, rights
from configtron.tune.drivers.bpf.connection_records import RecordParser, as_moved
from configtron.tune.drivers.bpf.drawing import Halves
from configtron.tune.drivers.bpf.reach import REACHES, REFUSED
from configtron.tune.drivers.bpf.tables import NAMES, SINGLY, BpfMaps
from configtron.tune.rules import after, check, prefixes_among

__all__ = ["REACHES", "REFUSED", "EbpfDriver"]

_NO_RULES = "the driver ebpf has no rules in force here; run: configtron tune apply --driver ebpf"
_IDLE_SWITCH = Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle")


class EbpfDriver:
    """Everything it knows is pinned in the kernel; two of them for one place are one."""

    name = "ebpf"
    reachable, unreachable = REACHES, REFUSED

    def __init__(self, place: Place) -> None:
        self.place = place
        self._parser = RecordParser({}, 0)

    def missing(self) -> str:
        if why := _no_means() or pins.private():
            return why
        try:
            pins.group(self.place)
            netns.cookie(self.place.netns)
        except ConfigtronError as absent:
            return str(absent)
        return objects.missing()

    def settable(self) -> Mapping[str, Reach]:
        return {} if self.missing() else reach.reaches(reach.kernel())

    def tried(self) -> str:
        """Return why this process cannot act though nothing is missing, one line: found out by loading a program.

        It does nothing, is attached nowhere, and is gone at once. "" if the kernel took it.
        """
        return self.missing() or rights.tried()

    def tried_reach(self) -> Mapping[str, Reach]:
        return reach.noted(reach.kernel())

    def unfit(self, profile: Profile) -> str:
        try:
            reach.check_wrap(profile, reach.kernel())
            self._check_idle(profile)
        except ConfigtronError as error:
            return str(error)
        return ""

    def before(self) -> str:
        """Of the host's own there is only whether the BPF file system was mounted.

        Errors: `Missing` where nothing could be put in force, before anything is written.
        """
        if why := self.tried():
            raise Missing(f"the driver ebpf: {why}")
        return json.dumps({"bpffs": pins.BPFFS in pins.mounts("bpf")})

    def apply(self, changes: Changes) -> Rules:
        self._require()
        for profile in changes.profiles.values():
            reach.check(profile, reach.kernel())
            self._check_idle(profile)
        if self._in_force() is None:
            check(after(Rules(), changes))
        try:
            return self._apply(changes)
        except OSError as error:
            why = f"the kernel refused a change half-way ({error.strerror}); run: configtron tune rollback"
            raise Refused(why) from error

    def read(self) -> Rules:
        here = self._in_force()
        if here is None:
            return Rules()
        with BpfMaps(here) as tables:
            return Rules(tables.profiles(), tables.prefixes(), tables.default())

    def mark(self) -> str:
        found = self._opened()
        if found is None:
            return "nothing"
        with found as tables:
            program, group = pins.link_state(tables.folder / pins.LINK)
            ours = ",".join(sorted(controls.registered()))
            return f"{program}:{group}:{ours}:{tables.mark()}"

    def stamp(self) -> str:
        """Return the mark: it is a few calls."""
        return self.mark()

    def revert(self, before: str) -> None:
        mounted = pins.BPFFS in pins.mounts("bpf")
        if why := _no_means():
            # its folder is root's alone
            may_look = os.access(pins.BPFFS, os.R_OK | os.X_OK)
            if mounted and (not may_look or pins.ROOT.exists()):
                raise Missing(f"cannot take back what stands in {pins.ROOT}: {why}")
            return
        if why := pins.private():
            raise Missing(f"cannot take back what is not seen from here: {why}")
        for folder in pins.folders(self.place):
            pins.remove(folder)
        if pins.remove_root():
            controls.withdraw_unused()
        if mounted and not json.loads(before).get("bpffs", True):
            pins.unmount()

    def ours(self) -> str:
        """Folders of pins, also of a program that was detached by another program, which has nothing in force."""
        if _no_means() or pins.private() or pins.BPFFS not in pins.mounts("bpf"):
            return ""
        found = len(pins.folders(self.place))
        return f"{found} folders of maps and programs in {pins.ROOT}" if found else ""

    def others(self) -> tuple[str, ...]:
        """Nothing: a folder of ours holds nothing of others."""
        return ()

    def move(self) -> tuple[int, int]:
        """Put what is in force on connections that live already, but for their initial window.

        Returns (connections that clients hold to us here, those of them that have a profile). Errors: `Missing`.
        """
        self._require()
        here = self._in_force()
        if here is None:
            return 0, 0
        if not reach.kernel().iterates:
            raise Missing(
                "live connections stay as they are: this kernel has no type information (CONFIG_DEBUG_INFO_BTF)"
            )
        try:
            return self._moved(here)
        except OSError as error:
            raise Refused(f"the kernel refused to move open connections: {error.strerror}") from error

    def ask(self, rules: Rules) -> Answers:
        """Return the other sock_ops programs of the group, and whether any of its processes is in the namespace."""
        elsewhere = pins.elsewhere(self.place) if rules != Rules() else ()
        return Answers(differences=tuple(elsewhere), unasked=tuple(pins.neighbours(self.place)))

    def listened(self) -> list[EbpfDriver]:
        """Return the driver for each choice of listeners that is pinned here, whichever journal knows of it or none.

        Of a place that names listeners itself there are no others.
        """
        if self.place.listen or _no_means() or not pins.ROOT.exists():
            return []
        found = []
        for folder in sorted(pins.ROOT.iterdir()):
            with suppress(OSError), BpfMaps(folder) as tables:
                place = replace(self.place, listen=tables.listen())
                if place.listen and pins.folder(place) == folder:
                    found.append(EbpfDriver(place))
        return found

    def refusals(self) -> Mapping[str, tuple[int, str]]:
        """Knob -> (how often the kernel refused it at a connection, its last reason). Empty when all is well."""
        here = self._in_force()
        if here is None:
            return {}
        with BpfMaps(here) as tables:
            return {knob: (count, os.strerror(error)) for knob, (count, error) in tables.refusals().items()}

    def load_plan(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        here = self._drawing()
        with BpfMaps(here) as tables, Halves(here) as halves:
            halves.load(plan, mixes, {name: number for number, name in tables.names().items()})

    def turn(self, records: bool = True) -> None:
        """`records`: whether connections are recorded from now on."""
        with Halves(self._drawing()) as halves:
            halves.turn(records)

    def renew(self, until_ns: int) -> None:
        try:
            drawing.renew(pins.folder(self.place), until_ns)
        except FileNotFoundError as error:
            raise Missing(_NO_RULES) from error

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        with self._stream() as ring:
            if not ring.is_empty():
                yield from self._parser_now().all(ring.waiting())

    def packed_records(self) -> Iterator[PackedRecords]:
        # Only an agent that reads records needs numpy.
        from configtron.tune.drivers.bpf.packed_records import packed

        with self._stream() as ring:
            if not ring.is_empty():
                parser = self._parser_now()
                yield from (packed(run, parser) for run in ring.runs())

    @contextmanager
    def _stream(self) -> Iterator[RingBuffer]:
        """Open the records. Errors: `Missing`."""
        try:
            stream = Map.pinned(pins.folder(self.place) / "records")
        except FileNotFoundError as error:
            raise Missing(_NO_RULES) from error
        with closing(stream), RingBuffer(stream.descriptor, stream.most) as ring:
            yield ring

    def _parser_now(self) -> RecordParser:
        """Return the parser that knows the names of now, the same one while they stay."""
        with BpfMaps(pins.folder(self.place), NAMES) as tables:
            names = tables.names()
        if not self._parser.reads_as(names):
            self._parser = RecordParser(names, reach.ticks_per_second())
        return self._parser

    def lost_records(self) -> int:
        try:
            with closing(Map.pinned(pins.folder(self.place) / "lost")) as counts:
                return sum(struct.unpack("=2Q", counts.all()[1]))
        except FileNotFoundError as error:
            raise Missing(_NO_RULES) from error

    def mark_moved(self, sockets: Mapping[int, int]) -> None:
        with closing(Map.pinned(self._drawing() / "connections")) as connections:
            for descriptor in sockets.values():
                key = struct.pack("=i", descriptor)
                if recorded := connections.get(key):
                    connections.put(key, as_moved(recorded))

    def drop_plan(self) -> None:
        with Halves(self._drawing()) as halves:
            halves.drop()

    def plan_state(self) -> PlanState | None:
        here = self._in_force()
        if here is None:
            return None
        with Halves(here) as halves:
            return halves.state()

    def _drawing(self) -> Path:
        """Return the place's folder. Errors: `Missing` where nothing is in force."""
        here = self._in_force()
        if here is None:
            raise Missing(_NO_RULES)
        return here

    def _apply(self, changes: Changes) -> Rules:
        pins.mount()
        here = self._folder()
        with BpfMaps(here) as tables:
            tables.check(changes, drawing.used(here) if changes.dropped_profiles else ())
            self._ready_all(changes)
            if changes.profiles:
                tables.set_profiles(changes.profiles, reach.ticks_per_second())
            prefixes = changes.prefixes
            if not (here / pins.LINK).exists():
                prefixes = tables.freeze(prefixes, self.place.listen)
            tables.set_prefixes(prefixes, changes.dropped_prefixes)
            if changes.dropped_profiles:
                tables.drop_profiles(changes.dropped_profiles)
            tables.settle(netns.cookie(self.place.netns), changes.default)
        if self._in_force() is None:
            self._attach(here)
            # Another configtron, whose last program went before ours was there, has withdrawn ours with its own.
            self._ready_all(changes)
        with BpfMaps(here) as tables:
            profiles = tables.profiles() if changes.profiles else {}
            found = tables.prefixes() if len(changes.prefixes) > SINGLY else tables.some_prefixes(changes.prefixes)
            return Rules(
                {name: profiles[name] for name in changes.profiles if name in profiles},
                prefixes_among(found, changes.prefixes),
                tables.default(),
            )

    def _moved(self, here: Path) -> tuple[int, int]:
        with Object(objects.compiled("move"), here) as program, netns.inside(self.place.netns):
            program.constants(struct.pack("=Q", pins.group_id(self.place)))
            program.load()
            link = program.attach("configtron_move", "bpf_program__attach_iter", None)
            link.run()
            link.close()
            with closing(program.map(".bss")) as tally:
                seen, moved = struct.unpack_from("=2I", tally.get(bytes(4)) or bytes(8))
        return seen, moved

    def _require(self) -> None:
        if why := _no_means() or pins.private() or objects.missing():
            raise Missing(why)
        pins.group(self.place)

    def _in_force(self) -> Path | None:
        """Return the place's folder while its program is attached to this very group, for this very namespace."""
        found = self._opened()
        if found is None:
            return None
        with found as tables:
            return tables.folder

    def _opened(self) -> BpfMaps | None:
        """Return the maps of that folder, open; None where nothing is in force."""
        if _no_means() or pins.BPFFS not in pins.mounts("bpf"):
            return None
        here = pins.folder(self.place)
        try:
            group, cookie = pins.group_id(self.place), netns.cookie(self.place.netns)
        except ConfigtronError:
            return None
        if not (here / pins.LINK).exists() or pins.link_state(here / pins.LINK)[1] != group:
            return None
        try:
            found = BpfMaps(here)
        except FileNotFoundError:  # a map's pin was removed: not whole
            return None
        with ExitStack() as closing_it:
            tables = closing_it.enter_context(found)
            if tables.netns_cookie() == cookie and tables.listen() == self.place.listen:
                closing_it.pop_all()
                return tables
        return None

    def _folder(self) -> Path:
        """Return the place's maps, made unless they are there; what a killed run or another version left is removed.

        The program is attached to new maps once they are filled and frozen.
        """
        here = pins.folder(self.place)
        for other in pins.folders(self.place):
            if other != here or self._in_force() is None:
                pins.remove(other)
        here.mkdir(parents=True, exist_ok=True)
        if not (here / pins.LINK).exists():
            with Object(objects.compiled("write"), here) as program:
                program.load()
        return here

    def _attach(self, here: Path) -> None:
        group = os.open(pins.group(self.place), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with Object(objects.compiled("sockops_types" if reach.has_types() else "sockops"), here) as program:
                program.load()
                try:
                    link = program.attach("configtron", "bpf_program__attach_cgroup", group)
                except PermissionError as error:
                    why = f"another program holds the control group {self.place.cgroup or '/'} for itself"
                    raise Refused(f"{why}; see: bpftool cgroup tree") from error
                link.pin(here / pins.LINK)
                link.close()
        finally:
            os.close(group)

    def _ready_all(self, changes: Changes) -> None:
        for profile in changes.profiles.values():
            self._ready(layout.kernel_name(dict(profile.settings)))

    def _ready(self, control: str) -> None:
        """A congestion control that BPF can ask for: it loads no module by itself."""
        if control in layout.WRAPPED:
            controls.register(control)
        if control and control not in layout.WRAPPED:
            with netns.inside(self.place.netns), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
                try:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
                except PermissionError:
                    pass  # registered, but not for everybody in this namespace; BPF may
                except OSError as error:
                    why = f"congestion control {control}: {error.strerror}; run: modprobe tcp_{control}"
                    raise Missing(why) from error

    def _check_idle(self, profile: Profile) -> None:
        if dict(profile.settings).get("tcp_slow_start_after_idle") != 1:
            return
        with netns.inside(self.place.netns):
            switched_off = _IDLE_SWITCH.read_text().strip() == "0"
        if switched_off:
            raise Refused(
                f"profile {profile.name}: tcp_slow_start_after_idle=1, but the sysctl of that name is 0 here, "
                "which holds for every connection; run: sysctl -w net.ipv4.tcp_slow_start_after_idle=1"
            )


def _no_means() -> str:
    """Return why nothing can be done on this machine, wherever; "" if it can."""
    try:
        library()
    except OSError:
        return f"{LIBRARY} is not installed; run: apt-get install libbpf1"
    if not pins.BPFFS.is_dir():
        return "this kernel has no BPF (CONFIG_BPF_SYSCALL, CONFIG_CGROUP_BPF); use the driver route or sysctl"
    return rights.lacking()
