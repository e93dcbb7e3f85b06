# SPDX-License-Identifier: MIT
"""A version signed as a change of the one before is the version signed whole, whatever changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from configtron.fleet.map_document import document, opened, signed, signed_after, whole_map
from configtron.fleet.map_table import MapTable, apply_change, difference, table_of
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile

KEY = SigningKey(b"s" * 32)
NAMES = ("far", "near", "wide")
IDS = {name: number for number, name in enumerate(NAMES)}
PREFIXES = st.sampled_from([f"10.0.{at}.0/24" for at in range(6)] + [f"2001:db8:{at}::/48" for at in range(1, 4)])
MAPS = st.dictionaries(PREFIXES, st.sampled_from(NAMES), max_size=9)


def of(prefixes: Mapping[str, str], version: int) -> FleetMap:
    mixes = {name: (("off", 65_536),) for name in NAMES}
    return FleetMap(1, version, {"off": Profile("off")}, mixes, prefixes, b"k" * 16, 2 * 10**18)


@given(MAPS, MAPS, st.booleans())
def test_a_change_leads_to_the_table_that_is_signed_whole(
    before: dict[str, str], other: dict[str, str], same_prefixes: bool
) -> None:
    # most changes of a fleet's map give prefixes another class and no more
    after = {prefix: other.get(prefix, name) for prefix, name in before.items()} if same_prefixes else other
    one = signed(of(before, 1), "m", 1, KEY)
    two = signed_after(of(after, 2), "m", 2, KEY, one, before)
    assert two.head.digest == two.table.digest == table_of(after, {n: i for i, n in enumerate(two.head.classes)}).digest
    assert two.change is not None and len(two.change) == len(before.items() ^ after.items()) - sum(
        prefix in before and before[prefix] != name for prefix, name in after.items()
    )
    held = opened(document(one), KEY.verify_key, None).table
    found = opened(document(two, held), KEY.verify_key, held)
    assert found.change is not None and whole_map(found).prefixes == after
    assert whole_map(opened(document(two), KEY.verify_key, None)).prefixes == after
    # the table before is what it was: agents that lag behind are sent differences to it
    assert held.digest == one.head.digest == replace(held, same_keys=b"").digest


@given(MAPS, MAPS)
def test_tables_that_differ_have_other_digests(one: dict[str, str], two: dict[str, str]) -> None:
    a, b = table_of(one, IDS), table_of(two, IDS)
    assert (a.digest == b.digest) == (one == two)
    assert (a.keys_digest == b.keys_digest) == (one.keys() == two.keys())
    assert apply_change(a, difference(a, b)).digest == b.digest
    assert apply_change(MapTable(), difference(MapTable(), a)).digest == a.digest
