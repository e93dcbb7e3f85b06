# SPDX-License-Identifier: MIT
"""docs/fingerprint.md names every reason that code can give, and no other; a family, `tls:*`, is one row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT
from tests.support.sources import nodes, sources

ROW = re.compile(r"^\| `([a-z0-9:*-]+)` \| (.+?) \| (.+?) \|$", re.M)
# Functions whose argument at that place is a reason, and names that hold one.
GIVERS = {"no": 1, "_none": 1, "Opening": 2, "EngineFailed": 0, "Answer": 1}
HOLDERS = {"reason", "failed", "error", "ending"}
# More reasons than this are no overview any more; the detail goes behind a family's colon.
MOST_ROWS = 20
PAGE = next(
    part for part in (ROOT / "docs" / "fingerprint.md").read_text().split("\n## ") if part.startswith("Reasons\n")
)
# Names that became details of a family.
OLD = re.compile(
    r"(dns-|goaway-|tls-alert:|tls-error:|tls-version$|not-tls$|no-alpn$|bad-server-name$|no-settings$|timeout$"
    r"|first-frame-not-settings$|first-segment-lost$|no-ack$|one-repeat$|slow-answer$|tcp-closed$)"
)
# What an ending or a holder may also say, without being a reason.
NOT_REASONS = {"", "done", "quiet", "verified", "unverified", "rst"}


def words(node: ast.expr | None) -> Iterator[str]:
    """String constants that an expression may become."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from words(one)
            yield from words(other)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from words(part)


def reasons_in(source: str) -> set[str]:
    found: set[str] = set()
    for node in nodes(source):
        match node:
            case ast.Call(func=ast.Name(id=name), args=given) if name in GIVERS and len(given) > GIVERS[name]:
                found |= set(words(given[GIVERS[name]]))
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if name in HOLDERS:
                found |= set(words(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=table) if name.endswith("REASONS"):
                found |= {text for part in table_values(table) for text in words(part)}
            case ast.AnnAssign(target=ast.Name(id=name), value=table) if name.endswith("REASONS"):
                found |= {text for part in table_values(table) for text in words(part)}
            case ast.FunctionDef(returns=ast.Name(id="Script" | "StreamScript")):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return):
                        found |= set(words(inner.value))
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in HOLDERS:
                    found |= set(words(keyword.value))
    return {word for word in found if re.fullmatch(r"[a-z0-9-]+(:[a-z0-9-]+)?", word)} - NOT_REASONS


def table_values(table: ast.expr | None) -> list[ast.expr]:
    match table:
        case ast.Dict(values=values):
            return values
        case ast.Tuple(elts=rows) | ast.List(elts=rows):
            return [row.elts[-1] for row in rows if isinstance(row, ast.Tuple)]
    return []


def measuring() -> list[Path]:
    return [file for name, file in sources() if name.startswith(("configtron.probe", "configtron.fingerprint"))]


def documented() -> dict[str, tuple[str, str]]:
    return {reason: (means, do) for reason, means, do in ROW.findall(PAGE)}


def row_of(reason: str) -> str:
    """`tls:*` of "tls:not-tls"; a reason without a family is its own row."""
    family, colon, _ = reason.partition(":")
    return f"{family}:*" if colon else reason


def test_every_reason_is_documented() -> None:
    given = {word: file.name for file in measuring() for word in reasons_in(file.read_text())}
    assert len(given) > 10, "the search finds nothing any more"
    assert {word: place for word, place in given.items() if row_of(word) not in documented()} == {}


def test_every_documented_reason_is_given() -> None:
    """By any string of the code; a family by one that begins so."""
    text = "\n".join(file.read_text() for file in measuring())
    assert [r for r in documented() if f'"{r}"' not in text and f'"{r.removesuffix("*")}' not in text] == []


def test_details_of_families_are_explained() -> None:
    given = {word for file in measuring() for word in reasons_in(file.read_text()) if ":" in word}
    assert {word for word in given if f"`{word.partition(':')[2]}`" not in PAGE} == set()


def test_reasons_can_be_counted_on_one_page() -> None:
    assert 10 < len(documented()) <= MOST_ROWS


def test_names_of_before_are_gone() -> None:
    """A family's names as they once were would be rows of their own in every count."""
    written = {text for file in measuring() for text in texts_in(file.read_text())}
    assert [text for text in sorted(written) if OLD.match(text)] == []


def texts_in(source: str) -> Iterator[str]:
    for node in nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_rows_are_in_order_and_whole() -> None:
    rows = list(documented())
    assert rows == sorted(rows) and rows
    assert all(means.strip() and do.strip() for means, do in documented().values())


def test_the_search_sees_reasons() -> None:
    source = (
        "def f(trace):\n    return no('icw', 'one' if trace else 'two', trace)\n"
        "def g() -> Script:\n    if (yield 1): return 'three'\n    return 'done'\n"
        "failed = 'four' or x\nREASONS = ((KeyError, 'five'),)\nh(error='six')\n"
    )
    assert reasons_in(source) == {"one", "two", "three", "four", "five", "six"}
