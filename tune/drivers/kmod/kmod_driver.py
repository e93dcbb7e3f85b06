# SPDX-License-Identifier: MIT
"""Profiles by our kernel module: the paper's own method, which reaches the most knobs.

Question   How does each client's connection begin with its profile's settings, for a tenth of the cost of BPF?
Method     kmod/ is a congestion control, and the driver makes it the namespace's default. The module keeps profiles,
           prefixes and their names; this file talks to it through device.py. Connections without a profile keep
           the earlier default congestion control (`plain`).
In force   while the module is enabled and the namespace's default is `configtron`; a table nothing looks up is not.
Lasts      until `revert`, the next boot, or the end of the namespace. Open connections keep the settings that they
           began with, until `move` (live.py).
Reads as   the module's own tables. `mark` is its count of changes with the namespace's default: two system calls.
Fails as   Missing (module absent, of another version, no CAP_NET_ADMIN); BadInput (a value out of range, a name of
           nothing); Refused (the kernel refuses a change half-way).
Differs    from eBPF: also min_rto above 0.2 s, data_rto, busy_poll, and slow_start_after_idle=0 for vegas; but neither
           the SYN-ACK's timer nor the first window offered, which are out before any congestion control is asked, nor
           congestion controls that need ECN (dctcp), which the SYN-ACK has agreed on or not by then.
Source     kmod/README.md
"""

from __future__ import annotations

import errno
import json
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from configtron.linux import netns
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Mix, Plan
from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Answers, Changes, Place, Reach, Rules
from configtron.tune.drivers.kmod import abi, draws, live
from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.draws import RecordReader
from configtron.tune.drivers.kmod.module_units import (
    KNOB_OF,
    REACHES,
    REFUSED,
    checked,
    format_prefix,
    packed,
    profiles_of,
    reaches,
    setting,
)
from configtron.tune.drivers.kmod.refusals import (
    LOAD_IT,
    OF_ONE,
    OTHER_MODULE,
    REFUSALS,
    half_way,
    remedy,
    why_refused,
)
from configtron.tune.drivers.route.answers import EVERYWHERE, against_routes
from configtron.tune.listeners import BY_EBPF_ALONE, listeners_of, listeners_text
from configtron.tune.rules import check

__all__ = ["REACHES", "REFUSED", "KmodDriver"]

CONTROL = "configtron"
# The text of `verify` for connections that another congestion control took from the module (kmod/wrap.c).
REPLACED = "the congestion control replaced its own operations; those connections run what it put there"
DEFAULT_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
# A module loaded anew has another inode here: its count of changes begins again.
LOADED = Path("/sys/module/configtron")
SWITCH = LOADED / "parameters" / "enabled"
OFF = f"the module's own switch is off, so no new connection has a profile; run: echo 1 > {SWITCH}"


class KmodDriver:
    """The driver. All its state is in the module: two drivers of one place differ only in the records they read."""

    name = "kmod"
    reachable, unreachable = REACHES, REFUSED

    def __init__(self, place: Place) -> None:
        self.place = place
        self._reader: RecordReader | None = None

    def missing(self) -> str:
        listeners = listeners_of(self.place.listen)
        if any(one.address for one in listeners) or len(listeners) > abi.PORTS:
            return f"the module distinguishes {abi.PORTS} local ports, not addresses; {BY_EBPF_ALONE}"
        if self.place.cgroup:
            return "the module acts on a whole network namespace; leave --cgroup out, or use the driver ebpf"
        return self._no_module() or (OFF if SWITCH.exists() and SWITCH.read_text() == "N\n" else "")

    def _no_module(self) -> str:
        if why := netns.absent(self.place.netns):
            return why
        try:
            with Device() as device:
                spoken = device.version()["abi"]
        except FileNotFoundError:
            return f"the module is not loaded; {LOAD_IT}"
        except PermissionError:
            return "/dev/configtron needs CAP_NET_ADMIN in the first user namespace; run as root"
        except OSError as error:
            return f"/dev/configtron: {error.strerror}; {OTHER_MODULE}"
        return "" if spoken == abi.ABI else f"the module speaks version {spoken}, we {abi.ABI}; {OTHER_MODULE}"

    def settable(self) -> Mapping[str, Reach]:
        if self.missing():
            return {}
        with self._device() as device:
            return reaches(device.parameters())

    def before(self) -> str:
        """Return the namespace's default congestion control, the only setting of the host that we overwrite."""
        return json.dumps({"tcp_congestion_control": self._control()})

    def apply(self, changes: Changes) -> Rules:
        with self._device() as device:
            able = reaches(device.parameters())
            wanted = {name: checked(profile, able) for name, profile in changes.profiles.items()}
            # Check that no rules of other listeners are in force: a namespace has one set of tables.
            if self._is_enabled(device) and (ports := device.ports()) != self._ports() and device.profiles():
                kept = f"local ports {listeners_text(map(str, ports))}" if ports else "every local port"
                raise Refused(f"the module's rules here are for {kept}; roll them back first: configtron tune rollback")
            if not self._is_in_force(device):
                _clear(device)
            self._check_names(device, changes)
            self._check_plain(device)
            new = packed(dict.fromkeys(changes.prefixes, 0))
            _try(device, wanted)
            try:
                self._apply(device, changes, wanted, new)
                return self._read_back(device, changes, new)
            except OSError as error:
                raise Refused(half_way(error, device.version())) from error

    def read(self) -> Rules:
        if self.missing():
            return Rules()
        with self._device() as device:
            return _rules(device) if self._is_in_force(device) else Rules()

    def mark(self) -> str:
        if self.missing():
            return "nothing"
        with self._device() as device:
            loaded = LOADED.stat().st_ino if LOADED.exists() else 0
            return f"{loaded}:{device.status()['generation']}:{self._control()}"

    def stamp(self) -> str:
        """Return the mark: it is a few calls."""
        return self.mark()

    def revert(self, before: str) -> None:
        """Restore the default first: from then on no new connection uses the module, even if its tables have rules."""
        old = json.loads(before).get("tcp_congestion_control", "")
        if netns.absent(self.place.netns) or self._is_others():
            return
        try:
            if self._control() == CONTROL and old and old != CONTROL:
                self._set_control(old)
        finally:
            # also where the old default is refused: new connections get it by the module then, and nothing else
            if not self._no_module():
                with self._opened() as device:
                    _clear(device)
        if self._control() == CONTROL and not self._no_module():
            with self._opened() as device:
                self._set_control(device.options()[2])

    def _is_others(self) -> bool:
        """Return whether the rules in force are for other listeners than this place's."""
        if self._no_module():
            return False
        with self._opened() as device:
            return self._is_enabled(device) and device.ports() != self._ports()

    def assign(self, descriptor: int, profile: str) -> None:
        """AssignProfile(socket, profile): a connected TCP socket of this place, of ours or by pidfd_getfd(2)."""
        with self._device() as device:
            device.assign(descriptor, self._known(device, profile))

    def assigned(self, descriptor: int) -> str:
        with self._device() as device:
            return device.profiles().get(device.of_socket(descriptor)[0], "")

    def move(self) -> tuple[int, int]:
        """Apply the rules in force to open connections, except settings of a connection's beginning.

        Returns (connections that clients hold to us here, those of them that have a profile). Errors: `Missing`.
        """
        with self._device() as device:
            if not self._is_in_force(device):
                return 0, 0
            try:
                return live.move(device, self.place.netns)
            except OSError as error:
                why = f"the module refused to move open connections ({error.strerror}), not all have their profile"
                raise Refused(f"{why}; run again: configtron tune reapply") from error

    def refusals(self) -> Mapping[str, tuple[int, str]]:
        """Return the count of connections whose congestion control replaced its own operations and runs others."""
        with self._device() as device:
            replaced = sum(device.stats(number)["replaced"] for number in device.profiles())
        return {"tcp_congestion_control": (replaced, REPLACED)} if replaced else {}

    def load_plan(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        with self._ruling() as device:
            draws.load(device, plan, mixes)

    def turn(self, records: bool = True) -> None:
        """`records`: whether this driver reads records from now on. The module keeps them for readers alone."""
        with self._ruling() as device, _plan_needed("loaded"):
            if records:
                self._reading()
            device.turn_plan()

    def renew(self, until_ns: int) -> None:
        with self._ruling() as device, _plan_needed("in force"):
            device.renew_plan(until_ns)

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        return self._reading().records()

    def _reading(self) -> RecordReader:
        """Return the reader; the module keeps records for it from its first use on. Errors: `Missing`."""
        if self._reader is None:
            if why := self.missing():
                raise Missing(why)
            self._reader = RecordReader(self._opened(), lambda: live.clients(self.place.netns))
        return self._reader

    def mark_moved(self, sockets: Mapping[int, int]) -> None:
        if self._reader is not None:
            self._reader.mark_moved(sockets)

    def stop_records(self) -> None:
        """Close the file that receives records, if there is one."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def lost_records(self) -> int:
        with self._device() as device:
            return device.status()["records_lost"]

    def drop_plan(self) -> None:
        with self._device() as device:
            device.drop_plan()

    @contextmanager
    def _ruling(self) -> Iterator[Device]:
        """Yield the device while the driver's rules are in force. Errors: `Missing`."""
        with self._device() as device:
            if not self._is_in_force(device):
                raise Missing("no rules of the driver kmod are in force here; run: configtron tune apply --driver kmod")
            yield device

    @contextmanager
    def _device(self) -> Iterator[Device]:
        """Yield the module's device, opened in the place's namespace."""
        if why := self.missing():
            raise Missing(why)
        with self._opened() as device:
            yield device

    def _opened(self) -> Device:
        with netns.inside(self.place.netns):
            return Device()

    def _control(self) -> str:
        with netns.inside(self.place.netns):
            return DEFAULT_CONTROL.read_text().strip()

    def _set_control(self, name: str) -> None:
        with netns.inside(self.place.netns):
            try:
                DEFAULT_CONTROL.write_text(name)
            except OSError as error:
                why = f"net.ipv4.tcp_congestion_control={name}: {error.strerror}"
                raise Refused(f"{why}; {remedy(name, error, name == CONTROL)}") from error

    def ask(self, rules: Rules) -> Answers:
        """Return where a route names a congestion control: its clients' connections pass the module by."""
        return against_routes(self.place.netns, [*rules.prefixes, *(EVERYWHERE if rules.default else ())], CONTROL)

    def listened(self) -> list[KmodDriver]:
        """Return the driver for the ports that limit this namespace's rules, if any do."""
        if self.place.listen or self._no_module():
            return []
        with self._opened() as device:
            ports = device.ports() if self._control() == CONTROL else ()
        return [KmodDriver(replace(self.place, listen=listeners_text(map(str, ports))))] if ports else []

    def _ports(self) -> tuple[int, ...]:
        return tuple(one.port for one in listeners_of(self.place.listen))

    def _is_enabled(self, device: Device) -> bool:
        return bool(self._control() == CONTROL and device.options()[0] & FLAGS["ENABLED"])

    def _is_in_force(self, device: Device) -> bool:
        return self._is_enabled(device) and device.ports() == self._ports()

    def _check_names(self, device: Device, changes: Changes) -> None:
        """Check, before any write, that each name in the resulting rules has a profile. Errors: `BadInput`."""
        numbers = {name: number for number, name in device.profiles().items()}
        dropped = changes.dropped_profiles
        left = (numbers.keys() | changes.profiles.keys()) - dropped
        default = _default(device) if changes.default is None else changes.default
        check(Rules({name: Profile(name) for name in left}, changes.prefixes, default))
        if not dropped & numbers.keys():
            return
        leaving = packed(dict.fromkeys((*changes.prefixes, *changes.dropped_prefixes), 0))
        device.get_prefixes(leaving)
        held = profiles_of(leaving).tolist()
        drawn = draws.drawn(device)
        for name in sorted(dropped & numbers.keys()):
            if others := device.stats(numbers[name])["prefixes"] - held.count(numbers[name]):
                raise BadInput(f"profile {name} still has {others} prefixes; give them another profile first")
            if numbers[name] in drawn:
                raise BadInput(f"profile {name} is part of the plan in force; it can go when a plan without it is")

    def _check_plain(self, device: Device) -> None:
        """Check that the module takes the present default: connections without a profile stay under it."""
        plain = self._control()
        if plain == CONTROL:
            return
        try:
            with _scratch(device) as scratch:
                device.set_settings(scratch, {KEY_OF["tcp_congestion_control"]: plain})
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            why = f"net.ipv4.tcp_congestion_control is {plain}, which the driver kmod cannot wrap: {why_refused(error)}"
            raise Refused(f"{why}; or choose another first: sysctl net.ipv4.tcp_congestion_control=cubic") from error

    def _apply(
        self, device: Device, changes: Changes, wanted: Mapping[str, dict[int, int | str]], new: bytearray
    ) -> None:
        numbers = {name: number for number, name in device.profiles().items()}
        for name, settings in wanted.items():
            if name not in numbers:
                numbers[name] = device.new_profile(name)
            device.set_settings(numbers[name], settings)
        profiles_of(new)[:] = array("I", [numbers[name] for name in changes.prefixes.values()])
        device.set_prefixes(new)
        device.delete_prefixes(packed(dict.fromkeys(changes.dropped_prefixes, 0)))
        flags, unmatched, plain = device.options()
        if changes.default is not None:
            unmatched = numbers[changes.default] if changes.default else 0
        if (control := self._control()) != CONTROL:
            plain = control
        device.set_options(flags | FLAGS["ENABLED"], unmatched, plain, self._ports())
        for name in changes.dropped_profiles & numbers.keys():
            device.delete_profile(numbers[name])
        if control != CONTROL:
            self._set_control(CONTROL)

    def _read_back(self, device: Device, changes: Changes, written: bytearray) -> Rules:
        """Clear the profiles in `written`, then return the kernel's answer for each of its prefixes."""
        names = device.profiles()
        profiles = {name: Profile(name, setting(device.settings(n))) for n, name in names.items()}
        numbers = profiles_of(written)
        numbers[:] = array("I", bytes(numbers.nbytes))
        device.get_prefixes(written)
        found = ((prefix, names.get(number)) for prefix, number in zip(changes.prefixes, numbers, strict=True))
        return Rules(
            {name: profiles[name] for name in changes.profiles if name in profiles},
            {prefix: name for prefix, name in found if name is not None},
            _default(device),
        )

    def _known(self, device: Device, name: str) -> int:
        if not name:
            return 0
        for number, known in device.profiles().items():
            if known == name:
                return number
        raise BadInput(f"no profile is called {name!r}; there is: {', '.join(device.profiles().values()) or 'none'}")


def _try(device: Device, wanted: Mapping[str, dict[int, int | str]]) -> None:
    """Ask the kernel whether it would take all of these, on a profile without clients. Errors: `BadInput`."""
    with _scratch(device) as scratch:
        for name, settings in wanted.items():
            try:
                device.set_settings(scratch, settings)
            except OSError as error:
                if error.errno not in REFUSALS:
                    raise
                alone = error.filename and error.errno in OF_ONE
                knob = f"{KNOB_OF[int(str(error.filename))]}: " if alone else ""
                why = f"the kernel refuses {knob}{why_refused(error)}"
                raise BadInput(f"profile {name}: {why}; see: configtron tune doctor") from error


@contextmanager
def _scratch(device: Device) -> Iterator[int]:
    """Yield a profile without clients, gone afterwards."""
    made = device.new_profile("")
    try:
        yield made
    finally:
        device.delete_profile(made)


@contextmanager
def _plan_needed(how: str) -> Iterator[None]:
    """Report a plan that is not there. Errors: `BadInput`."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        raise BadInput(f"no plan is {how}; load one before") from error


def _clear(device: Device) -> None:
    """Empty the tables; open connections keep their settings."""
    flags, _, plain = device.options()
    device.drop_plan()
    device.set_options(flags, 0, plain)
    device.flush()
    for number in device.profiles():
        device.delete_profile(number)


def _default(device: Device) -> str:
    return device.profiles().get(device.options()[1], "")


def _rules(device: Device) -> Rules:
    names = device.profiles()
    profiles = {name: Profile(name, setting(device.settings(number))) for number, name in names.items()}
    prefixes = {format_prefix(prefix): names[number] for prefix, number in device.dump().items() if number in names}
    return Rules(profiles, prefixes, _default(device))
