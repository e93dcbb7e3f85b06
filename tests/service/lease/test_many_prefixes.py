# SPDX-License-Identifier: MIT
"""A file of many prefixes is read as the same lines are one by one."""

from __future__ import annotations

import pytest

from configtron.model.errors import BadInput
from configtron.model.tuning import MANY
from configtron.service.lease.wanted_rules import read_prefixes

ODD = ("web#spare", "web,human", "web,learner", "web,", "web\x0c", "web\x1c", "web\0", "web")
FORMS = (*(f"192.0.2.0/24 {name}\n" for name in ODD), "192.0.2.0/24\0 web\n", "192.0.2.1/24 web\n", "::1 web\n")


def read(lines: list[str]) -> dict[str, str] | str:
    try:
        return dict(read_prefixes(lines, "f"))
    except BadInput as error:
        return str(error)


@pytest.mark.parametrize("line", FORMS)
def test_a_line_means_the_same_among_many(line: str) -> None:
    others = [f"10.{n >> 8}.{n & 255}.0/24 web\n" for n in range(MANY)]
    alone, among = read([line]), read([line, *others])
    if isinstance(alone, str):
        assert among == alone
    else:
        assert isinstance(among, dict) and among == alone | read(others)  # type: ignore[operator]
