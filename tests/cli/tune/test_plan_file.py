# SPDX-License-Identifier: MIT
"""A plan that was saved is followed to the letter, or refused with the line that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configtron.model.errors import DONE, REFUSED, USAGE
from tests.support.memory_stack import Stack
from tests.support.tune_command import TuneCommand

Lines = list[dict[str, Any]]


def edit(line: int, **fields: Any) -> Callable[[Lines], Lines]:
    """A line with other fields; ... takes one away."""

    def edited(lines: Lines) -> Lines:
        changed = {**lines[line], **fields}
        lines[line] = {name: value for name, value in changed.items() if value is not ...}
        return lines

    return edited


WRONG: list[tuple[str, Callable[[Lines], Lines], str]] = [
    ("no driver", edit(0, driver=...), "line 1: names no driver"),
    ("a number as driver", edit(0, driver=5), "line 1: names no driver"),
    ("a list as place", edit(0, place=[]), "line 1: the place is not cgroup, interface, listen, netns"),
    ("no listener", edit(0, place={"listen": "https"}), "line 1: --listen 'https'"),
    ("listeners out of order", edit(0, place={"listen": "8443,443"}), "line 1: --listen '8443,443'"),
    ("a number in place", edit(0, place={"netns": 5}), "line 1: the place is not"),
    ("another word in place", edit(0, place={"host": "x"}), "line 1: the place is not"),
    ("words for a number", edit(0, held="many"), "line 1: held is no number"),
    ("less than none", edit(0, held=-5), "line 1: held is no number"),
    ("infinity", edit(0, held=float("inf")), "line 1: held is no number"),
    ("no id", edit(1, id=...), "line 2: an advice without id"),
    ("no value", edit(2, to=...), "line 3: an advice without to"),
    ("another value", edit(1, to=25), "line 2: advice"), ("an object as value", edit(1, to={"x": 1}), "was edited"),
    ("no scope", edit(1, scope=None), "was edited"), ("another state", edit(1, state="now"), "was edited"),
    ("twice the first line", lambda lines: [lines[0], *lines], "line 2: an advice without scope"),
    ("an empty line", lambda lines: [lines[0], {}], "line 2: an advice without"),
    ("no first line", lambda lines: lines[1:], "not a plan; make one"),
]  # fmt: skip


@pytest.fixture
def plan(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> Path:
    path = tmp_path / "plan.jsonl"
    assert wanted("plan", "--driver", "memory", "-f", "jsonl", "-o", str(path))[0] == DONE
    return path


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_errors_are_reported_with_their_line(
    wanted: TuneCommand, stack: Stack, plan: Path, change: Callable[[Lines], Lines], words: str
) -> None:
    lines = change([json.loads(line) for line in plan.read_text().splitlines()])
    plan.write_text("\n".join(map(json.dumps, lines)))
    code, out, message = wanted("apply", str(plan))
    assert (code, out, message.count("\n")) == (USAGE, "", 1) and words in message
    assert "Error:" not in message.replace("configtron: ", "", 1) and not stack.rules.prefixes


@pytest.mark.parametrize("text", ["", "{", "x", "[]", "[" * 100_000, "null", "nan"])
def test_text_that_is_no_plan_is_reported(wanted: TuneCommand, stack: Stack, plan: Path, text: str) -> None:
    plan.write_text(text)
    code, _, message = wanted("apply", str(plan))
    assert code == USAGE and message.startswith(f"configtron: {plan}: ") and message.count("\n") == 1
    assert "line 1: not " in message or text in ("", "[]")


def test_what_is_not_due_or_not_there_is_left_and_the_same_again_is_out_of_date(
    wanted: TuneCommand, stack: Stack, plan: Path
) -> None:
    lines = [json.loads(line) for line in plan.read_text().splitlines()]
    kept = [{**line, "state": "muted"} if line.get("scope") == "10.1.0.0/16" else line for line in lines]
    plan.write_text("\n".join(json.dumps(line) for line in kept if line.get("scope") != "default"))
    assert wanted("apply", str(plan))[0] == DONE
    assert list(stack.rules.prefixes) == ["2001:db8::/32"] and not stack.rules.default
    code, _, message = wanted("apply", str(plan))
    assert code == REFUSED and "out of date" in message


def test_a_table_marks_what_the_guard_refuses(wanted: TuneCommand, stack: Stack) -> None:
    """A profile's rows, and its clients'; JSON Lines and CSV keep the state of the advice."""
    wanted("profile", "set", "large", "initcwnd=60", "tcp_congestion_control=reno")
    wanted("prefix", "set", "10.2.0.0/16", "large")
    code, table, message = wanted("plan", "--driver", "memory")
    states = {(words[1], words[2]): words[-1] for words in map(str.split, table.splitlines()[1:])}
    assert code == REFUSED and "profile large is unfair" in message and "; profiles refused: large; " in message
    refused = {place for place, state in states.items() if state == "refused"}
    control = "tcp_congestion_control"
    assert refused == {("profile:large", "initcwnd"), ("profile:large", control), ("10.2.0.0/16", "profile")}
    assert {states[place] for place in states.keys() - refused} == {"due"}
    for form in ("jsonl", "csv"):
        assert "refused" not in wanted("plan", "--driver", "memory", "-f", form)[1]
