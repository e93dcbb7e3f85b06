"""The maps of one place, read and written as rules.

Profiles have numbers (1 to 1023) that prefixes point to, and each number has two versions of its profile, of which one
is in force (clients.h says why). Everything here is read from the maps; nothing is remembered between two calls.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from configtron.errors import BadInput, Refused
from configtron.nouns import Profile
from configtron.tune.drivers.bpf import layout, objects
from configtron.tune.drivers.bpf.libbpf import Map, Object, call
from configtron.tuning import Changes

# From so many prefixes on the whole table is read back at once: a look-up each costs a system call each.
MANY = 4096
_NUMBER = struct.Struct("=I")
_MAPS = ("prefixes", "lengths", "current", "profiles", "place", "refusals", "writes")
_ZERO = _NUMBER.pack(0)
# BPF_MAP_TYPE_HASH in linux/bpf.h.
_HASH = 1


class Tables:
    """Open for the length of a block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._maps: dict[str, Map] = {}
        for name in _MAPS:
            self._maps[name] = Map.pinned(folder / name)

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._maps.values():
            opened.close()

    def freeze(self, prefixes: int) -> None:
        """An empty table with room for so many. From now on only write.bpf.c writes prefixes, lengths and the count."""
        for family in range(layout.FAMILIES):
            self._maps["lengths"].put(_NUMBER.pack(family), layout.no_lengths())
        for name in ("lengths", "writes"):
            self._maps[name].freeze()
        self._renew(prefixes, b"", b"")

    # what is there

    def names(self) -> dict[int, str]:
        """Number -> name of each profile in force."""
        return {number: layout.profile_of(data).name for number, data in self._versions().items()}

    def profiles(self) -> dict[str, Profile]:
        found = map(layout.profile_of, self._versions().values())
        return {profile.name: profile for profile in found}

    def prefixes(self) -> dict[str, str]:
        with closing(self._table()) as table:
            keys, values = table.all()
        return layout.prefixes_of(keys, values, self.names())

    def some_prefixes(self, wanted: Iterable[str]) -> dict[str, str]:
        """Those of the wanted that are there."""
        names, found = self.names(), {}
        with closing(self._table()) as table:
            for prefix in wanted:
                value = table.get(layout.client(prefix))
                number = layout.MATCH.unpack(value)[0] if value else 0
                if number in names:
                    found[prefix] = names[number]
        return found

    def lengths(self) -> list[dict[int, int]]:
        """By family: length of the table's keys, bits -> how many prefixes have it; longest first."""
        both = (self._maps["lengths"].get(_NUMBER.pack(family)) or b"" for family in range(layout.FAMILIES))
        return [layout.counted(lengths) for lengths in both]

    def room(self) -> int:
        """How many prefixes the table can hold."""
        with closing(self._table()) as table:
            return table.most

    def default(self) -> str:
        return self.names().get(self._place()[1], "")

    def netns_cookie(self) -> int:
        """Whose connections are meant."""
        return self._place()[0]

    def refusals(self) -> dict[str, tuple[int, int]]:
        """Knob -> (how often the kernel refused it, the last errno)."""
        _, values = self._maps["refusals"].all()
        told = zip(layout.ROWS, layout.REFUSAL.iter_unpack(values), strict=False)
        return {row.knob: (count, -error) for row, (count, error) in told if count}

    def mark(self) -> str:
        """Differs once anything here was changed: the prefixes by their table's number in the kernel and their count of
        writes, the rest by what it is.
        """
        state = hashlib.blake2b(self._maps["writes"].get(_ZERO) or b"", digest_size=8)
        state.update(self._maps["prefixes"].get(_ZERO) or b"")
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
        staged = [layout.change(layout.client(prefix), None) for prefix in unwanted]
        staged += [layout.change(layout.client(prefix), numbers[name]) for prefix, name in wanted.items()]
        self._make_room(wanted)
        self._carry(staged)

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
        self._maps["place"].put(_ZERO, layout.PLACE.pack(netns_cookie, number, asks))

    def check(self, changes: Changes) -> None:
        """Errors: `BadInput` for the name of no profile, and for a profile that is dropped but in use."""
        there = set(self.names().values())
        after = (there | changes.profiles.keys()) - changes.dropped_profiles
        default = self.default() if changes.default is None else changes.default
        used = {*changes.prefixes.values(), default} - {""}
        if absent := sorted(used - after - changes.dropped_profiles):
            raise BadInput(f"no profile is called {absent[0]!r} (there is: {', '.join(sorted(after)) or 'none'})")
        if there & changes.dropped_profiles:
            prefixes = {**self.prefixes(), **changes.prefixes}
            used |= {prefixes[prefix] for prefix in prefixes.keys() - changes.dropped_prefixes}
        if kept := used & changes.dropped_profiles:
            raise BadInput(
                f"profile {min(kept)!r} is dropped, but it is some clients'; change their prefix or default first"
            )

    def _make_room(self, wanted: Collection[str]) -> None:
        """A larger table in the place of one that is too small, with what that one holds."""
        with closing(self._table()) as table:
            # those that are there already are counted twice; counted exactly only where that matters
            if sum(sum(used.values()) for used in self.lengths()) + len(wanted) <= table.most:
                return
            keys, values = table.all()
            size = layout.CLIENT_BYTES
            there = {keys[at : at + size] for at in range(0, len(keys), size)}
            there.update(map(layout.client, wanted))
            if len(there) > table.most:
                self._renew(len(there), keys, values)

    def _renew(self, prefixes: int, keys: bytes, values: bytes) -> None:
        """Another table, filled and frozen before it takes the place of the one there is."""
        if prefixes > layout.MOST_PREFIXES:
            raise Refused(f"no room for {prefixes} prefixes: the driver ebpf holds {layout.MOST_PREFIXES}")
        sizes = layout.CLIENT_BYTES, layout.MATCH.size, layout.room(prefixes)
        with closing(Map(call("bpf_map_create", _HASH, b"clients", *sizes, None))) as fresh:
            if keys:
                fresh.put_all(keys, values)
            fresh.freeze()
            self._maps["prefixes"].put(_ZERO, _NUMBER.pack(fresh.descriptor))

    def _table(self) -> Map:
        """The prefixes that are in force."""
        number = _NUMBER.unpack(self._maps["prefixes"].get(_ZERO) or _ZERO)[0]
        return Map(call("bpf_map_get_fd_by_id", number))

    def _carry(self, staged: list[bytes]) -> None:
        """By the program that alone may write the prefixes."""
        if not staged:
            return
        with Object(objects.compiled("write"), self._folder) as program:
            program.resize("staged", len(staged))
            program.load()
            with closing(program.map("staged")) as stage:
                stage.fill(b"".join(staged))
            with closing(program.map(".bss")) as outcome:
                tried = error = 0
                while tried < len(staged) and not error:
                    with suppress(InterruptedError):  # some signal came; Python's handlers have run by now
                        program.run("configtron_write", len(staged) - tried)
                    tried, error = layout.OUTCOME.unpack_from(outcome.get(_ZERO) or b"")
        if error:
            raise OSError(-error, f"prefix {tried} of {len(staged)}: {os.strerror(-error)}")

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

    def _place(self) -> tuple[int, int, int]:
        cookie, default, asks = layout.PLACE.unpack(self._maps["place"].get(_ZERO) or bytes(layout.PLACE.size))
        return cookie, default, asks
