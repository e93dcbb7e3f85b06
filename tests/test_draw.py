# SPDX-License-Identifier: MIT
"""The draw of an arm: a published vector, the C header's numbers, the weights, and what is refused."""

from __future__ import annotations

import struct
import subprocess
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.draw import (
    ARMS,
    BANDS,
    HELD,
    HELD_EPOCH,
    PARTS,
    Key,
    Mix,
    Plan,
    draw,
    draws,
    is_held,
    propensity,
    unit_of,
)
from configtron.model.errors import BadInput
from configtron.model.siphash import hashes
from tests.support import ROOT

HEADER = ROOT / "kmod" / "draw.h"
# The key of the published vectors (Aumasson and Bernstein, appendix A): 00 01 02 ... 0f.
PUBLISHED = Key.of(bytes(range(16)))
# Keys are hashed one at a time, units of one key all at once.
PLANS, UNITS_EACH = 1_000, 8
# Upper 5 % of chi-square by degrees of freedom: Abramowitz and Stegun, table 26.8.
FIVE_PERCENT = {7: 14.067}
EIGHT = Mix(tuple("abcdefgh"), (20000, 15000, 10000, 8000, 6000, 4000, 2000, 536))

# A case: key, epoch, share held back, four bands and a round trip, the address's four words, eight last slices.
CASE = struct.Struct("=2QQI4II4I8H")
ANSWER = struct.Struct("=QQIIII")
PROGRAM = """
#include <stdio.h>
#include "%s"
struct __attribute__((packed)) asked {
	__u64 key[2], epoch; __u32 held, band_us[4], rtt_us, address[4]; __u16 upto[8];
};
int main(void)
{
	struct asked a;
	while (fread(&a, sizeof(a), 1, stdin) == 1) {
		struct plan p = { .key = { a.key[0], a.key[1] }, .epoch = a.epoch, .held = a.held };
		struct mix m;
		struct { __u64 unit, hash; __u32 held, arm, band, bytes; } answer;
		for (int i = 0; i < DRAW_BANDS; i++)
			p.band_us[i] = a.band_us[i];
		for (int i = 0; i < DRAW_ARMS; i++)
			m.upto[i] = a.upto[i];
		answer.unit = draw_unit6(a.address[0], a.address[1], a.address[2], a.address[3]);
		answer.hash = draw_hash(p.key, p.epoch, answer.unit);
		answer.held = draw_is_held(&p, answer.unit);
		answer.arm = draw_arm(&m, draw_slice(&p, p.epoch, answer.unit));
		answer.band = draw_band(&p, a.rtt_us);
		answer.bytes = sizeof(p) << 16 | sizeof(m);
		fwrite(&answer, sizeof(answer), 1, stdout);
	}
	return 0;
}
"""


def header_answers(folder: Path, cases: bytes) -> list[tuple[int, ...]]:
    """Return what the header computes for packed cases, compiled by gcc."""
    source = folder / "answer.c"
    source.write_text(PROGRAM % HEADER)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-sign-compare"]
    subprocess.run(["gcc", *flags, "-o", str(folder / "answer"), str(source)], check=True)
    done = subprocess.run([folder / "answer"], input=cases, stdout=subprocess.PIPE, check=True)
    return list(ANSWER.iter_unpack(done.stdout))


def random_mix(rng: np.random.Generator) -> Mix:
    arms = int(rng.integers(1, ARMS + 1))
    cuts = np.sort(rng.choice(np.arange(1, PARTS), arms - 1, replace=False))
    weights = np.diff(np.concatenate(([0], cuts, [PARTS])))
    return Mix(tuple(f"p{i}" for i in range(arms)), tuple(map(int, weights)))


def random_address(rng: np.random.Generator) -> IPv4Address | IPv6Address:
    kind, low, high = int(rng.integers(3)), int(rng.integers(1 << 62)), int(rng.integers(1 << 62))
    if kind == 2:
        return IPv6Address(high << 66 | low)
    return IPv4Address(low & 0xFFFF_FFFF) if kind else IPv6Address(0xFFFF << 32 | low & 0xFFFF_FFFF)


def words_of(address: IPv4Address | IPv6Address) -> tuple[int, ...]:
    """Return the four words of an address as IPv6 writes it, in host order."""
    six = int(address) if address.version == 6 else 0xFFFF << 32 | int(address)
    return struct.unpack("!4I", six.to_bytes(16, "big"))


def siphash(key: Key, first: int, second: int) -> int:
    """Return SipHash-2-4 of two words of 64 bits."""
    return int(hashes((key.first, key.second), first, np.array([second], dtype=np.uint64))[0])


def test_the_published_vector_and_a_key_that_is_never_printed() -> None:
    assert siphash(PUBLISHED, *struct.unpack("<2Q", bytes(range(16)))) == 0x3F2ACC7F57C29BDB
    assert repr(Plan(Key(0xABCDEF, 0x123456), 1, 0)).count("Key()") == 1


@pytest.mark.slow
def test_the_header_and_python_draw_the_same(tmp_path: Path) -> None:
    """A key, an epoch, bands and a holdback of its own for each plan; each unit alone, and all of a plan at once."""
    rng = np.random.default_rng(19)
    cases, plans = [], []
    for number in range(PLANS):
        words = [int(word) for word in rng.integers(0, 1 << 64, 3, dtype=np.uint64)]
        mix, bands = random_mix(rng), sorted(map(int, rng.choice(1 << 20, BANDS, replace=False) + 1))
        held, rtt_us = int(rng.integers(PARTS + 1)) * (number % 2), int(rng.integers(1 << 20)) * (number % 5 > 0)
        addresses = [random_address(rng) for _ in range(UNITS_EACH)]
        cases += [CASE.pack(*words, held, *bands, rtt_us, *words_of(each), *mix.upto) for each in addresses]
        plan = Plan(Key(words[0], words[1]), words[2], 0, held, bands=tuple((end, "c") for end in bands))
        plans.append((plan, mix, plan.band(rtt_us), [unit_of(each) for each in addresses]))
    answers = iter(header_answers(tmp_path, b"".join(cases)))
    for plan, mix, band, units in plans:
        arms, _ = draws(plan, mix, np.array(units, dtype=np.uint64))
        for own, arm_at_once in zip(units, arms.tolist(), strict=True):
            unit, hashed, held, arm, found_band, sizes = next(answers)
            drawn = draw(plan, mix, own)
            assert sizes == 64 << 16 | 32
            assert (unit, hashed, found_band) == (own, siphash(plan.key, plan.epoch, own), band)
            assert (drawn.held, drawn.arm) == (bool(held), None if held else arm)
            assert arm_at_once == (HELD if held else arm) and drawn.propensity == propensity(plan, mix, drawn.arm)


def test_arms_come_as_often_as_they_weigh() -> None:
    """10^6 draws: 125 000 neighbouring addresses in each of eight epochs; at most two beyond the 5 % limit."""
    units = np.uint64(0xFFFF << 32) | np.arange(10 << 24, (10 << 24) + 125_000, dtype=np.uint64)
    expected = np.array(EIGHT.weights) / PARTS * len(units)
    found = []
    for epoch in range(100, 108):
        arms, _ = draws(Plan(PUBLISHED, epoch, 0), EIGHT, units)
        found.append(float((((np.bincount(arms, minlength=ARMS) - expected) ** 2) / expected).sum()))
    print("chi-square, 7 degrees of freedom:", *(f"{each:.1f}" for each in found), f"5 % limit {FIVE_PERCENT[7]}")
    # three or more of eight beyond it: 0.6 % of all keys
    assert sum(each > FIVE_PERCENT[7] for each in found) <= 2


UNITS = np.arange(100_000, dtype=np.uint64)


def test_the_holdback_is_the_same_in_all_epochs() -> None:
    held = is_held(Plan(PUBLISHED, 1, 0, 6554), UNITS)
    assert abs(float(held.mean()) - 0.1) < 0.003
    for epoch in (2, 3):
        arms, propensities = draws(Plan(PUBLISHED, epoch, 0, 6554), EIGHT, UNITS)
        assert ((arms == HELD) == held).all()
        assert np.allclose(propensities[held], 6554 / PARTS)
    everyone = Plan(PUBLISHED, 1, 0, PARTS)
    assert is_held(everyone, UNITS).all() and not is_held(Plan(PUBLISHED, 1, 0, 0), UNITS).any()


def test_an_epoch_draws_anew() -> None:
    two = Mix.of([("a", 1.0), ("b", 1.0)])
    first, second = (draws(Plan(PUBLISHED, epoch, 0), two, UNITS)[0] for epoch in (1, 2))
    assert abs(float((first == second).mean()) - 0.5) < 0.01


def test_units() -> None:
    assert unit_of("192.0.2.1") == unit_of("::ffff:192.0.2.1") == unit_of(IPv4Address("192.0.2.1")) == 0xFFFFC0000201
    assert unit_of("2001:db8:1:2::5") == unit_of("2001:db8:1:2:ffff::") == 0x20010DB800010002
    with pytest.raises(BadInput, match="no IP address"):
        unit_of("192.0.2")


@given(st.lists(st.floats(0.0, 1e9), min_size=1, max_size=ARMS))
def test_shares_are_rounded_by_largest_remainders(shares: list[float]) -> None:
    given = [(str(i), share) for i, share in enumerate(shares)]
    if sum(shares) <= 0.0:
        with pytest.raises(BadInput):
            Mix.of(given)
        return
    mix = Mix.of(given)
    assert sum(mix.weights) == PARTS
    got = dict(zip(mix.profiles, mix.weights, strict=True))
    for i, share in enumerate(shares):
        assert abs(got.get(str(i), 0) - share / sum(shares) * PARTS) <= 1.0
    assert mix.upto[len(mix.weights) - 1 :] == (PARTS - 1,) * (ARMS - len(mix.weights) + 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Mix((), ()), lambda: Mix(("a",) * 9, (1,) * 9), lambda: Mix(("a", "b"), (PARTS, 0)),
        lambda: Mix(("a", "b"), (1, 1)), lambda: Mix.of([("a", -1.0), ("b", 2.0)]),
        lambda: Mix.of([("a", float("nan"))]), lambda: Key.of(b"short"), lambda: Plan(PUBLISHED, HELD_EPOCH, 0),
        lambda: Plan(PUBLISHED, 1, 0, PARTS + 1), lambda: Plan(PUBLISHED, 1, 0, bands=((20, "a"), (10, "b"))),
        lambda: Plan(PUBLISHED, 1, 0, bands=tuple((i + 1, "a") for i in range(BANDS + 1))),
    ],
)  # fmt: skip
def test_bad_input(wrong: object) -> None:
    with pytest.raises(BadInput):
        wrong()  # type: ignore[operator]
