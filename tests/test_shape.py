# SPDX-License-Identifier: MIT
"""What the sources look like: sizes, names, docstrings, essay heads. Review limits, not style."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from configtron.probe import PROBES
from tests.support import ROOT
from tests.support.sources import defines, nodes, parsed, provokes, snake, sources

# A file past this is split or defended in review. One concept that is whole stays whole: cutting it in two to meet a
# shorter limit is worse than its length.
REVIEW_LIMIT_LINES = 450
# Files that were defended, with their size then. This list only shrinks: a listed file may not grow, and one that
# has come under the limit must leave the list.
DEFENDED_LINES: dict[str, int] = {}

# Names that gather what belongs elsewhere.
VAGUE = re.compile(r"(^|_)(utils?|common|helpers?|base|misc|handlers?|tools?)($|_)")
ESSAY = ("Question", "Method", "Stop when", "Reads as", "Fails as", "Differs", "Source")
# Words of a salesman, or of an author describing an edit.
ADVERTISING = re.compile(
    r"\b(robust|enhanced(?! packet)|comprehensive|seamless|blazing|cutting-edge|powerful|world-class)\b", re.I
)

PRODUCT = [file for _, file in sources()]


def python_files() -> list[Path]:
    tests = [file for folder in ("tests", "benchmarks", "docs") for file in (ROOT / folder).rglob("*.py")]
    return [file for _, file in sources()] + tests


def too_long(files: list[Path], defended: dict[str, int]) -> list[str]:
    found = []
    for file in files:
        name, lines = str(file.relative_to(ROOT)), len(file.read_text().splitlines())
        if lines > max(REVIEW_LIMIT_LINES, defended.get(name, 0)):
            found.append(f"{name}: {lines} lines")
        if name in defended and lines <= REVIEW_LIMIT_LINES:
            found.append(f"{name}: {lines} lines, take it off the list")
    return found


def test_files_are_short() -> None:
    assert too_long(python_files(), DEFENDED_LINES) == []


def test_defended_files_exist() -> None:
    assert [name for name in DEFENDED_LINES if not (ROOT / name).exists()] == []


def test_a_long_file_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "REVIEW_LIMIT_LINES", 10)
    assert too_long([Path(__file__)], {})
    assert too_long([Path(__file__)], {"tests/test_shape.py": 10_000}) == []
    monkeypatch.setitem(globals(), "REVIEW_LIMIT_LINES", 20_000)
    assert too_long([Path(__file__)], {"tests/test_shape.py": 10_000}) == [
        f"tests/test_shape.py: {len(Path(__file__).read_text().splitlines())} lines, take it off the list"
    ]


def test_modules_open_with_a_docstring() -> None:
    assert [str(file) for file in PRODUCT if not ast.get_docstring(parsed(file))] == []


def vague(file: Path) -> list[str]:
    """Names in a file, its own included, that do not name a concept."""
    named = [node.name for node in nodes(file.read_text()) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in (file.stem, *named) if VAGUE.search(snake(name)) or name == "types"]


def test_names_say_what() -> None:
    assert {str(file): names for file in PRODUCT if (names := vague(file))} == {}


def test_vague_names_are_seen() -> None:
    assert all(VAGUE.search(snake(name)) for name in ("utils", "net_utils", "BaseProbe", "PacketHelper", "common"))
    assert not any(VAGUE.search(snake(name)) for name in ("database", "stream", "Baseline", "based_on"))


def test_words_are_plain() -> None:
    assert {str(f): words for f in PRODUCT if (words := ADVERTISING.findall(f.read_text()))} == {}


def readers() -> list[Path]:
    """Files of fingerprint/ that read one parameter: each defines `infer`."""
    return [file for file in sorted((ROOT / "fingerprint").glob("*.py")) if defines(file, "infer")]


def lacking(file: Path) -> list[str]:
    head = ast.get_docstring(parsed(file)) or ""
    return [word for word in ESSAY if not re.search(rf"^{word}\b", head, re.M)]


def test_readers_open_with_the_essay() -> None:
    assert {file.name: words for file in readers() if (words := lacking(file))} == {}


def test_the_core_parameters_have_readers() -> None:
    assert {"icw", "synack_rto", "data_rto", "rwin", "signature", "http_version", "h2_settings"} <= {
        file.stem for file in readers()
    }


def test_provoker_names_its_reader() -> None:
    """probe/x.py acts and fingerprint/y.py reads: each names the other."""
    assert len([file for file in (ROOT / "probe").glob("*.py") if provokes(file)]) >= 6
    for file in sorted((ROOT / "probe").glob("*.py")):
        if provokes(file):
            head = ast.get_docstring(parsed(file)) or ""
            named = re.findall(r"fingerprint/(\w+\.py)", head)
            assert named, f"{file.name}: say which file of fingerprint/ reads it"
            assert [name for name in named if not (ROOT / "fingerprint" / name).exists()] == []


# Functions more complex than this are a table waiting to be written.
COMPLEXITY_LIMIT = 20
# Folders that keep to it; the others follow.
SIMPLE = ("fingerprint", "report")
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.Assert, ast.match_case)


def complexity(function: ast.AST) -> int:
    """Return 1 + the branches of a function: statements, parts of and/or, loops and ifs of comprehensions."""
    found, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        found += isinstance(node, BRANCHES)
        found += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        found += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
        waiting += ast.iter_child_nodes(node)
    return found


def complex_functions(file: Path) -> list[str]:
    functions = (n for n in nodes(file.read_text()) if isinstance(n, ast.FunctionDef))
    rated = [(complexity(n), f"{file.relative_to(ROOT)}:{n.lineno}: {n.name}") for n in functions]
    return [f"{where} has complexity {rate}" for rate, where in rated if rate > COMPLEXITY_LIMIT]


def test_no_function_is_too_complex() -> None:
    found = [line for f in PRODUCT if f.relative_to(ROOT).parts[0] in SIMPLE for line in complex_functions(f)]
    assert not found, "\n".join(found)


def test_branches_are_counted() -> None:
    tree = ast.parse(
        "def f(a):\n    if a and a > 1 or a:\n        return [x for x in a if x]\n    return 1 if a else 2\n"
    )
    assert complexity(tree.body[0]) == 7


def test_every_script_has_a_reader_of_its_name() -> None:
    """One parameter, one name, two files: probe/x.py provokes it and fingerprint/x.py reads it."""
    scripts = sorted({probe.script.__module__.rpartition(".")[2] for probe in PROBES.values()})
    assert len(scripts) > 10
    assert [name for name in scripts if name not in {file.stem for file in readers()}] == []
