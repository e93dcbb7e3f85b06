# SPDX-License-Identifier: MIT
"""The bundled target lists: `configtron/lists/NAME.txt`, a name a line; the first comment describes the list."""

from __future__ import annotations

from importlib.resources import files

from configtron.model.errors import BadInput
from configtron.probe.targets import Source, read


def bundled() -> dict[str, str]:
    """Return the description of each bundled list by its name, in the order of names."""
    folder = files("configtron") / "lists"
    found = {entry.name.removesuffix(".txt"): entry.read_text() for entry in folder.iterdir()}
    return {name: found[name].partition("\n")[0].removeprefix("# ") for name in sorted(found)}


def list_source(name: str) -> Source:
    """Return the text of a bundled list. Errors: `BadInput`."""
    entry = files("configtron") / "lists" / f"{name}.txt"
    if "/" in name or not entry.is_file():
        raise BadInput(f"@{name}: no such list; bundled are {', '.join(bundled())}; --input-file reads your own")
    return Source(f"@{name}", entry.read_text())


def hosts_in(name: str) -> list[str]:
    """Return the hosts of a bundled list, with or without its "@". Errors: `BadInput`."""
    return [target.host for target in read([list_source(name.removeprefix("@"))])]
