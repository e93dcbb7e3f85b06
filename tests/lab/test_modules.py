# SPDX-License-Identifier: MIT
"""Trees that modules are built in: made whole or not at all, and without a trace in the module's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.lab.uml import kernel, modules, recipes
from configtron.model.errors import Missing

EMPTY = """\
#include <linux/module.h>
static int __init empty_init(void) { return 0; }
static void __exit empty_exit(void) { }
module_init(empty_init);
module_exit(empty_exit);
MODULE_LICENSE("GPL");
"""


def test_each_kernel_has_a_tree_of_its_own() -> None:
    folders = [modules.tree_folder(recipe) for recipe in (recipes.LAB, recipes.UML_DEBUG, recipes.X86_DEBUG)]
    assert len({*folders, *(kernel.kernel_folder(recipe) for recipe in (recipes.LAB, recipes.UML_DEBUG))}) == 5


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "empty.c").write_text(EMPTY)
    (sources / "Kbuild").write_text("obj-m := empty.o\n")
    return sources


@pytest.mark.lab
def test_a_module_is_built_beside_its_sources(tmp_path: Path, empty: Path) -> None:
    tree = modules.ensure_tree(print)
    (built,) = modules.make_module(empty, tmp_path / "built", tree, recipes.LAB.arch)
    assert built.name == "empty.ko" and b"vermagic=6.12" in built.read_bytes()
    assert sorted(path.name for path in empty.iterdir()) == ["Kbuild", "empty.c"]


@pytest.mark.lab
def test_what_the_compiler_says_is_handed_on(tmp_path: Path, empty: Path) -> None:
    (empty / "empty.c").write_text(EMPTY.replace("return 0", "return nothing"))
    with pytest.raises(Missing, match="nothing.*undeclared"):
        modules.make_module(empty, tmp_path / "built", modules.ensure_tree(print), recipes.LAB.arch)
