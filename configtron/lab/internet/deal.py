# SPDX-License-Identifier: MIT
"""Chance, by seed: named streams of it, and packs of cards dealt in exact shares."""

from __future__ import annotations

import random

from configtron.lab.internet.shares import Card, Pack


def stream(seed: int, purpose: str) -> random.Random:
    """Return a stream of its own for every purpose, so that one more draw here moves nothing there."""
    return random.Random(f"configtron.lab.internet/{seed}/{purpose}")


def deal(rng: random.Random, pack: Pack[Card], count: int) -> list[Card]:
    """`count` cards in the pack's shares (largest remainder), in random order."""
    total = sum(share for _, share in pack)
    exact = [count * share / total for _, share in pack]
    whole = [int(e) for e in exact]
    by_remainder = sorted(range(len(pack)), key=lambda i: (whole[i] - exact[i], i))
    for i in by_remainder[: count - sum(whole)]:
        whole[i] += 1
    cards = [card for (card, _), n in zip(pack, whole, strict=True) for _ in range(n)]
    rng.shuffle(cards)
    return cards
