# SPDX-License-Identifier: MIT
"""Columns of prefixes are what a dictionary is, and their JSON is the same bytes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from configtron.model.nouns import Profile
from configtron.model.prefix_columns import (
    PrefixColumns,
    columns_of,
    columns_of_json,
    json_of,
    number_names,
    prefixes_not_in,
    rows_of_lines,
    sorted_columns,
)
from configtron.model.records import canonical
from configtron.model.tuning import MANY, Changes, Rules, prefix_counts
from configtron.model.tuning_json import changes_of, changes_text, rules_of, rules_text


def drawn(seed: int, count: int = 300) -> dict[str, str]:
    random = Random(seed)
    four = (f"{random.randrange(256)}.{random.randrange(4)}.0.0/{random.randrange(16, 33)}" for _ in range(count))
    six = (f"2001:db8:{random.randrange(1 << 16):x}::/48" for _ in range(count // 10))
    return {prefix: f"p{random.randrange(40)}" for prefix in (*four, *six)}


def lines(prefixes: dict[str, str]) -> bytes:
    return "".join(f"{prefix} {name}\n" for prefix, name in prefixes.items()).encode()


@pytest.mark.parametrize("seed", range(4))
def test_they_are_a_mapping_like_the_dictionary(seed: int) -> None:
    wanted = drawn(seed)
    rows = rows_of_lines(lines(wanted))
    assert rows is not None
    found = sorted_columns(*rows)
    assert found == wanted and wanted == found and found == columns_of(wanted)
    assert list(found.items()) == sorted(wanted.items()) and list(found.values()) == [found[one] for one in found]
    assert prefix_counts(found) == prefix_counts(wanted) and len(found) == len(wanted)
    assert "192.0.2.0/24" not in found and found.get("0.0.0.0/33") is None and found != {**wanted, "::/0": "p0"}
    with pytest.raises(KeyError):
        found["zz"]


@pytest.mark.parametrize("seed", range(4))
def test_their_changes_are_those_of_dictionaries(seed: int) -> None:
    have, want = drawn(seed), drawn(seed) | drawn(seed + 100, 40)
    for gone in list(want)[::7]:
        del want[gone]
    before, after = columns_of(have), columns_of(want)
    news = before.changes_to(after)
    assert news == {prefix: name for prefix, name in want.items() if have.get(prefix) != name}
    assert prefixes_not_in(before, after) == sorted(have.keys() - want.keys())
    assert before.with_changes(news, prefixes_not_in(before, after)) == want
    assert before.present_in(after) == {prefix: have[prefix] for prefix in have if prefix in want}
    assert not before.changes_to(columns_of(have)) and columns_of({}).changes_to(after) == want
    assert before.with_profile_names({"p1": "other"}) == {
        p: "other" if name == "p1" else name for p, name in have.items()
    }


def test_the_later_of_two_lines_counts_and_names_are_numbered_once() -> None:
    rows = rows_of_lines(b"10.0.0.0/8 a\n9.0.0.0/8 b\n10.0.0.0/8 c")
    assert rows is not None and sorted_columns(*rows) == {"10.0.0.0/8": "c", "9.0.0.0/8": "b"}
    empty = sorted_columns(np.array([], "S1"), np.array([], np.int64), ())
    assert empty == {} and json_of(empty) == "" and list(empty) == [] and not empty.counts()
    names = np.array([f"n{turn % 700}".encode() for turn in range(5000)])
    numbers, found = number_names(names)
    assert [found[number].encode() for number in numbers] == names.tolist() and len(set(found)) == 700
    have = {"10.0.0.0/8": "p1", "11.0.0.0/8": "p2", "12.0.0.0/8": "p3"}
    renamed, wanted = columns_of(have).with_profile_names({"p2": "p1"}), columns_of({**have, "11.0.0.0/8": "p1"})
    assert prefix_counts(renamed) == {"p1": 2, "p3": 1} and renamed == wanted and wanted == renamed


@pytest.mark.parametrize("text", [b"", b"a", b"a  b\n", b"a b c\n", b" a\n", b"a \n", b"a b\n\nc d\n", "ä b\n".encode(),
                                  b"a " + 65 * b"x"])  # fmt: skip
def test_lines_of_another_form_are_left_to_the_caller(text: bytes) -> None:
    assert rows_of_lines(text) is None


def test_their_json_is_that_of_a_dictionary() -> None:
    wanted = drawn(5)
    text = json_of(columns_of(wanted))
    assert f"{{{text}}}" == canonical(dict(wanted)) and columns_of_json(text) == wanted
    for other in ("", text[:-1], text[1:], text.replace(":", " :", 1), text.replace(",", ", ", 1), f"{text},", "1,2",
                  text.replace('"', '\\"', 2)):  # fmt: skip
        assert columns_of_json(other) is None


def test_rules_and_changes_of_many_prefixes_are_the_same_text() -> None:
    prefixes = {f"10.{n >> 8}.{n & 255}.0/24": f"p{n % 3}" for n in range(MANY)}
    profiles = {f"p{n}": Profile(f"p{n}", (("initcwnd", 4 + n),)) for n in range(3)}
    for have, text, read in (
        (Rules(profiles, prefixes, "p0"), rules_text, rules_of),
        (Changes(profiles, prefixes, frozenset({"x"}), frozenset({"::/0"}), None), changes_text, changes_of),
    ):
        written = text(have)  # type: ignore[operator]
        assert f'"prefixes":{canonical(dict(prefixes))}' in written
        back = read(written)
        assert back == have and isinstance(back.prefixes, PrefixColumns) and text(back) == written  # type: ignore[operator]
