# SPDX-License-Identifier: MIT
"""Each file names its licence, each licence has its text, and the table of dependencies agrees with their metadata."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement

from tests.support import ROOT
from tests.support.rules import offenders
from tests.test_packaging import config, lines

# What carries its licence in itself; all else is in REUSE.toml (kernel fragments too: their bytes name cached kernels).
CODE = (".py", ".c", ".h", ".sh", ".js", ".css", ".sql", ".rs", ".go", "Kbuild", "dkms.conf", "Makefile")
KERNEL, BPF = "GPL-2.0-only", "GPL-2.0-only OR BSD-2-Clause"
# Rows of the table whose metadata states no SPDX expression -> what their classifiers or licence texts begin with.
SPELT_OTHERWISE = {
    "MIT": ("mit", "the mit license"),
    "BSD-3-Clause": ("bsd", "copyright (c) 2001-2002 enthought", "bsd license", "bsd-3-clause"),
    "Apache-2.0": ("apache",),
    "PSF-2.0": ("license agreement for matplotlib", "python software foundation"),
    "GPL-2.0-only": ("gpl-2.0",),
}

# Packages whose metadata is silent; the licence is that of the file LICENSE.txt in their source.
UNSTATED = {"GPyOpt", "contextualbandits"}

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git lists the files")


def expected(name: str) -> str:
    """The licence that a file of code must name, by what runs it."""
    if name == "kmod/configtron.h":
        return f"{KERNEL} WITH Linux-syscall-note"
    # Compiled into the module and into the BPF programs.
    if name == "kmod/draw.h" or name.endswith(".bpf.c") or name.startswith("tune/drivers/bpf/") and name.endswith(".h"):
        return BPF
    if name.startswith(("kmod/", "tests/support/kmod/planted/")):
        return KERNEL
    return "MIT"


# REUSE-IgnoreStart
def named(text: str) -> str:
    """The licence that the first lines of a file name, "" for none."""
    found = re.search(r"SPDX-License-Identifier: ([^\n*]+?)(?: \*/|-->)?$", "\n".join(text.splitlines()[:3]), re.M)
    return found.group(1).strip() if found else ""


# REUSE-IgnoreEnd
def tracked() -> list[str]:
    asked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in asked.stdout.split() if not (ROOT / name).is_symlink()]


def test_every_file_of_code_names_its_licence() -> None:
    code = [name for name in tracked() if name.endswith(CODE) and not name.startswith("fixtures/tensor")]
    found = {name: (named((ROOT / name).read_text()), expected(name)) for name in code}
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


# REUSE-IgnoreEnd
def test_bpf_programs_name_both_licences_to_the_kernel() -> None:
    programs = [name for name in tracked() if name.endswith(".bpf.c")]
    assert programs
    strings = {name: re.findall(r'SEC\("license"\)\)?\s*=\s*"([^"]*)"', (ROOT / name).read_text()) for name in programs}
    assert {name: found for name, found in strings.items() if found != ["Dual BSD/GPL"]} == {}


def test_each_licence_has_its_text_and_no_other_is_there() -> None:
    used = {"MIT"} | {expected(name) for name in tracked() if name.endswith(CODE)}
    words = {word for text in used for word in re.split(r" (?:OR|AND|WITH) ", text)}
    assert {path.stem for path in (ROOT / "LICENSES").iterdir()} == words


def table() -> dict[str, str]:
    """Package -> licence, from the page's last table."""
    rows = (ROOT / "docs" / "ethics.md").read_text().partition("## Packages")[2].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")]
    return {row[0]: row[1] for row in cells[1:]}


def test_the_table_lists_every_dependency_and_no_other() -> None:
    extras = [line for extra in config()["options.extras_require"] for line in lines("options.extras_require", extra)]
    declared = {Requirement(line).name for line in [*lines("options", "install_requires"), *extras]}
    assert set(table()) == declared


def test_the_table_agrees_with_the_packages_own_words() -> None:
    assert offenders(agrees, table().items()) == {}


def agrees(row: tuple[str, str]) -> None:
    package, licence = row
    try:
        metadata = distribution(package).metadata
    except PackageNotFoundError:
        return
    stated = metadata.get("License-Expression")
    if metadata.get("License") == licence:
        return
    if stated:
        # numpy adds licences of files that it bundles.
        assert stated == licence or stated.startswith(f"{licence} AND ")
        return
    classifiers = [text.split("::")[-1].strip() for text in metadata.get_all("Classifier") or [] if "License" in text]
    words = [text.lower() for text in [metadata.get("License") or "", *classifiers]]
    if package in UNSTATED:
        assert not any(words), f"{package} states its licence now: take it off the list"
        return
    begins = SPELT_OTHERWISE[licence]
    assert any(word.startswith(begins) for word in words), words


def test_code_of_the_program_is_not_under_a_licence_that_its_dependencies_exclude() -> None:
    """Apache-2.0 and GPL-2.0-only cannot be one work: no file under GPL-2.0-only imports a package."""
    python = [name for name in tracked() if name.endswith(".py")]
    assert [name for name in python if "GPL" in named((ROOT / name).read_text())] == []
    assert (ROOT / "LICENSE").read_text() == (ROOT / "LICENSES" / "MIT.txt").read_text()
