# SPDX-License-Identifier: MIT
"""A manual page in man(7). It carries no date, so the same command gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import cleandoc
from typing import NamedTuple


class ManualPage(NamedTuple):
    """A command. usage: after its name; help: as Click takes it; options, commands: (name, text) of each."""

    path: str
    version: str
    short_help: str
    usage: str
    help: str
    options: Sequence[tuple[str, str]]
    commands: Sequence[tuple[str, str]]

    def text(self) -> str:
        """Return the page."""
        name = self.path.replace(" ", "-")
        lines = [
            f'.TH "{name.upper()}" "1" "" "configtron {self.version}" "configtron manual"',
            ".SH NAME",
            f"{_roff(name)} \\- {_roff(self.short_help.rstrip('.'))}",
            ".SH SYNOPSIS",
            f"\\fB{_roff(self.path)}\\fR {_roff(self.usage)}",
            ".SH DESCRIPTION",
            *_paragraphs(self.help),
            ".SH OPTIONS",
        ]
        for names, about in self.options:
            lines += (".TP", f"\\fB{_roff(names)}\\fR", _line(about))
        if self.commands:
            lines.append(".SH COMMANDS")
        for word, about in self.commands:
            lines += (".TP", f"\\fB{_roff(word)}\\fR", _line(f"{about} See {name}-{word}(1)."))
        return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in cleandoc(text).split("\n\n"):
        literal = paragraph.startswith("\b\n")
        yield ".PP"
        if literal:
            yield ".nf"
        yield from (_line(line) for line in paragraph.removeprefix("\b\n").split("\n"))
        if literal:
            yield ".fi"


def _line(text: str) -> str:
    """Return a line of text, escaped: one that begins with a dot or a quote would be a request."""
    escaped = _roff(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _roff(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
