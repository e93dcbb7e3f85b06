# SPDX-License-Identifier: MIT
"""Tables on terminals of any width."""

from __future__ import annotations

import io

from rich.console import Console

from configtron.report.fitting import PLAIN_WIDTH
from configtron.report.tables import _table
from tests.support.rules import offenders

NAMES = ("server", "rtt\n[ms]", "knob", "order", "example")
ROW = ("198.51.100.23:44321", "20.0", "h2_max_concurrent_streams", "0.0 % of 60", "twitter.com: na h2, as http/1.1")


def printed(width: int) -> list[str]:
    table = _table(*NAMES, spare=("order", "rtt\n[ms]"))
    table.caption = "a caption"
    table.add_row(*ROW)
    out = io.StringIO()
    Console(file=out, width=width, markup=False).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    return lines


def has_whole_words(width: int) -> None:
    words = {word for line in printed(width) for word in line.split()}
    assert {"198.51.100.23:44321", "h2_max_concurrent_streams", "twitter.com:", "http/1.1"} <= words


def test_no_word_is_torn() -> None:
    assert offenders(has_whole_words, range(70, PLAIN_WIDTH + 10)) == {}


def test_what_matters_least_goes_first_and_is_named() -> None:
    wide, middle, narrow = (" ".join(" ".join(printed(width)).split()) for width in (PLAIN_WIDTH, 80, 68))
    assert "order" in wide and "without" not in wide
    assert "for want of width without: order; | less -S" in middle and " 20.0 " in middle
    assert "without: order, rtt [ms]; | less -S" in narrow and " 20.0 " not in narrow


def test_too_narrow_for_anything_is_folded_all_the_same() -> None:
    assert "".join("".join(printed(30)).split()).count("without:order,rtt[ms]") == 1
