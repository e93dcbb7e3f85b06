# SPDX-License-Identifier: MIT
"""One place for each file format, kernel interface and list: what is written once is written nowhere else.

To add one: a row of `PLACES`, the pattern that only a second writing of it would have, and its one file. Circles of
imports, and of C files that call each other, are found here too: a file of a circle cannot be read by itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.sources import ROOT, nodes, sources

# What it is -> (a pattern of Python source, the one file that has it).
PLACES = {
    "pcapng's section header": (r"0x0A0D0D0A", "configtron/model/pcapng.py"),
    "pcapng's TLS secrets": (r"0x544C534B", "configtron/model/pcapng.py"),
    "a netem queue": (r'Qdisc\([^)]*"netem"', "configtron/linux/qdisc.py"),
    "netem's attributes": (r"NETEM_\w+ ?= ?\d|struct tc_netem_qopt", "configtron/linux/qdisc.py"),
    "a ClientHello's key": (r"046b17d1f2e12c4247", "probe/client_hello.py"),
    "a walk over descriptors": (r"/proc/\{\w+\}/fd\b", "configtron/linux/proc.py"),
    "the Matern correlation": (r"np\.sqrt\(5", "learner/engines/posterior.py"),
    "Student's t": (r"\bstdtrit?\b|\bstudents?_t\b", "configtron/model/student.py"),
    "a netlink socket": (r"socket\.AF_NETLINK", "configtron/linux/netlink.py"),
    "Linux's congestion controls": (r'"westwood"|"scalable"', "configtron/model/congestion.py"),
}
# Folders of C files that are compiled to one program or module.
C_FOLDERS = ("configtron/lab/testbed/load", "kmod")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.S)
# At a line's beginning, what another file can use: a function's body, or a variable.
DEFINED = re.compile(
    r"^(?!static|extern|typedef|return|else|struct \w+ \{)[A-Za-z_][\w \t*]*?\b(\w+)(?:\([^;{}]*\)\s*\{|\s*(?:=|;))",
    re.M,
)
Graph = Mapping[str, set[str]]


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of names that reach each other, sorted."""
    reached = {name: _reach(graph, name) for name in graph}
    found = {tuple(sorted({name, *(n for n in reached[name] if name in reached[n])})) for name in graph}
    return sorted(list(names) for names in found if len(names) > 1)


def _reach(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        fresh = graph.get(left.pop(), set()) - seen
        seen |= fresh
        left += fresh
    return seen


def imported(source: str, known: frozenset[str]) -> set[str]:
    """Return the modules that a file needs; of a package, the module that a `from` names, where it is one."""
    found: set[str] = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= parts & known or {node.module}
            found |= {node.module} if parts - known else set()
    return found & known


def c_graph(files: Iterable[tuple[str, str]]) -> Graph:
    """Return which C file uses a function or variable that which other one defines."""
    texts = {name: COMMENT_OR_TEXT.sub(" ", text) for name, text in files}
    home = {match: name for name, text in texts.items() for match in DEFINED.findall(text)}
    return {
        name: {home[word] for word in set(re.findall(r"\w+", text)) if home.get(word, name) != name}
        for name, text in texts.items()
    }


def c_files(folder: str) -> list[tuple[str, str]]:
    """Return (name, text) of the C files of a folder; programs of one file (benchmarks, unit tests) left out."""
    found = sorted((ROOT / folder).glob("*.c"))
    return [(str(file.relative_to(ROOT)), file.read_text()) for file in found if not _is_apart(file)]


def _is_apart(file: Path) -> bool:
    return file.stem.endswith(("_kunit", "_bench"))


def test_each_is_written_in_one_place() -> None:
    texts = {str(file.relative_to(ROOT)): file.read_text() for _, file in sources()}
    found = {
        what: sorted(name for name, text in texts.items() if re.search(pattern, text))
        for what, (pattern, _) in PLACES.items()
    }
    assert found == {what: [place] for what, (_, place) in PLACES.items()}


def test_no_circle_of_imports() -> None:
    known = frozenset(name for name, _ in sources())
    graph = {name: imported(file.read_text(), known) - {name} for name, file in sources()}
    assert circles(graph) == []


def test_no_circle_of_c_files() -> None:
    assert [circle for folder in C_FOLDERS for circle in circles(c_graph(c_files(folder)))] == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(graph: Graph, found: list[list[str]]) -> None:
    assert circles(graph) == found


def test_imports_of_functions_and_of_modules_are_seen() -> None:
    known = frozenset(("p", "p.one", "p.two"))
    source = "from p import one, name\ndef f():\n    from p.two import name\n"
    assert imported(source, known) == {"p", "p.one", "p.two"}


def test_calls_between_c_files_are_seen() -> None:
    low = "int table;\nstatic int own(void)\n{\n}\nvoid low(void)\n{\n\town();\n}\n"
    high = '/* top() */\nvoid high(int own)\n{\n\tlow(); table = 1; puts("top");\n}\n'
    assert c_graph([("low.c", low), ("high.c", high)]) == {"low.c": set(), "high.c": {"low.c"}}
    back = c_graph([("low.c", low.replace("own();", "high(1);")), ("high.c", high)])
    assert circles(back) == [["high.c", "low.c"]]
