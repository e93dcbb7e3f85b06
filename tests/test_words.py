# SPDX-License-Identifier: MIT
"""The words of the sources: no private words where an area is clean, and one meaning for a name.

Rules for this file: one test a rule, listing every offender by file and line. A folder joins `CLEAN` once its names,
comments, docstrings and messages are free of the banned words; no folder leaves it.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rigs import ROOT
from tests.support.sources import parsed, snake, sources

# Folders, and files, whose names, comments, docstrings and messages have none of the banned words.
CLEAN = tuple(
    """
    README.md CONTRIBUTING.md CHANGELOG.md Makefile .ci newsfragments docs/README.md docs/adopt.md
    docs/api.md docs/capabilities.md docs/craft.md
    docs/ethics.md docs/fields.md docs/formats.md docs/grades.md docs/import.md docs/knobs.md docs/learn.md
    docs/licences.md docs/pages.md docs/reasons.md docs/routes.md docs/sessions.md docs/tensor.md docs/tour.md
    docs/troubles.md docs/tshark.md docs/tune.md docs/worlds.md configtron/linux configtron/model fingerprint report
    configtron/service/lease db kmod lab tests/db tests/kmod tests/lab/testbed rigs benchmarks/README.md
    benchmarks/sealed benchmarks/tuned benchmarks/learned benchmarks/turns benchmarks/tests
    configtron/service/campaign configtron/service/capture configtron/service/replay probe tune
    configtron/cli/fingerprint configtron/cli/learn configtron/cli/probe configtron/cli/tune
    configtron/cli/configfile.py configtron/cli/configvalue.py configtron/cli/completing.py configtron/cli/display.py
    configtron/cli/lazy.py configtron/cli/manual.py configtron/cli/options.py configtron/cli/outermost.py
    configtron/cli/output.py configtron/cli/root.py configtron/cli/settings.py configtron/cli/shard.py
    configtron/cli/signals.py configtron/cli/replay docs/probe.md docs/recipes learner
    configtron/service studies docs/experiments.md docs/studies.md benchmarks docs/decisions docs/measurements
""".split()
)
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
# What keeps its bytes: names in data, and names of the standard library.
EXEMPT = re.compile(
    r"\btold-early\b|told_outcome|\.tell\(\)|[\"`]keeper[\"`]|column keeper|SET keeper|keeper +TEXT"
    r"|\bkeeper FROM act\b|\bkeeper = ''"
    r"|\bnobody will undo it\b|settings that nobody knows|a setting said twice"
    r"|[\"`:]desk\b|name = \"stories\""
    r"|\b(?:configtron|thompson), (?:never )?told\b|`(?:never )?told`|lease_left_s  keeper"
    r"|\"(?:never )?told\": |somebody corrects the history|held against those told"
    r"|Over the runs told|\"not told\"|does not tell its queue"
    r"|The paper tells these effects|cannot be told from gain|no accuracy told|no tree need tell apart"
    r"|shorter than the log can tell|Freedman and Lane|place: dict.*\"told\":|place\[\"told\"\]"
)
TEXT = (".py", ".c", ".h", ".css", ".js", ".sh", ".toml", ".sql", ".md")
# Text without a suffix.
SCRIPTS = ("Makefile", ".ci/")
WORD = re.compile(r"[a-z]+")


def words(text: str) -> list[str]:
    """Return the lower-case words of a line, those inside snake_case and CamelCase names too."""
    return WORD.findall(snake(EXEMPT.sub(" ", text)))


def banned(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, banned word) of a text."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, word) for word in words(line) if word in BANNED)


@cache
def tracked() -> tuple[str, ...]:
    """Return the names of all files in the repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def clean_files() -> list[str]:
    """Return the text files of the clean folders."""
    under = tuple(f"{name}/" for name in CLEAN)
    there = (name for name in tracked() if name in CLEAN or name.startswith(under))
    return [name for name in there if name.endswith(TEXT) or name.startswith(SCRIPTS)]


def test_clean_folders_have_no_private_words() -> None:
    files = clean_files()
    assert len(files) >= len(CLEAN)
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
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(str(file.relative_to(ROOT)))
    return found


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
