# SPDX-License-Identifier: MIT
"""Prefixes' networks from rows: medians since the last change, how long a change went unseen, bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.traffic import Traffic
from configtron.model.fleet import OutcomeRow


def row(at: int, rtt_ms: float | None, prefix: str = "192.0.2.0/24", **more: object) -> OutcomeRow:
    given: dict[str, object] = {"bandwidth_kbps": 8000.0, "loss": 0.0, "more": {"queue_ms": rtt_ms or 0.0}} | more
    return OutcomeRow("web0", "b", at, at * 10**9, "news", prefix, f"u{at % 7}", 800.0, rtt_ms=rtt_ms, **given)  # type: ignore[arg-type]


def test_a_change_is_dated_and_forgets_what_was_before() -> None:
    seen, rng = Traffic(), np.random.default_rng(1)
    for at in range(60):
        level = 30.0 if at < 40 else 150.0
        context = seen.take(row(at, level * float(np.exp(0.03 * rng.standard_normal()))))
    known = seen.prefixes_["192.0.2.0/24"]
    assert context.rtt_ms == pytest.approx(150.0, rel=0.05) and context.queue_ms == pytest.approx(150.0, rel=0.1)
    assert known.change is not None and abs(known.change.since_ns - 40 * 10**9) <= 10**9
    assert 1 <= known.change.outcomes <= 6
    assert (known.change.seen_ns - known.change.since_ns) / 1e9 == known.change.outcomes - 1


def test_a_row_without_numbers_is_learned_by_its_prefix() -> None:
    seen = Traffic()
    for at in range(5):
        seen.take(row(at, 40.0))
    context = seen.take(row(9, None))
    assert context.rtt_ms == 40.0 and context.site == "news"
    assert Traffic().take(row(1, None)).rtt_ms is None


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    seen = Traffic(most=3)
    for at, last in enumerate((0, 1, 2, 0, 3)):
        seen.take(row(at, 40.0, f"10.0.{last}.0/24"))
    assert set(seen.prefixes_) == {"10.0.2.0/24", "10.0.0.0/24", "10.0.3.0/24"}


def test_a_saved_one_goes_on_alike() -> None:
    one, other, rng = Traffic(), Traffic(), np.random.default_rng(2)
    for at in range(30):
        one.take(row(at, float(rng.uniform(20, 60)), f"10.0.{at % 3}.0/24"))
    other.restore(one.save())
    for at in range(30, 60):
        level = float(rng.uniform(200, 300))
        assert one.take(row(at, level, f"10.0.{at % 3}.0/24")) == other.take(row(at, level, f"10.0.{at % 3}.0/24"))
    assert one.save() == other.save()
    one.forget(["10.0.1.0/24"])
    assert "10.0.1.0/24" not in one.prefixes_
