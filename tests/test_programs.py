# SPDX-License-Identifier: MIT
"""Every Debian package that the code asks people to install is one that the Makefile installs."""

from __future__ import annotations

import importlib
import re

from tests.support import ROOT
from tests.support.sources import sources

# Marked essential by Debian, or a dependency of one that is: on every machine.
ALWAYS_THERE = {"util-linux", "tar", "coreutils", "bash"}


def listed() -> set[str]:
    lines = (ROOT / "debian-packages.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")} | ALWAYS_THERE


def test_named_packages_are_installed_by_make() -> None:
    named: dict[str, str] = {}
    for _, file in sources():
        for words in re.findall(r"apt-get install((?: [a-z0-9.+-]+)+)", file.read_text()):
            named |= {word: file.name for word in words.split() if not word.startswith("-")}
    assert named, "no message names a package any more"
    assert {word: place for word, place in named.items() if word not in listed()} == {}


def test_programs_of_the_lab_host_are_installed_by_make() -> None:
    tables = [
        table
        for module in ("configtron.lab.uml.kernel", "configtron.lab.uml.enclosure")
        for name, table in vars(importlib.import_module(module)).items()
        if name.endswith("PROGRAMS") and isinstance(table, dict)
    ]
    assert tables
    assert {package for table in tables for package in table.values()} - listed() == set()


def test_servers_on_the_host_are_installed_by_make() -> None:
    from tests.support.servers import SERVERS

    wanted = {"nginx-light" if server.package == "nginx" else server.package for server in SERVERS.values()}
    assert wanted - listed() == set()
