# SPDX-License-Identifier: MIT
"""What is worth another trial, and what is not."""

from __future__ import annotations

import pytest

from configtron.fingerprint.next_trials import TRIALS_MAX, next_trials
from configtron.model.nouns import Observation, Value


def reading(knob: str, value: Value | str, grade: str, trace: str, **details: Value) -> Observation:
    """A reading of the trace na/a.example/`trace`; grade N takes `value` for the reason."""
    given, reason = (None, str(value)) if grade == "N" else (value, None)
    return Observation(knob, given, reason, grade=grade, trace_id=f"na/a.example/{trace}", details=(*details.items(),))


ICW = [reading("icw", 10, "C", f"icw.{n}", mss=536, proof="edge", sack=True) for n in (1, 2)]
VERSION = [reading("http_version", "h2", "C", f"h2_settings.{n}") for n in (1, 2)]


@pytest.mark.parametrize(
    ("trials", "probes"),
    [
        ([], ()),
        (ICW, ()),
        (ICW[:1], ("icw",)),
        ([*ICW, reading("icw", 4, "C", "icw.3", mss=536)], ("icw",)),
        ([*ICW, *VERSION[:1]], ("h2_settings",)),
        ([*ICW[:1], *VERSION[:1]], ("h2_settings", "icw")),
        ([reading("icw", 5, "L", "icw.1", proof="response-ended")], ()),
        ([reading("icw", 5, "L", "icw.1", proof="after-timer")], ("icw",)),
        ([*ICW, reading("icw", 12, "L", "icw.3", proof="response-ended")], ("icw",)),
        ([reading("h2_settings", "not-h2", "N", "h2_settings.1")], ()),
        ([reading("icw", "no-synack", "N", "icw.1")], ("icw",)),
        ([reading("address", "192.0.2.1", "C", "dns.1")], ()),
        ([reading("rwin", 64240, "C", "rto.1")], ("rto",)),
        ([reading("rwin", 64240, "C", "rto.1"), reading("rwin", 29200, "C", "rwin.1")], ("rwin",)),
    ],
)
def test_what_is_asked_again(trials: list[Observation], probes: tuple[str, ...]) -> None:
    assert next_trials(trials) == probes


def test_who_never_agrees_is_let_be() -> None:
    readings = [reading("icw", n, "C", f"icw.{n}", mss=536) for n in range(1, TRIALS_MAX + 1)]
    assert next_trials(readings[:-1]) == ("icw",)
    assert next_trials(readings) == ()
