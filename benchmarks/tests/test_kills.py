# SPDX-License-Identifier: MIT
"""A campaign that is killed and resumed measures every target once and leaves nothing behind."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import kills


@pytest.mark.root
def test_three_kills() -> None:
    assert kills.main(3) == 0


def test_what_is_wrong_with_calls() -> None:
    hosts = [f"v0/198.19.0.{n}" for n in range(kills.TARGETS)]
    wanted = Counter([f"{host}/icw.1" for host in hosts] + [f"{hosts[0]}/icw_tls.1"])
    assert kills.wrong_calls(wanted, wanted) == []
    assert kills.wrong_calls(Counter(f"{host}/icw.1" for host in hosts), wanted) == []
    assert kills.wrong_calls(Counter(f"{host}/icw.1" for host in hosts[1:]), wanted) == [f"{hosts[0]}/icw.1"]
    assert kills.wrong_calls(wanted + Counter([f"{hosts[1]}/icw.1"]), wanted) == [f"{hosts[1]}/icw.1"]
    assert kills.wrong_calls(wanted + Counter([f"{hosts[1]}/icw.3"]), wanted) == [f"{hosts[1]}/icw.3"]
    assert kills.wrong_calls(wanted + Counter(["database: broken, 0 dangling"]), wanted)
