# SPDX-License-Identifier: MIT
"""docs/fingerprint.md names every reason that code can give, and no other; a family, `tls:*`, is one row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support import ROOT
from tests.support.sources import nodes, sources

ROW = re.compile(r"^\| `([a-z0-9:*-]+)` \| (.+?) \| (.+?) \|$", re.M)
# Functions whose argument at that place is a reason, and names that hold one.
GIVERS = {"no": 1, "_none": 1, "Opening": 2, "EngineFailed": 0, "Answer": 1}
HOLDERS = {"reason", "failed", "error", "ending"}
PAGE = next(
    part for part in (ROOT / "docs" / "fingerprint.md").read_text().split("\n## ") if part.startswith("Reasons\n")
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
    given: list[ast.expr | None] = []
    for node in nodes(source):
        match node:
            case ast.Call(func=ast.Name(id=name), args=args) if name in GIVERS and len(args) > GIVERS[name]:
                given.append(args[GIVERS[name]])
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if name in HOLDERS:
                given.append(value)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=table)
                | ast.AnnAssign(target=ast.Name(id=name), value=table)
            ) if name.endswith("REASONS"):
                given += table_values(table)
            case ast.FunctionDef(returns=ast.Name(id="Script" | "StreamScript")):
                given += [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
        if isinstance(node, ast.Call):
            given += [keyword.value for keyword in node.keywords if keyword.arg in HOLDERS]
    found = {word for node in given for word in words(node)}
    return {word for word in found if re.fullmatch(r"[a-z0-9-]+(:[a-z0-9-]+)?", word)} - NOT_REASONS


def table_values(table: ast.expr | None) -> list[ast.expr]:
    match table:
        case ast.Dict(values=values):
            return values
        case ast.Tuple(elts=rows) | ast.List(elts=rows):
            return [row.elts[-1] for row in rows if isinstance(row, ast.Tuple)]
    return []


# The files that measure.
MEASURING = {
    str(file): file.read_text()
    for name, file in sources()
    if name.startswith(("configtron.probe", "configtron.fingerprint"))
}
DOCUMENTED = {reason: (means, do) for reason, means, do in ROW.findall(PAGE)}


def row_of(reason: str) -> str:
    """`tls:*` of "tls:not-tls"; a reason without a family is its own row."""
    family, colon, _ = reason.partition(":")
    return f"{family}:*" if colon else reason


def test_every_reason_and_each_detail_of_a_family_is_documented() -> None:
    given = {word: name for name, text in MEASURING.items() for word in reasons_in(text)}
    assert len(given) > 10, "the search finds nothing any more"
    assert {word: place for word, place in given.items() if row_of(word) not in DOCUMENTED} == {}
    assert {word for word in given if ":" in word and f"`{word.partition(':')[2]}`" not in PAGE} == set()


def test_every_documented_reason_is_given() -> None:
    """By any string of the code; a family by one that begins so."""
    text = "\n".join(MEASURING.values())
    assert [r for r in DOCUMENTED if f'"{r}"' not in text and f'"{r.removesuffix("*")}' not in text] == []


def test_the_search_sees_reasons() -> None:
    source = (
        "def f(trace):\n    return no('icw', 'one' if trace else 'two', trace)\n"
        "def g() -> Script:\n    if (yield 1): return 'three'\n    return 'done'\n"
        "failed = 'four' or x\nREASONS = ((KeyError, 'five'),)\nh(error='six')\n"
    )
    assert reasons_in(source) == {"one", "two", "three", "four", "five", "six"}
