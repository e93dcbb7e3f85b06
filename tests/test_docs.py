# SPDX-License-Identifier: MIT
"""What the documents name exists: paths, commands, options, make targets, fields; README prints what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from configtron.cli.manual import contexts
from configtron.model.characteristics import BY_NAME, NAMES
from configtron.model.knobs import MEASURED
from configtron.report import connection_rows
from configtron.report import contexts as contexts_columns
from tests.support import ROOT, tour
from tests.support.isolation import apart
from tests.support.page_blocks import blocks
from tests.support.sources import sources

README = ROOT / "README.md"
FINGERPRINT = (ROOT / "docs" / "fingerprint.md").read_text()
PAGES = sorted(
    [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")), *(ROOT / "docs").rglob("*.md")]
)
# Folders and files of a running installation, not of the repository.
ELSEWHERE = re.compile(r"^(~|/|\.venv|net/|newsfragments/icw)")
# Some 30 s on an idle machine; longer than this is a hang.
LIMIT_S = 600
# What marks a quoted word as a path of this repository.
FOLDERS = ("benchmarks/ configtron/ db/ docs/ fingerprint/ fixtures/ newsfragments/ probe/ tests/").split()


def all_commands() -> dict[tuple[str, ...], click.Command]:
    """Every command of the program, by the words that call it."""
    return {tuple(context.command_path.split()): context.command for context in contexts()}


def quoted_paths(page: Path) -> Iterator[str]:
    text = page.read_text()
    yield from (link.split("#")[0] for link in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", text))
    for word in re.findall(r"`([\w./-]+)`", text):
        if "NNNN" not in word and (word.startswith(tuple(FOLDERS)) or word.endswith((".md", ".txt", ".cfg", ".toml"))):
            yield word


def missing_paths(page: Path) -> list[str]:
    made_up = re.compile(r"(^|/)(x|NAME)\.py$|^newsfragments/icw")
    # Files that a recipe makes.
    made = re.findall(r"^<!-- file: (\S+) -->$", page.read_text(), re.M)
    quoted = [path for path in quoted_paths(page) if not ELSEWHERE.match(path) and not made_up.search(path)]
    return [
        path for path in quoted if path not in made and not (ROOT / path).exists() and not (page.parent / path).exists()
    ]


def test_paths_exist() -> None:
    assert {str(page): lost for page in PAGES if (lost := missing_paths(page))} == {}


def shown(page: Path) -> Iterator[list[str]]:
    """Every configtron command line of a page, in words."""
    text = page.read_text()
    for line in re.findall(r"^\$ (.+)$", text, re.M) + re.findall(r"`(configtron [^`]+)`", text):
        for part in re.split(r"\s*(?:\||&&|;)\s*", line):
            if part.startswith("configtron "):
                yield shlex.split(part)
    verbs = "|".join(words[1] for words in all_commands() if len(words) == 2)
    for line in re.findall(rf"`((?:{verbs}) [^`|]+)`", text):
        yield ["configtron", *shlex.split(line)]


def test_commands_exist() -> None:
    known = all_commands()
    for page in PAGES:
        if page.name != "CHANGELOG.md":  # it names the commands of its releases
            check_commands(page, known)


def check_commands(page: Path, known: dict[tuple[str, ...], click.Command]) -> None:
    for words in shown(page):
        path: tuple[str, ...] = ("configtron",)
        for word in words[1:]:
            if (*path, word) in known:
                path = (*path, word)
        meant = [known[run] for run in {("configtron",), path, (*path, "run")} if run in known]
        names = [name for one in meant for option in one.params for name in option.opts + option.secondary_opts]
        assert len(path) > 1 or {"--version", "--help"} & set(words), f"{page.name}: {' '.join(words)}"
        for before, word in pairwise(words):
            if re.match(r"--?[a-zA-Z]|-[0-9]", word) and not before.startswith("--"):
                assert word.split("=")[0] in {*names, "--help", "-h"}, f"{page.name}: {' '.join(words)}: {word}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    text = "\n".join(page.read_text() for page in PAGES)
    named = re.findall(r"`make ([a-z-]+)`", text) + re.findall(r"^(?:    |\$ )make ([a-z-]+)", text, re.M)
    assert set(named) - targets == set()


def test_benchmarks_exist() -> None:
    """Those that pages, docstrings and comments tell to run."""
    programs = [*(file for _, file in sources()), *(ROOT / "benchmarks").rglob("*.py")]
    texts = [file.read_text() for file in [*PAGES, *programs] if file.name != "CHANGELOG.md"]
    named = set(re.findall(r"python3? -m (benchmarks(?:\.\w+)+)", "\n".join(texts)))
    places = {name: ROOT / name.replace(".", "/") for name in named}
    known = {name for name, at in places.items() if at.with_suffix(".py").exists() or (at / "__main__.py").exists()}
    assert len(named) > 10 and named - known == set()


def test_tour_finds_every_block_and_the_readme_is_one_page() -> None:
    text = README.read_text()
    tours = [block for block in blocks(text) if block.kind == "tour"]
    names = {block.about.split()[0] for block in tours}
    assert len(tours) == len(names) == text.count("```console") == text.count("<!-- tour:")
    assert len([block for block in blocks(text) if block.kind == "before"]) == text.count("<!-- before:")
    assert len(text.splitlines()) <= 200
    outputs = [[line for line in block.text.splitlines() if not line.startswith("$ ")] for block in tours]
    assert all(0 < len(lines) <= 15 for lines in outputs)


def test_tour_replaces_outputs_only(tmp_path: Path) -> None:
    """On a README of two commands: what is shown is what they print, the rest stays; twice gives the same."""
    page = tmp_path / "README.md"
    block = "<!-- tour: t head=1 tail=1 -->\n```console\n$ echo one; echo two >&2\nold\n$ seq 5\n```\n<!-- end -->"
    page.write_text(f"before\n{block}\nafter `$ no`\n")
    assert tour.main(["--check"], page) == 1
    assert tour.main([], page) == 0
    made = page.read_text()
    assert made == (
        "before\n<!-- tour: t head=1 tail=1 -->\n```console\n$ echo one; echo two >&2\none\n$ seq 5\n1\n"
        "[... 3 lines]\n5\n```\n<!-- end -->\nafter `$ no`\n"
    )
    assert tour.main(["--check"], page) == 0
    assert tour.main(["other"], page) == 0 and page.read_text() == made


@pytest.mark.root
@pytest.mark.proof
def test_the_readme_prints_what_it_shows() -> None:
    """Every block, in a network and mounts of its own: port 80 and the names of namespaces are free there."""
    words = ["bash", "-c", 'ip link set lo up && exec "$0" -m tests.support.tour --check', sys.executable]
    done = subprocess.run(apart(words), cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr


def test_every_measured_name_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w*)", FINGERPRINT.split("\n## ")[1], re.M)
    assert sorted(rows) == sorted((knob.name, knob.unit) for knob in MEASURED)


COUNTED = re.compile(
    r'counts\["([a-z-]+)"\]|\("([a-z-]+)", (?:fine|cut|bad|fragment)|"(cut-[a-z]+|malformed-record|plaintext)"'
)


def of_a_connection() -> set[str]:
    verdicts = {f"{knob}{suffix}" for knob in connection_rows.SHOWN_KNOBS for suffix in ("", "_grade", "_reason")}
    documented = set(connection_rows.columns()) - verdicts
    return {re.sub("^(client|server)_(?!name)", "", name) for name in documented} | {
        "merged", "incomplete", "clock", "out_of_order", "windows", "limits",
    }  # fmt: skip


def counts() -> set[str]:
    """Return the names that the code counts by, some of its tables, link-type-N and unread-NAME."""
    folders = ("fingerprint/capture", "fingerprint/passive", "configtron/service/capture", "configtron/report")
    text = "\n".join(file.read_text() for folder in folders for file in (ROOT / folder).glob("*.py"))
    tables = {"arp", "not-ip", "other-protocol", "udp", "malformed-time", "bytes-left", "second-network"}
    assert [name for name in tables if f'"{name}"' not in text] == []
    return {name for names in COUNTED.findall(text) for name in names if name} | {"link-type-N", "unread-NAME"} | tables


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Connections", of_a_connection()), ("Contexts", {*contexts_columns.ABOUT, *contexts_columns.CONTEXT}),
        ("Outcomes", {*BY_NAME, *NAMES}), ("Counts", counts()),
    ],
)  # fmt: skip
def test_every_field_is_explained(heading: str, names: set[str]) -> None:
    (part,) = [part for part in FINGERPRINT.split("\n## ") if part.startswith(heading + "\n")]
    assert set(re.findall(r"^\| `([\w-]+)` \| ", part, re.M)) == names
