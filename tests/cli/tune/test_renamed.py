# SPDX-License-Identifier: MIT
"""Earlier spellings of commands: they work, say so in one line, and `--help` does not list them."""

from __future__ import annotations

import pytest

from configtron.cli.tune import RENAMED, ROWS
from configtron.model.errors import DONE, NOTHING
from tests.support.tune_command import TuneCommand, tune

__all__ = ["tune"]


@pytest.mark.parametrize(("was", "now"), RENAMED.items())
def test_the_earlier_spelling_works_and_says_so_in_one_line(tune: TuneCommand, was: str, now: str) -> None:
    assert was not in ROWS and now in ROWS
    words = {"unmute": ["0" * 16], "resume": ["--all"]}.get(was, [])
    code, out, err = tune(was, *words)
    first, _, rest = err.partition("\n")
    assert first == f"`configtron tune {was}` is now `configtron tune {now}`"
    assert tune(now, *words) == (code, out, rest) and code in (DONE, NOTHING)


def test_help_lists_new_spellings_alone(tune: TuneCommand) -> None:
    _, out, _ = tune("--help")
    listed = {line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.startswith("  ")}
    assert listed >= set(RENAMED.values()) and not listed & RENAMED.keys()


def test_options_of_the_earlier_spelling_are_read_from_the_environment(
    tune: TuneCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFIGTRON_TUNE_MUTE_FORMAT", "csv")
    assert tune("mute")[1] == "id,about\n"
