# SPDX-License-Identifier: MIT
"""IPv4 prefixes by columns are those that `canonical` takes as they stand."""

from __future__ import annotations

from ipaddress import IPv4Network
from random import Random

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.tune.ipv4_columns import format_ipv4, parse_ipv4
from configtron.tune.rules import canonical

ODD = (
    "0.0.0.0/0 1.2.3.4/32 255.255.255.255/32 1.2.3.4 010.0.0.0/8 00.0.0.0/8 10.0.0.0/33 10.0.0.0/08 10.0.0.1/24 "
    "256.0.0.0/8 999.0.0.0/8 ::/0 ::ffff:1.2.3.0/120 1.2.3./24 1..2.3/4 .1.2.3/1 1.2.3.4/ 1/2.3.4.0 1.2.3.0.0/24 "
    "1234.0.0.0/8 1.2.3.0/024 1.2.3.0/2x default a.b.c.d/8 1.2.3.0/240 1.2.3.0/24/ -1.2.3.0/24"
).split()


def is_ipv4(text: str) -> bool:
    try:
        return canonical(text) == text and ":" not in text
    except BadInput:
        return False


@pytest.mark.parametrize("seed", range(3))
def test_they_are_taken_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    letters = ["".join(random.choices("0123456789./", k=random.randrange(1, 19))) for _ in range(2000)]
    near = [str(IPv4Network((random.getrandbits(32), random.randrange(33)), strict=False)) for _ in range(2000)]
    broken = [one.replace(random.choice(one), random.choice("01239./"), 1) for one in near]
    texts = [*ODD, *letters, *near, *broken]
    found = parse_ipv4(np.array([text.encode() for text in texts]))
    right = [text for text in texts if is_ipv4(text)]
    assert [text for text, taken in zip(texts, found.rows, strict=True) if taken] == right
    networks = [IPv4Network(text) for text in right]
    assert found.addresses.tolist() == [int(one.network_address) for one in networks]
    assert found.lengths.tolist() == [one.prefixlen for one in networks]
    assert [text.decode() for text in format_ipv4(found.addresses, found.lengths).tolist()] == right


def test_none_is_none() -> None:
    found = parse_ipv4(np.array([b"::/0"]))
    assert not found.rows.any() and len(format_ipv4(found.addresses, found.lengths)) == 0
