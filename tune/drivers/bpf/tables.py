# SPDX-License-Identifier: MIT
"""The maps of one place, read and written as rules.

Profiles have numbers (1 to 1023) that prefixes point to, and each number has two versions of its profile, of which one
is in force (clients.h says why). Everything here is read from the maps; nothing is remembered between two calls.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from configtron.linux.libbpf import Map, Object, call
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import MANY, Changes, prefix_counts
from configtron.tune.drivers.bpf import cells, layout, objects
from configtron.tune.listeners import listeners_of, listeners_text

# Those of the profiles' names.
NAMES = ("current", "profiles")
# From so many prefixes on the whole table is read back at once: a look-up each costs a system call each.
SINGLY = 4096
_NUMBER = struct.Struct("=I")
_MAPS = ("prefixes", "prefixes4", "lengths", "current", "profiles", "place", "listeners", "refusals", "writes")
_ZERO = _NUMBER.pack(0)
# BPF_MAP_TYPE_HASH in linux/bpf.h.
_HASH = 1


class BpfMaps:
    """Open for the length of a block. maps: those that are needed."""

    def __init__(self, folder: Path, maps: Iterable[str] = _MAPS) -> None:
        self.folder = folder
        self._maps: dict[str, Map] = {}
        for name in maps:
            self._maps[name] = Map.pinned(f"{folder}/{name}")

    def __enter__(self) -> BpfMaps:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._maps.values():
            opened.close()

    def freeze(self, prefixes: Mapping[str, str], listen: str) -> Mapping[str, str]:
        """New tables with room for these prefixes, whose profiles are there. From now on only write.bpf.c writes
        prefixes, lengths and the count, and nothing the listeners.

        Many prefixes of IPv4 are in their table from the beginning. Returns the prefixes that are not.
        """
        for listener in listeners_of(listen):
            self._maps["listeners"].put(layout.listener_bytes(listener), _NUMBER.pack(1))
        six = _ipv6_count(prefixes)
        counts: Mapping[int, int] = {}
        slots: Collection[int] = ()
        if len(prefixes) - six >= MANY:
            # Few prefixes need no numpy.
            from configtron.tune.drivers.bpf.many_prefixes import initial_table

            slots, counts, others = initial_table(prefixes, {name: number for number, name in self.names().items()})
        else:
            others = prefixes
        for family, used in enumerate((counts, {})):
            self._maps["lengths"].put(_NUMBER.pack(family), layout.lengths_bytes(used))
        for name in ("lengths", "writes", "listeners"):
            self._maps[name].freeze()
        self._renew(six)
        self._renew4(len(prefixes) - six, slots)
        return others

    # what is there

    def names(self) -> dict[int, str]:
        """Number -> name of each profile in force."""
        return {number: layout.profile_of(data).name for number, data in self._versions().items()}

    def profiles(self) -> dict[str, Profile]:
        found = map(layout.profile_of, self._versions().values())
        return {profile.name: profile for profile in found}

    def prefixes(self) -> Mapping[str, str]:
        names = self.names()
        with closing(self._table(6)) as table:
            found = layout.prefixes_of(*table.all(), names)
        with closing(self._table(4)) as table:
            if sum(self.lengths()[0].values()) >= MANY:
                from configtron.model.prefix_columns import columns_of
                from configtron.tune.drivers.bpf.many_prefixes import columns_of_slots, slots_of

                columns = columns_of_slots(slots_of(cells.content(table)), names)
                return columns.with_changes(columns_of(found)) if found else columns
            there = [(cells.client_of(slot), slot & 0xFFFF) for slot in cells.slots(table)]
        return found | {layout.prefix_of(key): names[number] for key, number in there if number in names}

    def some_prefixes(self, wanted: Iterable[str]) -> dict[str, str]:
        """Those of the wanted that are there."""
        names, found = self.names(), {}
        with closing(self._table(6)) as table, closing(self._table(4)) as table4:
            for prefix in wanted:
                key = layout.client(prefix)
                if layout.is_ipv4(key):
                    number = cells.number_of(table4, key)
                else:
                    number = layout.MATCH.unpack(table.get(key) or bytes(layout.MATCH.size))[0]
                if number in names:
                    found[prefix] = names[number]
        return found

    def lengths(self) -> list[dict[int, int]]:
        """By family: length of the table's keys, bits -> how many prefixes have it; longest first."""
        both = (self._maps["lengths"].get(_NUMBER.pack(family)) or b"" for family in range(layout.FAMILIES))
        return [layout.counted(lengths) for lengths in both]

    def room(self) -> tuple[int, int]:
        """Return how many prefixes of IPv4 and of IPv6 there is room for."""
        with closing(self._table(4)) as four, closing(self._table(6)) as six:
            return cells.room(four), six.most

    def default(self) -> str:
        return self.names().get(self._place()[1], "")

    def netns_cookie(self) -> int:
        """Whose connections are meant."""
        return self._place()[0]

    def listen(self) -> str:
        """Return which listeners they came to, as `Place` names them; "" all."""
        keys, _ = self._maps["listeners"].all()
        each = (keys[at : at + layout.LISTENER.size] for at in range(0, len(keys), layout.LISTENER.size))
        return listeners_text(layout.listener_of(key).text for key in each) if keys else ""

    def refusals(self) -> dict[str, tuple[int, int]]:
        """Knob -> (how often the kernel refused it, the last errno)."""
        _, values = self._maps["refusals"].all()
        counts = zip(layout.ROWS, layout.REFUSAL.iter_unpack(values), strict=False)
        return {row.knob: (count, -error) for row, (count, error) in counts if count}

    def mark(self) -> str:
        """Differs once anything here was changed: the prefixes by their tables' numbers in the kernel and how often
        they were written, the rest by what it is.
        """
        state = hashlib.blake2b(self._maps["writes"].get(_ZERO) or b"", digest_size=8)
        for tables in ("prefixes", "prefixes4"):
            state.update(self._maps[tables].get(_ZERO) or b"")
        for number, data in self._versions().items():
            state.update(_NUMBER.pack(number) + data)
        state.update(layout.PLACE.pack(*self._place()))
        return state.hexdigest()

    # changes

    def set_profiles(self, wanted: Mapping[str, Profile], ticks_per_s: int) -> None:
        numbers = {name: number for number, name in self.names().items()}
        free = (number for number in range(1, layout.MOST_PROFILES) if number not in numbers.values())
        for name, profile in wanted.items():
            if name not in numbers:
                numbers[name] = next(free, 0)
            if not numbers[name]:
                raise Refused(f"no room for profile {name}: the driver ebpf holds {layout.MOST_PROFILES - 1}")
            self._write(numbers[name], layout.profile_bytes(profile, ticks_per_s))

    def set_prefixes(self, wanted: Mapping[str, str], unwanted: Collection[str]) -> None:
        """Add or change the one, drop the other."""
        numbers = {name: number for number, name in self.names().items()}
        staged = b"".join(layout.change(layout.client(prefix), None) for prefix in unwanted)
        staged += _staged(wanted, numbers)
        self._make_room(wanted)
        while True:
            try:
                return self._carry(staged)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            # too many fall together: once more, with other neighbours
            with closing(self._table(4)) as table:
                self._place4(_made(2 * cells.room(table), list(cells.slots(table))))

    def drop_profiles(self, unwanted: Iterable[str]) -> None:
        numbers = {name: number for number, name in self.names().items()}
        for name in unwanted:
            if name in numbers:
                self._maps["current"].put(_NUMBER.pack(numbers[name]), _ZERO)

    def settle(self, netns_cookie: int, default: str | None) -> None:
        """The place's own word: whose connections, which default, which early questions have an answer."""
        versions = self._versions()
        number = self._place()[1]
        if default is not None:
            number = {layout.profile_of(data).name: number for number, data in versions.items()}.get(default, 0)
        asks = 0
        for data in versions.values():
            asks |= layout.asks_of(data)
        listeners = len(self._maps["listeners"].all()[0]) // layout.LISTENER.size
        self._maps["place"].put(_ZERO, layout.PLACE.pack(netns_cookie, number, asks, listeners))

    def check(self, changes: Changes, drawn: Collection[int]) -> None:
        """Errors: `BadInput` for the name of no profile, and for a profile that is dropped but in use.

        drawn   numbers of the profiles that a plan needs
        """
        there = set(self.names().values())
        after = (there | changes.profiles.keys()) - changes.dropped_profiles
        default = self.default() if changes.default is None else changes.default
        used = {*prefix_counts(changes.prefixes), default} - {""}
        if absent := sorted(used - after - changes.dropped_profiles):
            raise BadInput(f"no profile is called {absent[0]!r} (there is: {', '.join(sorted(after)) or 'none'})")
        if there & changes.dropped_profiles:
            prefixes = {**self.prefixes(), **changes.prefixes}
            used |= {prefixes[prefix] for prefix in prefixes.keys() - changes.dropped_prefixes}
        if kept := used & changes.dropped_profiles:
            raise BadInput(
                f"profile {min(kept)!r} is dropped, but it is some clients'; change their prefix or default first"
            )
        if planned := {name for number, name in self.names().items() if number in drawn} & changes.dropped_profiles:
            raise BadInput(
                f"profile {min(planned)!r} is dropped, but the plan in force or loaded draws it; load another"
            )

    def _make_room(self, wanted: Mapping[str, str]) -> None:
        """Larger tables in the place of those that are too small, with what those hold."""
        counts, rooms = [sum(used.values()) for used in self.lengths()], self.room()
        six_wanted = _ipv6_count(wanted)
        if counts[0] + len(wanted) - six_wanted <= rooms[0] and counts[1] + six_wanted <= rooms[1]:
            return
        keys = [layout.client(prefix) for prefix in wanted]
        four = [key for key in keys if layout.is_ipv4(key)]
        six = [key for key in keys if not layout.is_ipv4(key)]
        # those that are there already are counted twice; counted exactly only where that matters
        if counts[0] + len(four) > rooms[0]:
            with closing(self._table(4)) as table:
                slots = list(cells.slots(table))
            needed = {slot >> 16 for slot in slots} | set(map(cells.slot_key, four))
            if len(needed) > rooms[0]:
                self._renew4(len(needed), slots)
        if counts[1] + len(six) > rooms[1]:
            with closing(self._table(6)) as table:
                there, values = table.all()
            needed6 = {there[at : at + layout.CLIENT_BYTES] for at in range(0, len(there), layout.CLIENT_BYTES)}
            if len(needed6.union(six)) > rooms[1]:
                self._renew(len(needed6.union(six)), there, values)

    def _renew(self, prefixes: int, keys: bytes = b"", values: bytes = b"") -> None:
        """Another table of IPv6, filled and frozen before it takes the place of the one there is."""
        sizes = layout.CLIENT_BYTES, layout.MATCH.size, layout.room(prefixes)
        with closing(Map(call("bpf_map_create", _HASH, b"clients", *sizes, None))) as fresh:
            if keys:
                fresh.put_all(keys, values)
            fresh.freeze()
            self._maps["prefixes"].put(_ZERO, _NUMBER.pack(fresh.descriptor))

    def _renew4(self, prefixes: int, slots: Collection[int] = ()) -> None:
        """The same of IPv4."""
        self._place4(_made(layout.room(prefixes), slots))

    def _place4(self, table: Map) -> None:
        with closing(table):
            table.freeze()
            self._maps["prefixes4"].put(_ZERO, _NUMBER.pack(table.descriptor))

    def _table(self, family: int) -> Map:
        """Return the prefixes of IPv4 or IPv6 that are in force."""
        place = self._maps["prefixes4" if family == 4 else "prefixes"]
        return Map(call("bpf_map_get_fd_by_id", _NUMBER.unpack(place.get(_ZERO) or _ZERO)[0]))

    def _carry(self, staged: bytes) -> None:
        """By the program that alone may write the prefixes."""
        if not staged:
            return
        count = len(staged) // layout.CHANGE_BYTES
        with Object(objects.compiled("write"), self.folder) as program:
            program.resize("staged", count)
            program.load()
            with closing(program.map("staged")) as stage:
                stage.fill(staged)
            with closing(program.map(".bss.outcome")) as outcome:
                tried = error = 0
                while tried < count and not error:
                    with suppress(InterruptedError):  # some signal came; Python's handlers have run by now
                        program.run("configtron_write", count - tried)
                    tried, error = layout.OUTCOME.unpack_from(outcome.get(_ZERO) or b"")
        if error:
            raise OSError(-error, f"prefix {tried} of {count}: {os.strerror(-error)}")

    def _write(self, number: int, data: bytes) -> None:
        key = _NUMBER.pack(number)
        now = _NUMBER.unpack(self._maps["current"].get(key) or _ZERO)[0]
        version = 2 * number + (now == 2 * number)
        self._maps["profiles"].put(_NUMBER.pack(version), data)
        self._maps["current"].put(key, _NUMBER.pack(version))

    def _versions(self) -> dict[int, bytes]:
        """Number -> bytes of its profile in force."""
        _, current = self._maps["current"].all()
        used = {number: version for number, (version,) in enumerate(_NUMBER.iter_unpack(current)) if version}
        return {number: self._maps["profiles"].get(_NUMBER.pack(version)) or b"" for number, version in used.items()}

    def _place(self) -> tuple[int, int, int, int]:
        words = layout.PLACE.unpack(self._maps["place"].get(_ZERO) or bytes(layout.PLACE.size))
        cookie, default, asks, listeners = words
        return cookie, default, asks, listeners


def _made(prefixes: int, slots: Collection[int]) -> Map:
    """Return a table of IPv4 with room for so many, and these in it."""
    if len(slots) < MANY:
        return cells.made(prefixes, slots)
    # Few prefixes need no numpy.
    from configtron.tune.drivers.bpf.many_prefixes import filled_cells

    return cells.made(prefixes, slots, filled_cells)


def _ipv6_count(prefixes: Mapping[str, str]) -> int:
    """Return how many of the prefixes are IPv6's."""
    if len(prefixes) < MANY:
        return sum(":" in prefix for prefix in prefixes)
    # Few prefixes need no numpy.
    from configtron.tune.drivers.bpf.many_prefixes import ipv6_count

    return ipv6_count(prefixes)


def _staged(wanted: Mapping[str, str], numbers: Mapping[str, int]) -> bytes:
    """Return what puts prefixes into the tables, as it is staged."""
    if len(wanted) < MANY:
        return b"".join(layout.change(layout.client(prefix), numbers[name]) for prefix, name in wanted.items())
    from configtron.tune.drivers.bpf.many_prefixes import staged_changes

    return staged_changes(wanted, numbers)
