# SPDX-License-Identifier: MIT
"""Names, docstrings, essay heads, and the two files of a parameter."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from configtron.probe import PROBES
from tests.support import ROOT
from tests.support.sources import defines, nodes, parsed, provokes, snake, sources

# Names that gather what belongs elsewhere.
VAGUE = re.compile(r"(^|_)(utils?|common|helpers?|base|misc|handlers?|tools?)($|_)")
ESSAY = ("Question", "Method", "Stop when", "Reads as", "Fails as", "Differs", "Source")
PRODUCT = [file for _, file in sources()]


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


def test_every_script_has_a_reader_of_its_name() -> None:
    """One parameter, one name, two files: probe/x.py provokes it and fingerprint/x.py reads it."""
    scripts = sorted({probe.script.__module__.rpartition(".")[2] for probe in PROBES.values()})
    assert len(scripts) > 10
    assert [name for name in scripts if name not in {file.stem for file in readers()}] == []
