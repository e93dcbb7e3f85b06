# SPDX-License-Identifier: MIT
"""House rules that a search of the sources proves: names, heads, one place for each thing, no circles of imports, no
new hidden parameters. Beside each stands what it must see.

To give a file format, kernel interface or list its one place: a row of `PLACES`, the pattern that only a second writing
of it would have, and its one file.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.sources import defines, nodes, parsed, snake, sources

# Names that gather what belongs elsewhere.
VAGUE = re.compile(r"(^|_)(utils?|common|helpers?|base|misc|handlers?|tools?)($|_)")
ESSAY = ("Question", "Method", "Stop when", "Reads as", "Fails as", "Differs", "Source")
# By the path from the repository's root.
PRODUCT = {str(file.relative_to(ROOT)): file for _, file in sources()}


def head(file: Path) -> str:
    return ast.get_docstring(parsed(file)) or ""


def test_modules_open_with_a_docstring() -> None:
    assert [name for name, file in PRODUCT.items() if not head(file)] == []


def test_readers_open_with_the_essay() -> None:
    """Files of fingerprint/ that read one parameter: each defines `infer`."""
    readers = [file for file in (ROOT / "fingerprint").glob("*.py") if defines(file, "infer")]
    lacking = {
        file.name: [word for word in ESSAY if not re.search(rf"^{word}\b", head(file), re.M)] for file in readers
    }
    assert len(readers) > 10 and {name: words for name, words in lacking.items() if words} == {}


def vague(file: Path) -> list[str]:
    """Names in a file, its own included, that do not name a concept."""
    named = [node.name for node in nodes(file.read_text()) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in (file.stem, *named) if VAGUE.search(snake(name)) or name == "types"]


def test_names_say_what() -> None:
    assert {path: names for path, file in PRODUCT.items() if (names := vague(file))} == {}
    assert all(VAGUE.search(snake(name)) for name in ("utils", "net_utils", "BaseProbe", "PacketHelper", "common"))
    assert not any(VAGUE.search(snake(name)) for name in ("database", "stream", "Baseline", "based_on"))


def package(file: Path) -> str:
    """Return the package of a file: a folder of the product; below configtron/, a folder of a command or a service."""
    parts = file.relative_to(ROOT).parts
    return "/".join(parts[:-1] if parts[0] == "configtron" else parts[:1])


def defined(file: Path) -> Iterator[str]:
    """Yield what has one meaning: classes, tables of columns, the file's name in its package."""
    yield from (f"class {node.name}" for node in nodes(file.read_text()) if isinstance(node, ast.ClassDef))
    if not file.stem.startswith("__"):
        yield f"file {package(file)}/{file.stem}"
    for node in parsed(file).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (f"table {name}" for name in names if name.endswith("COLUMNS"))


def test_one_meaning_for_a_name() -> None:
    """A search finds one place."""
    places = defaultdict(set)
    for path, file in PRODUCT.items():
        for name in defined(file):
            places[name].add(path)
    assert {name.split()[0] for name in places} == {"class", "file", "table"} and "table COLUMNS" not in places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# Dataclasses that are not frozen: what they hold changes. Fewer is better.
MUTABLE = 36


def test_values_are_frozen() -> None:
    options = [ast.unparse(option) for file in PRODUCT.values() for node in nodes(file.read_text())
               if isinstance(node, ast.ClassDef) for option in node.decorator_list]  # fmt: skip
    written = [option for option in options if option.partition("(")[0] == "dataclass"]
    assert len(written) > 400 and sum("frozen=True" not in option for option in written) <= MUTABLE
    assert [option for option in written if "slots=False" in option or "eq=True" in option] == []


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
    "a netlink socket": (r"socket\.AF_NETLINK\b", "configtron/linux/netlink.py"),
    "netlink's message header": (r'Struct\("=IHHII"\)', "configtron/linux/netlink.py"),
    "an inet_diag request": (r'"=BBBx ?I', "configtron/linux/sock_diag.py"),
    "a receive filter": (r"HxxxxxxP", "configtron/linux/packet.py"),
    "libbpf": (r"libbpf\.so", "configtron/linux/libbpf.py"),
    "/proc/net/tcp": (r"thread-self/net/?[\"{]", "configtron/linux/proc.py"),
    "pidfd_getfd": (r"\b438\b", "configtron/linux/proc.py"),
    "Linux's congestion controls": (r'"westwood"|"scalable"', "configtron/model/congestion.py"),
}


def test_each_is_written_in_one_place() -> None:
    texts = {path: file.read_text() for path, file in PRODUCT.items()}
    found = {
        what: sorted(name for name, text in texts.items() if re.search(pattern, text))
        for what, (pattern, _) in PLACES.items()
    }
    assert found == {what: [place] for what, (_, place) in PLACES.items()}


# A file of a circle, of imports or of C files that call each other, cannot be read by itself.
Graph = Mapping[str, set[str]]
# Folders of C files that are compiled to one program or module.
C_FOLDERS = ("configtron/lab/testbed/load", "kmod")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.S)
# At a line's beginning, what another file can use: a function's body, or a variable.
DEFINED = re.compile(
    r"^(?!static|extern|typedef|return|else|struct \w+ \{)[A-Za-z_][\w \t*]*?\b(\w+)(?:\([^;{}]*\)\s*\{|\s*(?:=|;))",
    re.M,
)


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


def test_no_circle_of_imports() -> None:
    known = frozenset(name for name, _ in sources())
    assert circles({name: imported(file.read_text(), known) - {name} for name, file in sources()}) == []


@pytest.mark.parametrize("folder", C_FOLDERS)
def test_no_circle_of_c_files(folder: str) -> None:
    """Programs of one file (benchmarks, unit tests) left out."""
    files = [file for file in sorted((ROOT / folder).glob("*.c")) if not file.stem.endswith(("_kunit", "_bench"))]
    assert circles(c_graph((file.name, file.read_text()) for file in files)) == []


def test_imports_of_functions_and_calls_between_c_files_are_seen() -> None:
    source = "from p import one, name\ndef f():\n    from p.two import name\n"
    assert imported(source, frozenset(("p", "p.one", "p.two"))) == {"p", "p.one", "p.two"}
    low = "int table;\nstatic int own(void)\n{\n}\nvoid low(void)\n{\n\town();\n}\n"
    high = '/* top() */\nvoid high(int own)\n{\n\tlow(); table = 1; puts("top");\n}\n'
    assert c_graph([("low.c", low), ("high.c", high)]) == {"low.c": set(), "high.c": {"low.c"}}
    back = c_graph([("low.c", low.replace("own();", "high(1);")), ("high.c", high)])
    assert circles(back) == [["high.c", "low.c"]]


# Constants of ours that tests replace: each is a hidden parameter. Lower it with each that has become an argument.
MOST_REPLACED = 24
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def replaced(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each constant that `monkeypatch.setattr` replaces in a module of ours."""
    for node in nodes(source):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "setattr":
            continue
        # setattr(module, "NAME", value) or setattr("configtron.module.NAME", value)
        names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        name = names[0].rpartition(".")[2] if names else ""
        if CONSTANT.fullmatch(name):
            yield node.lineno, name


def test_no_more_constants_are_replaced() -> None:
    texts = {file: file.read_text() for file in sorted((ROOT / "tests").rglob("test_*.py"))}
    found = [
        f"{file}:{line}: {name}" for file, text in texts.items() if "setattr" in text for line, name in replaced(text)
    ]
    assert len(found) <= MOST_REPLACED, "\n".join(found)
    planted = (
        'monkeypatch.setattr(module, "CHUNK", 7)\nmonkeypatch.setattr("configtron.x.MOST", 1)\n'
        'monkeypatch.setattr(module, "load", f)\nmonkeypatch.setitem(table, "A", 1)\n'
    )
    assert list(replaced(planted)) == [(1, "CHUNK"), (2, "MOST")]
