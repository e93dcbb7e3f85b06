# SPDX-License-Identifier: MIT
"""Many prefixes and their profiles as two arrays: prefixes as texts of one width, profiles as numbers. A `Mapping`.

Question   How are a million prefixes read, compared and written without an object for each?
Method     One array has the prefixes, sorted as bytes, which is the order of the database and the journal. A second
           array has the number of each prefix's profile. Lines and JSON are parsed, and JSON is written, by numpy
           operations on all bytes at once. Two tables are compared array by array.
Reads as   `Mapping[str, str]`, prefix -> profile; single items are strings.
Fails as   None from `rows_of_lines` and `columns_of_json` for text of another form; their callers then parse it
           entry by entry.
Differs    from a dictionary: keys are sorted, and it is immutable.
"""

from __future__ import annotations

import json
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Texts: TypeAlias = NDArray[np.bytes_]
Numbers: TypeAlias = NDArray[np.uint32]
Places: TypeAlias = NDArray[np.int64]

NEWLINE, BLANK, QUOTE, COLON, COMMA = b'\n ":,'
# Text with a longer word is not read as columns; the longest IPv6 prefix has 43 characters.
LONGEST = 64
# So many names are found by a comparison of all rows for each. The rest is found by sorting, which costs as much as
# twenty comparisons.
SEARCHED_NAMES = 16


class PrefixColumns(Mapping[str, str]):
    """Sorted prefixes, each once, and their profiles.

    texts    (n,) the prefixes, sorted as bytes
    numbers  (n,) the profile of each, as an index into `names`
    names    names of profiles; some may have no prefix
    """

    def __init__(self, texts: Texts, numbers: Numbers, names: tuple[str, ...]) -> None:
        self.texts, self.numbers, self.names = texts, numbers, names

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __getitem__(self, prefix: str) -> str:
        place = int(np.searchsorted(self.texts, prefix.encode()))
        if place == len(self.texts) or self.texts[place] != prefix.encode():
            raise KeyError(prefix)
        return self.names[int(self.numbers[place])]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixColumns):
            return isinstance(other, Mapping) and dict(self.items()) == dict(other)
        return np.array_equal(self.texts, other.texts) and bool((self.numbers_in(other.names) == other.numbers).all())

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _keys(self) -> list[str]:
        return strings(self.texts)

    def items(self) -> _Pairs:
        """Return each prefix with its profile."""
        return _Pairs(self)

    def values(self) -> _Profiles:
        """Return the profiles in the order of the prefixes."""
        return _Profiles(self)

    def numbers_in(self, names: tuple[str, ...]) -> Places:
        """Return (n,) the profile of each prefix as an index into other names; -1 for a name that is not there."""
        places = {name: number for number, name in enumerate(names)}
        return np.array([places.get(name, -1) for name in self.names] or [-1], np.int64)[self.numbers]

    def counts(self) -> dict[str, int]:
        """Return how many prefixes each profile has; profiles without a prefix are left out."""
        found = np.bincount(self.numbers, minlength=len(self.names)).tolist()
        return {name: count for name, count in zip(self.names, found, strict=True) if count}

    def with_profile_names(self, names: Mapping[str, str]) -> PrefixColumns:
        """Return the prefixes with renamed profiles. names: old name -> new name; others stay."""
        after = [names.get(name, name) for name in self.names]
        different = tuple(dict.fromkeys(after))
        places = np.array([different.index(name) for name in after] or [0], np.uint32)
        return PrefixColumns(self.texts, places[self.numbers], different)

    def select(self, which: NDArray[np.bool_]) -> PrefixColumns:
        """Return the rows where a mask (n,) is true."""
        if which.all():
            return self
        return PrefixColumns(self.texts[which], self.numbers[which], self.names)

    def rows_of(self, texts: Texts) -> Places:
        """Return the row of each of these prefixes, in their order; -1 for those that are not here."""
        if np.array_equal(self.texts, texts):
            return np.arange(len(texts))
        if not len(self.texts):
            return np.full(len(texts), -1)
        places = np.minimum(np.searchsorted(self.texts, texts), len(self.texts) - 1)
        return np.where(self.texts[places] == texts, places, -1)

    def changes_to(self, want: PrefixColumns) -> PrefixColumns:
        """Return the wanted prefixes that are new or have another profile here."""
        places, as_wanted = self.rows_of(want.texts), self.numbers_in(want.names)
        same = places >= 0
        same[same] = as_wanted[places[same]] == want.numbers[same]
        return want.select(~same)

    def present_in(self, others: PrefixColumns) -> PrefixColumns:
        """Return the prefixes that another table has too, with the profiles that they have here."""
        return self.select(others.rows_of(self.texts) >= 0)

    def with_changes(self, changed: PrefixColumns, dropped: Collection[str] = ()) -> PrefixColumns:
        """Return the prefixes with some added or given another profile, and then the dropped ones removed."""
        if not len(self) and not dropped:
            return changed
        names = tuple(dict.fromkeys((*self.names, *changed.names)))
        texts = np.concatenate([self.texts, changed.texts])
        found = sorted_columns(texts, np.concatenate([self.numbers_in(names), changed.numbers_in(names)]), names)
        return found.select(~np.isin(found.texts, np.array([*map(str.encode, dropped)]))) if dropped else found


class _Pairs(ItemsView[str, str]):
    """`items()`, without a binary search for each key."""

    _mapping: PrefixColumns

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self._mapping, self._mapping.values(), strict=True)


class _Profiles(ValuesView[str]):
    """`values()`, without a binary search for each key."""

    _mapping: PrefixColumns

    def __iter__(self) -> Iterator[str]:
        return map(self._mapping.names.__getitem__, self._mapping.numbers.tolist())


def columns_of(prefixes: Mapping[str, str]) -> PrefixColumns:
    """Return a mapping (prefix -> profile) as columns; columns are returned as they are."""
    if isinstance(prefixes, PrefixColumns):
        return prefixes
    names = tuple(dict.fromkeys(prefixes.values()))
    places = {name: number for number, name in enumerate(names)}
    numbers = np.fromiter(map(places.__getitem__, prefixes.values()), np.uint32, len(prefixes))
    return sorted_columns(
        np.array([prefix.encode() for prefix in prefixes] or [b""], np.bytes_)[: len(prefixes)], numbers, names
    )


def sorted_columns(texts: Texts, numbers: Numbers | Places, names: Iterable[str]) -> PrefixColumns:
    """Return columns from rows in any order; of two rows with the same prefix the later counts."""
    profiles = numbers.astype(np.uint32, copy=False)
    if not bool((texts[1:] > texts[:-1]).all()):
        order = np.argsort(texts, kind="stable")
        texts, profiles = texts[order], profiles[order]
        last = np.append(texts[1:] != texts[:-1], True)[: len(texts)]
        texts, profiles = texts[last], profiles[last]
    return PrefixColumns(texts, profiles, tuple(names))


def strings(texts: Texts) -> list[str]:
    """Return a column as strings."""
    return b"\n".join(texts.tolist()).decode().split("\n") if len(texts) else []


def cut_words(text: Bytes, begins: Places, ends: Places) -> Texts | None:
    """Cut a text into words; return (n,), or None if one is empty or longer than `LONGEST`.

    begins, ends   (n,) where each word begins and ends in the text
    """
    lengths = ends - begins
    if not len(lengths):
        return np.array([], np.bytes_)
    width = int(lengths.max())
    if width > LONGEST or lengths.min() < 1:
        return None
    padded = np.concatenate([text, np.zeros(width, np.uint8)])
    # a view: the `width` bytes that begin at each position of the text
    every = np.ndarray((len(text) + 1,), f"V{width}", padded.data, strides=(1,))
    letters = every[begins].view(np.uint8).reshape(-1, width)
    letters *= np.arange(width, dtype=np.uint8) < lengths.astype(np.uint8)[:, None]
    return letters.view(f"S{width}").ravel()


def number_names(names: Texts) -> tuple[Numbers, tuple[str, ...]]:
    """Return the index of each of n names among the distinct names, and the distinct names."""
    numbers, found = np.zeros(len(names), np.uint32), list[bytes]()
    left = np.arange(len(names))
    while len(left) and len(found) < SEARCHED_NAMES:
        other = names[left] != names[left[0]]
        numbers[left[~other]] = len(found)
        found.append(bytes(names[left[0]]))
        left = left[other]
    if len(left):
        more, numbers[left] = np.unique(names[left], return_inverse=True)
        numbers[left] += len(found)
        found += more.tolist()
    return numbers, tuple(name.decode() for name in found)


def rows_of_lines(data: bytes) -> tuple[Texts, Numbers, tuple[str, ...]] | None:
    """Parse lines `PREFIX NAME` in their order: (n,) prefixes, (n,) the index of the name of each, and the names.

    None for any other form. Prefixes and names are not checked.
    """
    text = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
    ends = np.flatnonzero(text == NEWLINE)
    blanks = np.flatnonzero(text == BLANK)
    if len(blanks) != len(ends) or text.max() > 127 or not len(ends):
        return None
    begins = np.append(0, ends[:-1] + 1)
    prefixes, names = cut_words(text, begins, blanks), cut_words(text, blanks + 1, ends)
    return None if prefixes is None or names is None else (prefixes, *number_names(names))


def columns_of_lists(prefixes: bytes, names: bytes, count: int) -> PrefixColumns | None:
    """Parse two lists with a blank between two words, of so many words each; None for any other form.

    The first has the prefixes, the second has the profile of each. Neither is checked.
    """
    columns = [words_of_list(prefixes), words_of_list(names)]
    texts, profiles = columns
    if texts is None or profiles is None or not len(texts) == len(profiles) == count:
        return None
    return sorted_columns(texts, *number_names(profiles))


def words_of_list(data: bytes) -> Texts | None:
    """Cut a list with a blank between two words; None if one is empty or longer than `LONGEST`."""
    text = np.frombuffer(data + b" ", np.uint8)
    ends = np.flatnonzero(text == BLANK)
    return cut_words(text, np.append(0, ends[:-1] + 1), ends)


def json_of(prefixes: PrefixColumns) -> str:
    """Return the prefixes as members of a JSON object, without its braces: the bytes of `json.dumps`."""
    if not len(prefixes):
        return ""
    tails = np.array([f'":{json.dumps(name, ensure_ascii=False)},'.encode() for name in prefixes.names])
    width, tail = prefixes.texts.itemsize, tails.itemsize
    rows = np.empty((len(prefixes), 1 + width + tail), np.uint8)
    rows[:, 0] = QUOTE
    rows[:, 1 : 1 + width] = prefixes.texts.view(np.uint8).reshape(-1, width)
    rows[:, 1 + width :] = tails[prefixes.numbers].view(np.uint8).reshape(-1, tail)
    every = rows.ravel()
    text: bytes = every[every != 0].tobytes()
    return text[:-1].decode()


def columns_of_json(members: str) -> PrefixColumns | None:
    """Parse the text of `json_of`; return None for any other form."""
    data = members.encode()
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == QUOTE)
    if len(quotes) % 4 or not len(quotes) or b"\\" in data:
        return None
    begins, ends, names_begin, names_end = quotes.reshape(-1, 4).T
    colons = (names_begin == ends + 2).all() and (text[ends + 1] == COLON).all()
    commas = (begins[1:] == names_end[:-1] + 2).all() and (text[names_end[:-1] + 1] == COMMA).all()
    if not colons or not commas or begins[0] or names_end[-1] != len(text) - 1:
        return None
    prefixes, names = cut_words(text, begins + 1, ends), cut_words(text, names_begin + 1, names_end)
    return None if prefixes is None or names is None else sorted_columns(prefixes, *number_names(names))


def prefixes_not_in(have: PrefixColumns, want: PrefixColumns) -> list[str]:
    """Return the prefixes of one table that the other does not have, sorted."""
    return strings(have.texts[want.rows_of(have.texts) < 0])
