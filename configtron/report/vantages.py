# SPDX-License-Identifier: MIT
"""Vantages: a line each for people, JSON Lines or CSV."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from configtron.model.nouns import Vantage
from configtron.report.rows import emit

REGION_COLUMNS = ("name", "region", "netns", "interface", "source_address", "source_address6", "resolver")


def write_vantages(vantages: Iterable[Vantage], form: str, out: TextIO) -> None:
    """Write vantages in that form: table, jsonl or csv."""
    if form == "table":
        out.writelines(map(_line, vantages))
    else:
        rows = [[str(getattr(each, name) or "") for name in REGION_COLUMNS] for each in vantages]
        emit(form, REGION_COLUMNS, rows, out, schema="configtron.regions/1")


def _line(vantage: Vantage) -> str:
    where = f"namespace {vantage.netns}" if vantage.netns else "the host's own namespace"
    by = (("by", vantage.interface), ("from", vantage.source_address), ("from", vantage.source_address6),
          ("resolver", vantage.resolver))  # fmt: skip
    more = "".join(f", {word} {value}" for word, value in by if value)
    return f"{vantage.name}\t{vantage.region}\t{where}{more}\n"
