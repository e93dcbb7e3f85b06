# SPDX-License-Identifier: MIT
"""Contexts as `fingerprint live`, `socket` and `contexts` write them (JSON Lines), read back.

Dropped: of a watch's last line the losses, since they bound no context; a feature of an unknown name is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configtron.fingerprint.features import Sighting
from configtron.intake.imports.kinds import CONTEXT_SCHEMA, WATCH_SCHEMA
from configtron.intake.outcome_formats import context_of
from configtron.model.errors import BadInput

SOURCES, WAYS = ("live", "socket"), ("out", "in", "")


def sighting_of(form: Mapping[str, Any]) -> Sighting | None:
    """Return a line's sighting; None for the last line, which reports the losses of a watch. Errors: `BadInput`."""
    schema = form.get("schema")
    if schema == WATCH_SCHEMA:
        return None
    if schema != CONTEXT_SCHEMA:
        raise BadInput(f"no context: its schema is {str(schema)[:60]!r}, not {CONTEXT_SCHEMA}")
    try:
        local, unknown = form["local"], form["unknown"]
        context = context_of(form["context"])
        at, sent, got = round(float(form["at"]) * 1e9), int(form["bytes_out"]), int(form["bytes_in"])
        port, age = int(local["port"]), form.get("age_s")
        if form["source"] not in SOURCES or form["way"] not in WAYS or not 0 <= at < 2**63 or min(sent, got) < 0:
            raise BadInput("no context: source, way, at or bytes are none")
        reasons = tuple((str(name), str(why)) for name, why in unknown.items())
        return Sighting(
            form["source"], at, str(local.get("address", "")), port, "", 0, form["way"], str(form["ended"]),
            None if age is None else float(age), sent, got, bool(form["bounded"]), context, reasons,
        )  # fmt: skip
    except KeyError as error:
        raise BadInput(f"no context: {error.args[0]} is missing; `configtron fingerprint contexts -f jsonl` writes"
                       " whole ones") from error  # fmt: skip
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadInput(f"no context: {type(error).__name__} {str(error)[:60]}") from error
