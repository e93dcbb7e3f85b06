# SPDX-License-Identifier: MIT
"""One profile for a whole network namespace, by its sysctls: the last resort without another driver.

Question   Which knobs can a host set without module and BPF, and how does it set a knob that has only a sysctl?
Method     The driver writes the default profile's settings to /proc/sys/net/ipv4. It notes the earlier values before
           (in a table of its own, `route/annotations.py`), and restores them once a later profile no longer sets them.
           It notes its own values too: any other value was set by another program since, and stays.
Reads as   The sysctls themselves: a value that another program has changed reads as it is, under the profile's name.
Fails as   `BadInput` for prefixes, since sysctls have none; `Refused` where the kernel does not take a value, after
           everything is restored.
Differs    from the other drivers: the profile applies to every client of the namespace, and to connections that the
           host itself opens.
Source     linux/Documentation/networking/ip-sysctl.rst
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from configtron.linux import netns
from configtron.linux.netlink import Netlink
from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Answers, Changes, Place, Reach, Rules
from configtron.tune.drivers.congestion_controls import ALLOWED, writable
from configtron.tune.drivers.route.annotations import MOST_NOTES, Notes, format_note, free, profile_of
from configtron.tune.drivers.route.answers import EVERYWHERE, against_routes
from configtron.tune.guard import DriverReach, check_reach
from configtron.tune.listeners import BY_EBPF_ALONE
from configtron.tune.metrics import MOST_RTO_S
from configtron.tune.rules import after
from configtron.tune.rules import check as check_names
from configtron.tune.unsupported import UNSUPPORTED

log = logging.getLogger("configtron.tune")
FOLDER = Path("/proc/sys/net/ipv4")
# Beside those of the driver route (`route/table.py`).
NOTES_TABLE, PROTOCOL = 49395, 69
# Two places for the note of the earlier values: the new note is whole before the old one is removed.
STATES = (MOST_NOTES - 1, MOST_NOTES)


@dataclass(frozen=True, slots=True)
class Switch:
    """One sysctl: its file, the reach of its knob, and its units in one unit of the knob."""

    file: str
    reach: Reach
    per_unit: int = 1


SWITCHES: tuple[Switch, ...] = (
    Switch("tcp_congestion_control", Reach(
        "tcp_congestion_control", "netns", values=KNOBS["tcp_congestion_control"].values,
        note="for sockets made from now on; a listener's connections have the listener's")),
    Switch("tcp_slow_start_after_idle", Reach("tcp_slow_start_after_idle", "netns", values=(0, 1))),
    Switch("tcp_autocorking", Reach("tcp_autocorking", "netns", values=(0, 1))),
    Switch("tcp_notsent_lowat", Reach("notsent_lowat", "netns", least=1, most=0xFFFFFFFF)),
    Switch("tcp_rto_min_us", Reach(
        "min_rto", "netns", least=0.001, most=MOST_RTO_S, note="Linux 6.11 and later; for sockets made from now on"),
        per_unit=1_000_000),
    Switch("tcp_window_scaling", Reach(
        "tcp_window_scaling", "netns", values=(0, 1), note="agreed in the handshake: for connections from now on")),
)  # fmt: skip
REACHES: Mapping[str, Reach] = {switch.reach.knob: switch.reach for switch in SWITCHES}
BY_KNOB: Mapping[str, Switch] = {switch.reach.knob: switch for switch in SWITCHES}

REFUSED: Mapping[str, str] = {
    **UNSUPPORTED,
    "initcwnd": "no sysctl for it; drivers kmod, ebpf and route",
    "tcp_low_latency": "no effect on any kernel since Linux 4.14",
    "pacing": "net.core.default_qdisc is the whole host's, and only for devices to come",
    "nagle": "no sysctl for it: a socket's own (TCP_NODELAY); drivers kmod and ebpf",
    "max_pacing_rate": "no sysctl for it; drivers kmod and ebpf",
    "initrwnd": "no sysctl for it; drivers ebpf and route",
    "delack_max": "no sysctl for it; drivers kmod and ebpf",
    "quickack": "no sysctl for it; driver route",
    "window_clamp": "no sysctl for it (tcp_rmem bounds the buffer, not the window); drivers kmod, ebpf and route",
    "cwnd_clamp": "no sysctl for it; drivers kmod and ebpf",
    "priority": "no sysctl for it; drivers kmod and ebpf",
    "mark": "no sysctl for it; drivers kmod and ebpf",
    "busy_poll": "net.core.busy_read is the whole host's; driver kmod",
    "resume_cwnd": "no sysctl for it; driver kmod",
    "resume_rtt": "no sysctl for it; driver kmod",
    "synack_rto": "no sysctl for it; driver ebpf",
    "data_rto": "no sysctl for it; driver kmod",
}

__all__ = ["REACHES", "REFUSED", "SysctlDriver"]


@dataclass(frozen=True, slots=True)
class Noted:
    """The notes: profiles by number, the default's name; by knob the earlier text of its file, and the texts that we
    may have written there.
    """

    profiles: Mapping[int, Profile] = field(default_factory=dict)
    default: str = ""
    was: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, Sequence[str]] = field(default_factory=dict)
    at: tuple[int, ...] = ()

    def rules(self) -> Rules:
        return Rules({profile.name: profile for profile in self.profiles.values()}, {}, self.default)

    def is_ours(self, knob: str, text: str) -> bool:
        """Return whether we wrote it; notes without that field count as yes."""
        return text in self.ours.get(knob, (text,))


class SysctlDriver:
    """Sysctls of one network namespace."""

    name = "sysctl"
    reachable, unreachable = REACHES, REFUSED

    def __init__(self, place: Place) -> None:
        self.place = place

    @cached_property
    def _notes(self) -> Notes:
        if why := self.missing():
            raise (BadInput if netns.is_absent(self.place.netns) else Missing)(f"the driver sysctl: {why}")
        return Notes(Netlink(self.place.netns), NOTES_TABLE, PROTOCOL)

    def missing(self) -> str:
        if self.place.listen:
            return f"a sysctl is the same for every listener; {BY_EBPF_ALONE}"
        if self.place.cgroup or self.place.interface:
            return "a sysctl is the same for every cgroup and interface; leave both out, or use another driver"
        return netns.absent(self.place.netns)

    def settable(self) -> Mapping[str, Reach]:
        with netns.inside(self.place.netns):
            found = {knob: switch.reach for knob, switch in BY_KNOB.items() if (FOLDER / switch.file).exists()}
        control = found["tcp_congestion_control"]
        able = set(writable(self.place.netns))
        values = tuple(value for value in control.values if value in able)
        note = control.note
        if lacking := [str(value) for value in control.values if value not in able]:
            why = f"not in this kernel, or not in the first namespace's {ALLOWED.name}"
            note = f"not here: {', '.join(lacking)} ({why})"
        return found | {control.knob: replace(control, values=values, note=note)}

    def untouched(self) -> Mapping[str, Value]:
        """Return each knob's value without us: as noted before the first change, else as the kernel has it."""
        return {knob: _as_value(knob, text) for knob, text in json.loads(self.before()).items()}

    def before(self) -> str:
        """Return every sysctl within reach as it was before our first change: {knob: its text}."""
        was = self._noted().was
        with netns.inside(self.place.netns):
            return json.dumps({knob: was.get(knob) or _text(knob) for knob in self.settable()})

    def apply(self, changes: Changes) -> Rules:
        if changes.prefixes:
            first = next(iter(changes.prefixes))
            raise BadInput(
                f"{first}: the driver sysctl sets a whole namespace and knows no prefixes; make the profile the "
                "default, or use another driver: configtron tune doctor"
            )
        for profile in changes.profiles.values():
            check_reach(profile, DriverReach(self.name, self.settable(), REFUSED))
        noted = self._noted()
        want = check_names(after(noted.rules(), changes))
        with netns.inside(self.place.netns):
            self._put(noted, want)
        back = self.read()
        return Rules({name: back.profiles[name] for name in changes.profiles}, {}, back.default)

    def _put(self, noted: Noted, want: Rules) -> None:
        settings = dict(want.profiles[want.default].settings) if want.default else {}
        was = {knob: _text(knob) for knob in settings} | dict(noted.was)
        now = {knob: _text(knob) for knob in was}
        ours = {knob: {now[knob]} & set(noted.ours.get(knob, ())) for knob in was}
        for knob, value in settings.items():
            ours[knob].add(_format_value(knob, value))
        self._note(noted, want, was, ours)
        try:
            for knob, value in settings.items():
                _write(knob, _format_value(knob, value))
            for knob in was.keys() - settings.keys():
                if noted.is_ours(knob, now[knob]):
                    _write(knob, was[knob])
        except Refused:
            for knob, text in now.items():
                _write(knob, text)
            self._note(self._noted(), noted.rules(), noted.was, noted.ours)
            raise
        if was.keys() - settings.keys():
            self._note(self._noted(), want, {knob: was[knob] for knob in settings}, ours)

    def _note(self, noted: Noted, want: Rules, was: Mapping[str, str], ours: Mapping[str, Iterable[str]]) -> None:
        """Note the texts before and after a change: the driver writes no sysctl whose former text is not noted."""
        numbers = {profile.name: number for number, profile in noted.profiles.items()}
        fresh = free({*noted.profiles, *STATES})
        # A changed profile has a new note, so that a kill between two writes leaves one of the two.
        kept = {name: number for name, number in numbers.items() if want.profiles.get(name) == noted.profiles[number]}
        notes = {kept.get(name) or next(fresh): format_note(profile) for name, profile in want.profiles.items()}
        stale = [number for number in noted.profiles if number not in notes]
        self._notes.write({number: text for number, text in notes.items() if number not in kept.values()})
        place = next(number for number in STATES if number not in noted.at)
        if want.default or was:
            wrote = {knob: sorted(ours.get(knob, ())) for knob in was}
            state = {"default": want.default, "was": dict(was), "ours": wrote}
            self._notes.write({place: json.dumps(state, separators=(",", ":"))})
        self._notes.drop([*noted.at, *stale])

    def _noted(self) -> Noted:
        notes = self._notes.read()
        states = {number: json.loads(notes[number]) for number in STATES if number in notes}
        profiles = {number: profile_of(text) for number, text in notes.items() if number not in STATES}
        # both are whole only if their writer was killed between: the earlier values of both are true
        was = {knob: text for state in states.values() for knob, text in state["was"].items()}
        pairs = [pair for state in states.values() for pair in state.get("ours", {}).items()]
        ours = {name: [text for knob, texts in pairs if knob == name for text in texts] for name, _ in pairs}
        default = next((state["default"] for state in states.values()), "")
        return Noted({number: p for number, p in profiles.items() if p}, default, was, ours, tuple(states)[:1])

    def read(self) -> Rules:
        rules = self._noted().rules()
        if not rules.default:
            return rules
        with netns.inside(self.place.netns):
            found = tuple((knob, _value(knob)) for knob, _ in rules.profiles[rules.default].settings)
        return Rules({**rules.profiles, rules.default: Profile(rules.default, found)}, {}, rules.default)

    def ask(self, rules: Rules) -> Answers:
        """Return where a route names a congestion control: it comes before the sysctl."""
        settings = dict(rules.profiles[rules.default].settings) if rules.default else {}
        control = settings.get("tcp_congestion_control")
        return Answers() if control is None else against_routes(self.place.netns, list(EVERYWHERE), str(control))

    def mark(self) -> str:
        noted = self._noted()
        with netns.inside(self.place.netns):
            texts = [(knob, _text(knob)) for knob in sorted(noted.was)]
        profiles = sorted(map(str, noted.rules().profiles.values()))
        return blake2b(repr((texts, profiles)).encode(), digest_size=8).hexdigest()

    def ours(self) -> str:
        """Return the noted profiles, and the sysctls that hold our values; "" if there is no note."""
        if self.missing():
            return ""
        noted = self._noted()
        counts = ((len(noted.profiles), "profiles noted"), (len(noted.was), "sysctls written"))
        return ", ".join(f"{count} {what}" for count, what in counts if count)

    def others(self) -> tuple[str, ...]:
        """Return sysctls of ours that another program has set since: they stay."""
        if self.missing():
            return ()
        noted = self._noted()
        with netns.inside(self.place.netns):
            return tuple(f"net.ipv4.{BY_KNOB[knob].file} = {found}, set by another's hand" for knob in noted.was
                         if not noted.is_ours(knob, found := _text(knob)))  # fmt: skip

    def revert(self, before: str) -> None:
        noted, given = self._noted(), json.loads(before)
        with netns.inside(self.place.netns):
            for knob, text in noted.was.items():
                if noted.is_ours(knob, found := _text(knob)):
                    _write(knob, given.get(knob, text))
                elif found != given.get(knob, text):
                    log.warning("net.ipv4.%s stays %s, which another program has set", BY_KNOB[knob].file, found)
        self._notes.clear()


def files(profile: Profile) -> dict[str, str]:
    """Return a profile's settings as they would be written: the file's name below net.ipv4 -> its text."""
    return {BY_KNOB[knob].file: _format_value(knob, value) for knob, value in profile.settings}


def _text(knob: str) -> str:
    return (FOLDER / BY_KNOB[knob].file).read_text().strip()


def _value(knob: str) -> Value:
    """Return the knob's present value."""
    return _as_value(knob, _text(knob))


def _as_value(knob: str, text: str) -> Value:
    """Return a file's text as the knob's value."""
    switch = BY_KNOB[knob]
    if not text.isdigit():
        return text
    return int(text) if switch.per_unit == 1 else int(text) / switch.per_unit


def _format_value(knob: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    assert isinstance(value, int | float), value
    return str(round(value * BY_KNOB[knob].per_unit))


def _write(knob: str, text: str) -> None:
    """Write a sysctl and read it back. Errors: `Refused` where the kernel refuses it or keeps another value."""
    path = FOLDER / BY_KNOB[knob].file
    if _text(knob) == text:
        return
    try:
        path.write_text(text)
    except OSError as error:
        raise Refused(f"{path} = {text}: {error.strerror}{_remedy(knob)}; all is as it was before") from error
    if (found := _text(knob)) != text:
        raise Refused(f"{path}: reads back as {found} although {text} was written; all is as it was before")


def _remedy(knob: str) -> str:
    if knob != "tcp_congestion_control":
        return ""
    with suppress(OSError):
        available = (FOLDER / "tcp_available_congestion_control").read_text().strip()
        more = "modprobe tcp_NAME, and in the first namespace tcp_allowed_congestion_control"
        return f" (available: {available}; more by {more})"
    return ""
