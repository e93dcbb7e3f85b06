# SPDX-License-Identifier: MIT
"""Orders that guests carry out in parts, a boot each, and what each order came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from configtron.studies.guests.parts import Part, performed
from configtron.studies.registry.kinds import Arguments

Asked = TypeVar("Asked")
Result = TypeVar("Result")


@dataclass(frozen=True)
class GuestOrders(Generic[Asked, Result]):
    """guest: its module; what: the orders' name in the plural; text, results: orders and results as text and back;
    reason: why a result is void, "" where it is not."""

    guest: str
    what: str
    text: Callable[[Sequence[Asked]], str]
    results: Callable[[str], list[Result]]
    reason: Callable[[Result], str]

    def performed(
        self, arguments: Arguments, name: str, asked: Sequence[Asked], each: int
    ) -> tuple[list[tuple[Asked, Result]], str]:
        """Return each order with its result, void ones left out, and which parts of `each` orders failed, with how many
        orders did. Errors: `Missing`; `BadInput` for results that cannot be read."""
        chunks = [asked[at : at + each] for at in range(0, len(asked), each)]
        wanted = [Part(f"{name}-{number}", self.guest, self.text(some)) for number, some in enumerate(chunks, 1)]
        pairs, missing = list[tuple[Asked, Result]](), []
        for some, done in zip(chunks, performed(arguments, wanted), strict=True):
            if done.why:
                missing.append(f"{done.part.name}: {done.why}")
                continue
            results = self.results(done.text)
            pairs += [pair for pair in zip(some, results, strict=True) if not self.reason(pair[1])]
            if failed := [why for one in results if (why := self.reason(one))]:
                missing.append(f"{done.part.name}: {len(failed)} {self.what} failed, the first: {failed[0]}")
        return pairs, "; ".join(missing)
