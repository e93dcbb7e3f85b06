# SPDX-License-Identifier: MIT
"""What a run is asked about, before it is compared with the truth."""

from __future__ import annotations

import pytest

from configtron.model.nouns import Observation
from configtron.service.campaign.scoring import NOT_PROBED, TOO_FEW, is_asked, shows_window


@pytest.mark.parametrize("profile", ["quick", "standard", "paper"])
def test_who_answers_is_asked_by_one_profile(profile: str) -> None:
    for reason in (TOO_FEW, NOT_PROBED):
        silent = Observation("load_balancing", reason=reason)
        assert is_asked(silent, "full") and not is_asked(silent, profile)
        assert is_asked(Observation("icw", reason=reason), profile)


def test_results_are_judged_for_every_caller() -> None:
    assert is_asked(Observation("load_balancing", "one", grade="B"), "standard")
    assert is_asked(Observation("load_balancing", reason="no-data"), "standard")


def test_a_window_in_clear_makes_asking_over_tls_needless() -> None:
    assert shows_window(Observation("icw", 10, grade="C"))
    assert not shows_window(Observation("icw", 10, grade="L"))
    assert not shows_window(Observation("icw", reason="closed")) and not shows_window(None)
