# SPDX-License-Identifier: MIT
"""Every option of every command x every type of TOML: what is no value of the option is one line and exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from configtron.cli.configfile import load
from configtron.cli.manual import contexts
from configtron.cli.options import options_of
from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.model.errors import USAGE, BadInput

Spoken = pytest.CaptureFixture[str]
# A value of each kind in TOML, and what kinds of option may take it.
VALUES = {
    "1": ("int", "float"),
    "-1": (),  # no option counts below zero but plain integers
    "10000000000000000000000000000000": (),
    "1.5": ("float",),
    "inf": (),
    "nan": (),
    "true": ("bool",),
    '"x"': ("text",),
    '"\\u0000"': (),
    "1979-05-27": (),
    "07:32:00": (),
    "1979-05-27T07:32:00Z": (),
    "[1]": (),
    "[[1]]": (),
    "[true]": (),
    '[["x"]]': (),
    "[{}]": (),
    "{}": (),
    "{ a = 1 }": (),
}


def kind(option: click.Option) -> str:
    if isinstance(option.type, click.types.BoolParamType):
        return "bool"
    if isinstance(option.type, click.types.FloatParamType):
        return "float"
    if isinstance(option.type, click.types.IntParamType):
        return "int"
    return "text"


def options() -> Iterator[tuple[str, str, click.Option]]:
    """(table, key, option) of all that can be set in the file."""
    for ctx in contexts():
        for name, option in options_of(ctx.command).items():
            if not option.is_eager:
                yield ".".join(ctx.command_path.split()[1:]), name, option


def in_range(option: click.Option, value: float) -> bool:
    try:
        option.type.convert(value, option, click.Context(root))
    except click.BadParameter:
        return False
    return True


def may(option: click.Option, text: str) -> bool:
    """Whether that text is a value of the option: stated by hand, not by the code under test."""
    what = kind(option)
    if isinstance(option.type, click.Choice):
        return False
    if text == "[1]" and option.multiple:
        return what == "int" and in_range(option, 1)
    if text.startswith("-") or text.startswith("1000000"):
        return what in ("int", "float") and in_range(option, int(text))
    return what in VALUES[text] and (what not in ("int", "float") or in_range(option, float(text)))


def words(table: str, key: str, text: str) -> str:
    return f"[{table}]\n{key} = {text}\n" if table else f"{key} = {text}\n"


@pytest.mark.slow
def test_no_wrong_type_is_taken_and_none_is_a_traceback(tmp_path: Path) -> None:
    file, wrong, tried = tmp_path / "c.toml", [], 0
    for table, key, option in options():
        for text in VALUES:
            file.write_text(words(table, key, text))
            tried += 1
            try:
                load(file, root, click.Context(root))
                taken = True
            except BadInput as error:
                line = str(error)
                taken = False
                assert line.startswith(f"{file}: ") and key in line and f"[{table}]" in (line if table else "[]"), line
                assert "is expected here" in line and "\n" not in line, line
            if taken != may(option, text):
                wrong.append((table, key, text, taken))
    assert not wrong and tried > 4000


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("[probe.run]\nrate = [1]", "[probe.run] rate: a number (x>=0) is expected here, not [1]"),
        ("[probe.run]\nseed = 1979-05-27", "[probe.run] seed: a whole number is expected here, not 1979-05-27"),
        ("[probe.run]\noutput_file = true", "[probe.run] output_file: a path in quotes is expected here, not true"),
        ("[probe.run]\nconcurrency = inf", "[probe.run] concurrency: a whole number (x>=1) is expected here, not inf"),
        ("[tune]\nmax_prefixes = [1]", "[tune] max_prefixes: a whole number"),
        ("[probe.run]\ncontact = [1]", "[probe.run] contact: a string in quotes is expected here, not [1]"),
        ("[probe.run]\nformat = 'xml'", '[probe.run] format: one of "table", "jsonl", "csv"'),
        ("config = 'x'", "config is no option here"),
        ("[probe]\nrun = 50", "[probe] run is a command; its options stand in a table of their own, [probe.run]"),
        ("[probe.run]\nrate = -1", "[probe.run] rate: a number (x>=0) is expected here: -1"),
        ("[probe.run]\npath = 'x'", "'--path': "), ("x =", "not TOML"), ("cat = 1", "cat is no option"),
        ("[probe.cat]", "[cat] is no command"),
    ],
)  # fmt: skip
def test_the_line_names_file_table_key_and_what_is_expected(
    text: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "c.toml"
    file.write_text(text + "\n")
    assert run(["--config", str(file), "probe", "127.0.0.1"]) == USAGE
    heard = capsys.readouterr()
    assert printed in heard.err and str(file) in heard.err and heard.out == ""


def test_one_word_is_a_list_of_one(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[tune]\nbound = "initcwnd=1..10"\n[fingerprint.socket]\nport = [80, 443]\n')
    found = load(file, root, click.Context(root))
    assert list(found["tune"].values()) == [["initcwnd=1..10"]]
    assert list(found["fingerprint"]["socket"].values()) == [[80, 443]]
