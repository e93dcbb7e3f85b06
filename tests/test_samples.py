# SPDX-License-Identifier: MIT
"""A shard's file: written, read back, judged; half of one is refused."""

from __future__ import annotations

import pytest

from configtron.model import samples
from configtron.model.errors import BadInput
from configtron.model.repeats import FEW, StoppingRule
from configtron.model.samples import Sample, Stack, digest, end_line, filled_of, judged

SAMPLES = [Sample(0, "news", n, "", 100.0 + n, 40.5, 60.25, 1000) for n in range(6)]
FAILED = Sample(1, "news", 0, "timeout")
STACKS = [Stack(0, (("initcwnd", "10"),)), Stack(1, (("initcwnd", "30"),)), Stack(2, (), "refused", "no vegas here")]
LINES = [
    samples.shard_line("hotcloud:1/50/0", {"delay": "25ms"}), *map(samples.stack_line, STACKS),
    *map(samples.sample_line, [*SAMPLES, FAILED]), end_line(7, 12.5),
]  # fmt: skip


def test_a_shard_comes_back_as_it_was() -> None:
    filled = filled_of(LINES, "x")
    assert (filled.condition, filled.network, filled.virtual_s) == ("hotcloud:1/50/0", (("delay", "25ms"),), 12.5)
    assert filled.stacks == tuple(STACKS) and filled.samples == (*SAMPLES, FAILED)


def test_every_cell_is_judged_the_unmeasured_too() -> None:
    cells = judged(filled_of(LINES, "x"), 3, ["news", "shop"], StoppingRule())
    found = [(cell.configuration, cell.site, cell.verdict.median_ms, cell.verdict.flag) for cell in cells]
    assert found == [
        (0, "news", 102.5, ""), (0, "shop", None, FEW), (1, "news", None, "timeout"), (1, "shop", None, FEW),
        (2, "news", None, "refused"), (2, "shop", None, "refused"),
    ]  # fmt: skip
    assert cells[0].samples == tuple(SAMPLES)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINES[:-1], "half a shard"), ([*LINES[:-2], LINES[-1]], "half a shard"), (LINES[1:], "half a shard"),
        ([*LINES[:2], LINES[2][:20]], "no shard's file"), (["{}"], "no shard's file"), (["[1]"], "no shard's file"),
        ([*LINES[:4], '{"kind":"load","walked":3}'], "no shard's file"),
    ],
)  # fmt: skip
def test_half_a_shard_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        filled_of(lines, "shard 3")
    assert "shard 3" in str(caught.value)


def test_digests_distinguish_where_a_text_ends() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
