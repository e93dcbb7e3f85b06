# SPDX-License-Identifier: MIT
"""One parameter, one name: each script has its reader, and both have their rows. A place that lacks one is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from configtron.fingerprint import INFERENCES
from configtron.fingerprint.grades import RULE_OF
from configtron.model.choices import TESTS
from configtron.model.knobs import MEASURED
from configtron.probe import PROBES
from configtron.probe.profiles import CLEAR, SECURE
from tests.support import ROOT
from tests.support.sources import defines, parsed, provokes

# Made by the user, and of no profile.
NO_PROFILE = ("craft",)
MEASURED_NAMES = {knob.name for knob in MEASURED}


def scripts() -> dict[str, Path]:
    """Return each file of probe/ that sends, by its name."""
    return {file.stem: file for file in sorted((ROOT / "probe").glob("*.py")) if provokes(file)}


def unregistered() -> Iterator[str]:
    """Yield what lacks its row: scripts, readers, rules."""
    rows = {probe.script.__module__.rpartition(".")[2] for probe in PROBES.values()}
    for name, file in scripts().items():
        if name not in rows:
            yield f"probe/__init__.py: PROBES has no row for probe/{name}.py"
        named = re.findall(r"fingerprint/(\w+\.py)", ast.get_docstring(parsed(file)) or "")
        if not named or not all((ROOT / "fingerprint" / reader).exists() for reader in named):
            yield f"probe/{name}.py: its head names no file of fingerprint/ that reads it"
    read = {one.infer.__module__.rpartition(".")[2] for one in INFERENCES.values()}
    for file in sorted((ROOT / "fingerprint").glob("*.py")):
        if defines(file, "infer") and file.stem not in read:
            yield f"fingerprint/__init__.py: INFERENCES has no row for fingerprint/{file.name}"
    yield from (
        f"fingerprint/grades.py: no rule has {name}, a row of configtron/model/measured.py"
        for name in sorted(MEASURED_NAMES - RULE_OF.keys())
    )
    page = (ROOT / "docs" / "fingerprint.md").read_text()
    yield from (f"docs/fingerprint.md: {name} is absent; run: make man" for name in RULE_OF if f"`{name}`" not in page)
    yield from (
        f"configtron/model/measured.py: no row {name}, which fingerprint/grades.py has"
        for name in sorted(RULE_OF.keys() - MEASURED_NAMES)
    )


def unfinished(name: str) -> Iterator[str]:
    """Yield the places where a row of PROBES has no counterpart."""
    stem = PROBES[name].script.__module__.rpartition(".")[2]
    reader = ROOT / "fingerprint" / f"{stem}.py"
    if not (reader.exists() and defines(reader, "infer")):
        yield f"fingerprint/{stem}.py: no reader of probe/{stem}.py"
        return
    if not any(name in one.probes and one.infer.__module__.endswith(f".{stem}") for one in INFERENCES.values()):
        yield f"fingerprint/__init__.py: no row of fingerprint/{stem}.py reads the probe {name}"
    yield from (
        f"configtron/model/measured.py: no row {knob}, which fingerprint/{stem}.py reports"
        for knob in sorted(reported(reader) - MEASURED_NAMES)
    )
    if name in NO_PROFILE:
        return
    if not any(name in probes for probes in TESTS.values()):
        yield f"configtron/model/choices.py: no test of --tests has the probe {name}"
    rows = [row for table in (CLEAR, SECURE) for profile in table.values() for row in profile]
    if not any(probe == name for probe, _ in rows):
        yield f"probe/profiles.py: no profile asks the probe {name}"


def reported(reader: Path) -> set[str]:
    """Return the names that a reader writes literally into observations."""
    calls = (node for node in ast.walk(ast.parse(reader.read_text())) if isinstance(node, ast.Call))
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ("yes", "no") and call.args
        and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }  # fmt: skip


def test_every_probe_has_all_its_places() -> None:
    found = [*unregistered(), *(line for name in PROBES for line in unfinished(name))]
    assert not found, "\n".join(found)


def test_the_search_sees_scripts_readers_and_names() -> None:
    assert {"icw", "ecn", "tfo"} <= scripts().keys()
    assert reported(ROOT / "fingerprint" / "ecn.py") == {"ecn"}
