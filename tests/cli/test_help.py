# SPDX-License-Identifier: MIT
"""`--help` as people read it: where to start, commands in sections, rare options last, no line past the terminal."""

from __future__ import annotations

import re
from types import ModuleType

import click
import pytest

from configtron.cli.advanced import LongCommand
from configtron.cli.manual import contexts
from configtron.cli.outermost import run
from configtron.cli.output import LEARNING, TUNING
from configtron.model.errors import USAGE
from configtron.report.rows import LABELS
from configtron.service.fleet import enrolment
from configtron.service.learning import rows as learning_rows
from configtron.service.lease import rows as lease_rows

# Columns of a narrow terminal, such as one half of a laptop's screen.
NARROW = 60
# Words of the model -> those of an operator; as verbs ("can act", "drivers that draw") they are plain.
MODEL_WORDS = {
    r"\b(?:an|each|the) acts?\b": "transaction",
    r"\barms?\b": "profile, group",
    r"\b(?:un)?drawn\b": "assigned, random",
    r"\bteach(?:es)?\b|\btaught\b": "counts",
    r"\bheld[ -]back\b|\bholdback\b": "control group",
    r"\bkeeper\b": "watchdog",
    r"\b(?:a|the|this) place\b": "host, namespace",
}
# What scripts type.
TYPED = re.compile(r"--holdback|held-back {2}classes|held-back,")
LONG = ("probe run", "learn run", "learn serve", "replay sessions", "replay study")


def pages() -> dict[str, click.Context]:
    """Return a context for every command, by its words after `configtron`."""
    return {" ".join(ctx.command_path.split()[1:]): ctx for ctx in contexts()}


def test_no_page_is_wider_than_a_narrow_terminal() -> None:
    wide = []
    for path, ctx in pages().items():
        ctx.terminal_width = NARROW
        wide += [f"{path}: {line}" for line in ctx.get_help().splitlines() if len(line) > NARROW]
    assert wide == []


@pytest.mark.parametrize("path", ["", "probe", "fingerprint", "tune", "learn", "replay"])
def test_the_first_line_of_a_verb_names_a_command_to_start_with(path: str) -> None:
    found = pages()
    first = (found[path].command.help or "").splitlines()[0]
    assert first.startswith("Start with `configtron ")
    named = first.split("`")[1].split()[1:]
    assert " ".join(named[: 1 if path == "" else 2]) in found or named[:2] == ["probe", "example.com"]


def test_each_command_of_learn_is_in_one_section() -> None:
    learn = pages()["learn"].command
    listed = [name for names in learn.sections.values() for name in names]  # type: ignore[attr-defined]
    assert sorted(listed) == sorted(learn.rows) and len(learn.sections) == 4  # type: ignore[attr-defined]
    text = pages()["learn"].get_help()
    headings = [f"\n{name}:\n" for name in learn.sections]  # type: ignore[attr-defined]
    assert [text.index(one) for one in headings] == sorted(text.index(one) for one in headings)


@pytest.mark.parametrize("path", LONG)
def test_rare_options_stand_last_and_each_option_once(path: str) -> None:
    ctx = pages()[path]
    assert isinstance(ctx.command, LongCommand)
    common, rare = ctx.get_help().split("\nAdvanced:\n")
    for param in ctx.command.params:
        if isinstance(param, click.Option) and not param.hidden:
            within, without = (rare, common) if param.name in ctx.command.advanced else (common, rare)
            head = f"\n  {', '.join(sorted(param.opts, key=len))}"
            assert head in f"\n{within}" and f"{head} " not in without, param.opts
    assert "--help" in common


def test_no_page_has_words_of_the_model() -> None:
    pages_text = {path: TYPED.sub("", ctx.get_help()) for path, ctx in pages().items()}
    found = [f"{path}: {one}" for path, text in pages_text.items() for one in MODEL_WORDS if re.search(one, text)]
    assert len(pages_text) > 60 and found == []


@pytest.mark.parametrize(("rows", "schema"), [(lease_rows, TUNING), (learning_rows, LEARNING), (enrolment, LEARNING)])
def test_no_head_of_a_table_is_a_word_of_the_model(rows: ModuleType, schema: str) -> None:
    tables = {name: columns for name, columns in vars(rows).items() if name.endswith("COLUMNS")}
    bad = {"act", "arm", "arms", "held", "keeper", "place", "drawn"}
    assert tables and LABELS.keys() >= {(schema, one) for columns in tables.values() for one in columns if one in bad}


def test_an_interface_that_is_no_text_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["fingerprint", "live"], ["probe", "192.0.2.1"], ["tune", "plan"]):
        assert run([*words, "--interface=\udcff x"]) == USAGE
        _, err = capsys.readouterr()
        assert err == "configtron: --interface: no interface is called '\\udcff x'; `ip link` lists them\n"
