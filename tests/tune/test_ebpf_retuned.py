# SPDX-License-Identifier: MIT
"""A class change re-tunes open connections that the kernel drew for; its agent's end leaves none with a profile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.tune.aside import aside

pytestmark = pytest.mark.root

NEAR, FAR, DEFAULT = ["cubic", 5000, 0], ["cubic", 0, 3], ["reno", 0, 0]


def of(net: int, seen: dict[str, list[Any]]) -> list[list[Any]]:
    return [settings for address, settings in seen.items() if address.startswith(f"127.{net}.")]


def test_a_class_change_re_tunes_the_prefixs_connections_and_its_way_back_puts_them_back(tmp_path: Path) -> None:
    found = aside("retuned.py", str(tmp_path), "released")
    assert of(1, found["begun"]) == [NEAR] * 8 and DEFAULT in of(2, found["begun"]), "one client is held back"
    assert of(1, found["changed"]) == of(1, found["again"]) == [FAR] * 8
    assert re.fullmatch("8 of 8 open connections re-tuned", found["text"])
    assert found["back"] == found["begun"] and found["back text"].endswith("8 put back")
    for other in (2, 3):
        assert of(other, found["changed"]) == of(other, found["begun"])
    assert found["moved"] == [True], "its page loads do not teach"
    assert set(map(tuple, found["after"].values())) == {tuple(DEFAULT)} and found["nothing left"]


def test_a_kill_ends_the_lease_and_brings_open_connections_back(tmp_path: Path) -> None:
    found = aside("retuned.py", str(tmp_path), "killed")
    assert of(1, found["begun"]) == [NEAR] * 8 and of(1, found["changed"]) == [FAR] * 8
    assert set(map(tuple, found["after"].values())) == {tuple(DEFAULT)} and found["nothing left"]
