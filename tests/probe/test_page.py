# SPDX-License-Identifier: MIT
"""Where redirects lead, and where they do not."""

from __future__ import annotations

import pytest

from configtron.model.nouns import Observation, Target
from configtron.probe.page import PageStep, joined, redirected

HOME = Target("a.example", "192.0.2.1")


def answered(status: int, location: str, cookies: str = "") -> tuple[Observation, ...]:
    details = (("cookies", cookies), ("location", location), ("status", status))
    return (Observation("http_clear", "http/1.1", None, "", "", "C", details=details),)


@pytest.mark.parametrize(
    ("location", "step"),
    [
        ("/b", PageStep("a.example", "/b", "", False)),
        ("http://B.example/x?y", PageStep("b.example", "/x?y", "", False)),
        ("https://a.example/", PageStep("a.example", "/", "", True)),
        ("//b.example", PageStep("b.example", "/", "", False)),
        ("http://a.example/", None),
        ("http://a.example:81/", None),
        ("https://a.example:80/", None),
        ("http://127.1/", None),
        ("/ä", None),
    ],
)
def test_steps(location: str, step: PageStep | None) -> None:
    assert redirected(HOME, "", answered(302, location)) == step
    assert redirected(HOME, "", answered(200, location)) is None


def test_the_same_place_with_a_new_cookie_is_a_step_and_with_the_same_is_none() -> None:
    assert redirected(HOME, "", answered(302, "/", "k=1")) == PageStep("a.example", "/", "k=1", False)
    assert redirected(HOME, "k=1", answered(302, "/", "k=1")) is None


def test_cookies_stay_with_their_host() -> None:
    assert redirected(HOME, "k=1", answered(302, "http://b.example/", "j=2")) == PageStep("b.example", "/", "", False)


def test_the_newer_cookie_counts() -> None:
    assert joined("a=1; b=2", "a=3") == "a=3; b=2"
    assert joined("", "") == ""
