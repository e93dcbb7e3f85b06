# SPDX-License-Identifier: MIT
"""The configuration of a run as the database keeps it: canonical JSON of its options, vantages and host."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from configtron import __version__
from configtron.model.nouns import Vantage
from configtron.model.records import Json, canonical
from configtron.service.campaign.run_options import ProbeOptions


def run_config(options: ProbeOptions, vantages: tuple[Vantage, ...], **more: str) -> str:
    """Return the configuration of a run as JSON. `more`: further keys, each with a text."""
    given = {name: _plain(value) for name, value in asdict(options).items()}
    places: list[Json] = [dict(asdict(vantage)) for vantage in vantages]
    return canonical({"version": __version__, "options": given, "vantages": places, **more})


def host_facts(argv: Sequence[str]) -> dict[str, str]:
    """Return where a run is made: the command line that asked for it, host, kernel, Python."""
    return {
        "argv": canonical(list(argv)),
        "host": platform.node(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def options_of(config: str) -> ProbeOptions:
    """Return the options that `run_config` wrote; keys of other versions are left out."""
    given = json.loads(config)["options"]
    kinds = {field.name: str(field.type) for field in fields(ProbeOptions)}
    return ProbeOptions(**{name: _typed(value, kinds[name]) for name, value in given.items() if name in kinds})


def _typed(value: Json, kind: str) -> Any:
    if isinstance(value, list):
        return tuple(Path(str(item)) if "Path" in kind else item for item in value)
    return Path(value) if "Path" in kind and isinstance(value, str) else value


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [item if isinstance(item, int | float) else str(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
