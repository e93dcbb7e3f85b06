# SPDX-License-Identifier: MIT
"""Drawn traces: the shipped ones are what the generator draws, and have the shape that their rows ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.testbed.cellular import LINKS, main, moments, write
from configtron.lab.testbed.opportunities import TRACES, parse, read
from configtron.model.errors import DONE, USAGE

# All of them in the repository.
MOST_BYTES = 300_000


def test_the_shipped_traces_are_the_drawn_ones(tmp_path: Path) -> None:
    drawn = write(tmp_path)
    shipped = {path.name: path.read_bytes() for path in TRACES.iterdir() if path.suffix != ".md"}
    assert {path.name: path.read_bytes() for path in drawn} == shipped
    assert sum(map(len, shipped.values())) < MOST_BYTES


@pytest.mark.parametrize("name", LINKS)
def test_a_trace_has_its_rows_mean_and_length(name: str) -> None:
    link = LINKS[name]
    for direction, kbit in (("down", link.down_kbit), ("up", link.up_kbit)):
        found = read(f"{name}.{direction}")
        assert found.period_us == link.seconds * 1_000_000
        # its rate wanders for longer than it lasts, and it is silent now and then
        assert 0.5 * kbit < found.rate_kbit < 1.5 * kbit


def test_without_spread_and_silence_it_is_a_poisson_process() -> None:
    even = replace(LINKS["desk"], spread=1e-9, silences_per_minute=1e-9, seconds=60)
    found = parse("\n".join(map(str, moments(even, "down"))), "even")
    assert found.rate_kbit == pytest.approx(even.down_kbit, rel=0.03)


def test_silences_are_of_both_directions() -> None:
    link = replace(LINKS["desk"], silences_per_minute=20, silence_s=2, seconds=60)

    def quiet(direction: str) -> set[int]:
        return set(range(link.seconds * 10)) - {at // 100 for at in moments(link, direction)}

    down, up = quiet("down"), quiet("up")
    assert len(down & up) > 50 and len(down & up) > 0.9 * len(down)


def test_the_seed_decides() -> None:
    other = replace(LINKS["walk"], seed=99)
    assert moments(LINKS["walk"], "up") == moments(LINKS["walk"], "up") != moments(other, "up")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main([str(tmp_path)]), main([]), main([str(tmp_path / "absent")])) == (DONE, USAGE, USAGE)
    reported = capsys.readouterr()
    assert "commute.down" in reported.out and "usage:" in reported.err
