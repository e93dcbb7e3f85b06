# SPDX-License-Identifier: MIT
"""The words of the sources: no private words in any file, and one meaning for a name.

Rules for this file: one test a rule, listing every offender by file and line. `EXEMPTIONS` has only what is data.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import ROOT
from tests.support.sources import nodes, parsed, snake, sources

# Words that no network engineer would search for, with the words of the field in their place.
BANNED = {
    "told": "reported, result, outcome",
    "tell": "report, show, distinguish",
    "tells": "reports, shows, distinguishes",
    "telling": "report",
    "teller": "reporter",
    "said": "sent, reported, stated",
    "saying": "stating",
    "story": "conversation, trace",
    "stories": "conversations, traces",
    "whoever": "the process, the caller",
    "somebody": "another program, the user",
    "anybody": "any program, any host",
    "nobody": "no program, unknown",
    "heirs": "subclasses",
    "desk": "context",
    "keeper": "lease watchdog",
    "glance": "read-only connection",
    "lane": "worker",
    "lanes": "workers",
    "strand": "connection",
    "strands": "connections",
    "journey": "target session",
    "journeys": "target sessions",
    "farm": "server pool",
    "oddities": "misbehaving servers",
    "spoil": "impair",
    "spoils": "impairs",
    "spoiled": "impaired",
}
# What keeps its bytes, pattern -> reason. A reason names the data; comments and messages have none.
EXEMPTIONS = {
    r"\btold-early\b": "a counter of `fingerprint`, in JSON Lines",
    r"told_outcome": "a table",
    r"[\"`]keeper[\"`]|column keeper|SET keeper|keeper +TEXT|\bkeeper FROM act\b|\bkeeper = ''": "a column of act",
    r"nobody will undo it": "a value that `tune status` prints in that column",
    r"settings? that nobody knows|a setting said twice": "notes in fixtures' origin.json",
    r"[\"`:]desk\b|of their own: desk": "a mobile trace, and a device's name in logs",
    r"name = \"stories\"": "a page's name in pages files",
    r"\b(?:configtron|thompson), (?:never )?told\b|`(?:never )?told`|\"(?:never )?told\": ": "labels of drift",
    r"somebody corrects the history": "the study drift's account, in JSON Lines",
    r"held against those told|Over the runs told|\"not told\"": "the study calibration's account, in JSON Lines",
    r"does not tell its queue": "the study hotcloud's account, in JSON Lines",
    r"The paper tells these effects": "the study lessons' account, in JSON Lines",
    r"cannot be told from gain|no accuracy told|no tree need tell apart": "claims of studies, in JSON Lines",
    r"shorter than the log can tell": "a count's name in `learn import`'s report",
    r"place: dict.*\"told\":|place\[\"told\"\]": "a key of saved sessions",
    r"\.tell\(\)": "a method of Python's files",
    r"Freedman and Lane": "an author",
}
EXEMPT = re.compile("|".join(EXEMPTIONS))
TEXT = (".py", ".c", ".h", ".css", ".js", ".sh", ".toml", ".sql", ".md")
# This file, which quotes the words.
THIS = "tests/test_words.py"
# Text without a suffix.
SCRIPTS = ("Makefile", ".ci/")
WORD = re.compile(r"[a-z]+")
LETTERS = re.compile("|".join(BANNED))


def words(text: str) -> list[str]:
    """Return the lower-case words of a line, those inside snake_case and CamelCase names too."""
    return WORD.findall(snake(EXEMPT.sub(" ", text)))


def suspects(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line) of the lines that have the letters of a banned word: few, and quickly found."""
    for number, line in enumerate(text.splitlines(), 1):
        if LETTERS.search(line.lower()):
            yield number, line


def banned(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, banned word) of a text."""
    for number, line in suspects(text):
        yield from ((number, word) for word in words(line) if word in BANNED)


@cache
def tracked() -> tuple[str, ...]:
    """Return the names of all files in the repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def test_no_file_has_private_words() -> None:
    files = [name for name in tracked() if name.endswith(TEXT) or name.startswith(SCRIPTS) if name != THIS]
    assert len(files) > 1000
    found = [
        f"{name}:{number}: {word} (write: {BANNED[word]})"
        for name in files
        for number, word in (*((0, word) for word in words(name) if word in BANNED), *banned((ROOT / name).read_text()))
    ]
    assert not found, "\n".join(found)


def test_private_words_are_seen_inside_names() -> None:
    planted = "def _told(self):\n    return KeeperDesk().saidSo\n# whoever asks, nobody's\n"
    assert [(n, w) for n, w in banned(planted)] == [
        (1, "told"),
        (2, "keeper"),
        (2, "desk"),
        (2, "said"),
        (3, "whoever"),
        (3, "nobody"),
    ]
    assert list(banned('untold = file.tell()  # a history of histograms\ncounts["told-early"]\n')) == []


def classes() -> dict[str, set[str]]:
    """Return the files of the product that define each class name."""
    found = defaultdict(set)
    for _, file in sources():
        for node in nodes(file.read_text()):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(str(file.relative_to(ROOT)))
    return found


def test_each_exemption_is_needed() -> None:
    files = [name for name in tracked() if name.endswith(TEXT) and name != THIS]
    lines = [line for name in files for _, line in suspects((ROOT / name).read_text())]
    text = "\n".join(line for line in lines if any(word in BANNED for word in WORD.findall(snake(line))))
    assert [one for one in EXEMPTIONS if not re.search(one, text)] == []


def test_no_class_name_is_defined_twice() -> None:
    found = {name: sorted(files) for name, files in classes().items() if len(files) > 1}
    assert found == {}


def package(file: Path) -> str:
    """Return the package of a file: a folder of the product; below configtron/, a folder of a command or a service."""
    parts = file.relative_to(ROOT).parts
    return "/".join(parts[:-1] if parts[0] == "configtron" else parts[:1])


def test_no_base_name_is_twice_in_a_package() -> None:
    found = defaultdict(list)
    for _, file in sources():
        if not file.stem.startswith("__"):
            found[f"{package(file)}/{file.stem}"].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_each_column_table_has_a_name_of_its_own() -> None:
    """A list of columns is named for its table, so that a search finds one place."""
    found = defaultdict(list)
    for _, file in sources():
        for node in parsed(file).body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if name.endswith("COLUMNS"):
                    found[name].append(str(file.relative_to(ROOT)))
    assert len(found) > 20
    assert {name: files for name, files in found.items() if len(files) > 1 or name == "COLUMNS"} == {}
