# SPDX-License-Identifier: MIT
"""Lines of a file on their way to outcomes: numbered, checked, counted; a bad one costs itself and is named.

Rules for this file: memory does not grow with the file; of bad lines the first few are remembered, the rest counted.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from configtron.model.errors import BadInput
from configtron.model.nouns import Outcome

# A longer line is no line of any of these formats: web servers take requests of some 8 KiB.
LINE_BYTES = 1 << 20
Given = ParamSpec("Given")
Made = TypeVar("Made")
# Bad lines that are named; the others are counted.
NAMED = 5


@dataclass
class Reading:
    """The counts of a file's lines.

    name     the file's, for complaints
    unit     the unit of `number` in complaints: lines, or pages of an HTTP archive
    strict   raise `BadInput` at the first bad line
    lines    lines that were read, empty ones too
    bad      lines that cannot be read; `first` names the first few: "access.log, line 7: not JSON"
    remark   what all lines together show: that a proxy wrote them
    remarks  what to know of outcomes that were taken, and of how many
    left     good lines, or page views, that are no outcome: why, and how many
    last_ns  an outcome of a later date is refused
    """

    name: str
    strict: bool = False
    lines: int = 0
    bad: int = 0
    first: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    unit: str = "line"
    remark: str = ""
    remarks: Counter[str] = field(default_factory=Counter)
    last_ns: float = math.inf

    def refuse(self, number: int, what: object) -> None:
        """Count a bad line. Errors: `BadInput` where lines must all be good."""
        where = f"{self.name}, {self.unit} {number}: {what}"
        if self.strict:
            raise BadInput(where)
        self.bad += 1
        if len(self.first) < NAMED:
            self.first.append(where)

    def read(self, number: int, of: Callable[Given, Made], *given: Given.args, **more: Given.kwargs) -> Made | None:
        """Return what a reader makes of a line; None where it raises `BadInput`: the line is refused."""
        try:
            made = of(*given, **more)
            if isinstance(made, Outcome) and made.measured_at > self.last_ns:
                raise BadInput("its date is more than a day ahead of this machine's clock")
            return made
        except BadInput as error:
            self.refuse(number, error)
            return None


def numbered(raw: Iterable[bytes], reading: Reading, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers from 1, without empty ones; one too long (cut at `LINE_BYTES` + 1) or not UTF-8 is
    refused. `errors`: as of bytes.decode; servers log a User-Agent's bytes as they came."""
    for line in raw:
        reading.lines += 1
        if len(line) > LINE_BYTES:
            reading.refuse(reading.lines, f"longer than {LINE_BYTES} bytes")
            continue
        try:
            text = line.decode(errors=errors)
        except UnicodeDecodeError:
            reading.refuse(reading.lines, "not UTF-8; write the file in that")
            continue
        if reading.lines == 1:
            # Spreadsheets put the byte order mark before a header.
            text = text.removeprefix("\ufeff")
        if not text.isspace() and text:
            yield reading.lines, text


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON by itself."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def members(text: str, reading: Reading) -> Iterator[bytes]:
    """Return the members of an array of JSON, each as a line. Errors: `BadInput`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{reading.name}: an array that is no JSON ({error}); write it anew") from error
    reading.unit = "member"
    return (json.dumps(one).encode() for one in found)
