# SPDX-License-Identifier: MIT
"""On a terminal of 80 columns every command's table keeps to it; without colours no escape is written at all."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from tests.support import ROOT
from tests.support.learn_command import Typed
from tests.support.memory_stack import Stack, stack
from tests.support.tune_command import TuneCommand, tune, wanted

__all__ = ["stack", "tune", "wanted"]

WIDTH = 80
RECORDING = str(ROOT / "fixtures" / "icw" / "10" / "trace.pcapng.gz")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "xterm-256color")
    return made


def printed(screen: Screen, *words: str) -> str:
    """What a command prints there."""
    screen.truncate(0)
    screen.seek(0)
    with redirect_stdout(screen):
        assert run(["-q", *words]) in (0, 1, 3, 4), words
    return screen.getvalue()


def shown(screen: Screen, *words: str) -> str:
    """What a command prints there; every line fits, and with --no-color it is plain text."""
    text = printed(screen, "--no-color", *words)
    assert "\x1b" not in text
    assert text.strip() and max(map(len, text.splitlines())) <= WIDTH, words
    return text


@pytest.mark.parametrize(
    "words",
    [("doctor",), ("profile", "list"), ("profile", "show", "web"), ("prefix", "list"), ("prefix", "show", "10.1.2.3"),
     ("plan", "--driver", "memory"), ("apply", "--driver", "memory", "--keep"), ("status",),
     ("rollback",)],
    ids=lambda words: "-".join(words[:2]),
)  # fmt: skip
def test_tune(wanted: TuneCommand, stack: Stack, screen: Screen, words: tuple[str, ...]) -> None:
    if words[0] in ("status", "rollback"):
        assert run(["-q", "tune", "apply", "--driver", "memory", "--keep"]) == 0
    shown(screen, "tune", *words)


@pytest.mark.slow
def test_learn(filled: Typed, screen: Screen, tmp_path: Path) -> None:
    db = ("--db", str(tmp_path / "l.db"))
    for words in (
        ("policies",), ("run", "--policy", "mab_nc", "--classes", "5"), ("status",), ("knobs", "--policy", "mab_nc"),
        ("evaluate", "--policy", "mab_nc", "--policy", "default"), ("explain", "rtt_ms=30"),
    ):  # fmt: skip
        shown(screen, *db, "learn", *words)


def test_replay(typed: Typed, screen: Screen, tmp_path: Path) -> None:
    db = ("--db", str(tmp_path / "l.db"))
    shown(screen, *db, "replay", "study", "--list")
    small = ("--tensor", "small.npz", "--sessions", "2500", "--classes", "5", "--policy", "default")
    shown(screen, *db, "replay", "sessions", *small)
    shown(screen, *db, "replay", "packets", RECORDING)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_without_colours_there_is_no_escape(screen: Screen, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bold and italic are none either. The same output on a terminal that wants them has escapes."""
    words = ("fingerprint", "pcap", RECORDING)
    assert "\x1b" in printed(screen, *words)
    if how == "environment":
        monkeypatch.setenv("NO_COLOR", "1")
    text = printed(screen, *(("--no-color",) if how == "option" else ()), *words)
    assert "10.60.1.2" in text and "\x1b" not in text
