# SPDX-License-Identifier: MIT
"""Sessions of clients whose networks a capture shows: contexts over time, cut where they change.

Question   How would the clients of this capture have fared, had they asked for these sites?
Method     Contexts (`configtron fingerprint live -f jsonl`, kept ones by `fingerprint contexts`, or of a capture's
           connections) are put together by prefix; each client's times without change come from the change-point
           detector; its sessions fall uniformly on its time, as many as its share of all contexts.
Stop when  n sessions are drawn.
Reads as   `Sessions` in order of arrival; a session changes its network when its client did.
Fails as   `BadInput` for text that is none, or where no client's bandwidth, round trip and loss are known at once.
Differs    CT knows nothing of the sites of CAIDA's and MAWI's clients either: both draw them.
Source     CT section 6 (characteristics at the start, time to change, characteristics after).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from configtron.learner.columns import Contexts, contexts_of
from configtron.model.errors import BadInput
from configtron.model.nouns import Context
from configtron.model.tensor import Tensor
from configtron.studies.sim.brought import NUMBERS, near, possible, quoted
from configtron.studies.sim.sessions import Sessions
from configtron.studies.sim.traces import Piece, contexts_pieces, visited

CONTEXT, WATCH = "configtron.context/1", "configtron.watch/1"


# By client prefix: time, and the client's context at that time.
Clients = Mapping[str, Sequence[tuple[float, Context]]]


def captured(seen: Clients, tensor: Tensor, n: int, rng: np.random.Generator, name: str = "contexts") -> Sessions:
    """Return n sessions. Errors: `BadInput` where no client is known well enough, or times are further apart than a
    year."""
    clients = {prefix: _pieces(contexts) for prefix, contexts in sorted(seen.items())}
    known = {prefix: (parts, count) for prefix, (parts, count) in clients.items() if parts}
    if not known:
        raise BadInput(f"{name}: no client whose bandwidth, round trip and loss are known at once")
    begun_s = min(parts[0].begin_s for parts, _ in known.values())
    for parts, _ in known.values():
        near(parts[-1].end_s, begun_s, name)
    counts = np.array([count for _, count in known.values()], dtype=np.float64)
    shares = rng.multinomial(n, counts / counts.sum())
    found = [
        visited(parts, prefix, tensor, int(share), rng)
        for (prefix, (parts, _)), share in zip(known.items(), shares, strict=True)
    ]
    return _together(found, tuple(known), tensor)


def _pieces(seen: Sequence[tuple[float, Context]]) -> tuple[list[Piece], int]:
    """Return a client's times without change, and how many contexts it has; none where it is never known whole."""
    seen = sorted(seen, key=lambda pair: pair[0])
    try:
        at_s = np.array([at for at, _ in seen])
        return contexts_pieces(at_s, contexts_of([context for _, context in seen])), len(seen)
    except BadInput:
        return [], 0


def clients_of(text: str, name: str = "contexts") -> Clients:
    """Return the clients of contexts as JSON Lines; a watch's last line is passed over. Errors: `BadInput`, by line."""
    found: dict[str, list[tuple[float, Context]]] = {}
    first_s = None
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{name}, line {number}"
        if not line.strip() or (form := _form(line, where)) is None:
            continue
        at_s = _number(form, "at", where)
        if at_s is None:
            raise BadInput(f"{where}: a context has a time, `at`, in seconds")
        first_s = at_s if first_s is None else first_s
        one = _context(form, where)
        found.setdefault(one.prefix, []).append((near(at_s, first_s, where), one))
    return found


def _form(line: str, where: str) -> dict[str, Any] | None:
    """Return a line's object, if it is a context."""
    try:
        form = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: no JSON ({type(error).__name__}); a line is a context's object") from error
    if not isinstance(form, dict) or not isinstance(form.get("schema"), str):
        raise BadInput(f"{where}: no context: an object with a schema is wanted")
    if form["schema"] not in (CONTEXT, WATCH):
        raise BadInput(f"{where}: no context: its schema is {quoted(form['schema'])}, not {CONTEXT}")
    return form if form["schema"] == CONTEXT else None


def _context(form: dict[str, Any], where: str) -> Context:
    """Return the known context of the client. A bandwidth or round trip of 0 was too small to be measured: unknown."""
    context = form.get("context")
    if not isinstance(context, dict):
        raise BadInput(f"{where}: no context: `context` must be an object")
    kbps, rtt, loss = (_number(context, key, where) for key in NUMBERS)
    prefix = context.get("prefix") or ""
    if not isinstance(prefix, str):
        raise BadInput(f"{where}: the prefix must be text, not {quoted(prefix)}")
    return possible(Context(kbps or None, rtt or None, loss, prefix=prefix), where)


def _number(form: dict[str, Any], key: str, where: str) -> float | None:
    """Return a finite number; None where it is unknown."""
    value = form.get(key)
    if value is None:
        return None
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise BadInput(f"{where}: no context: {key} must be a finite number, not {quoted(value)}")
    return found


def _together(found: list[Sessions], prefixes: tuple[str, ...], tensor: Tensor) -> Sessions:
    """Return all clients' sessions in order of arrival."""
    names = ("at_s", "condition", "change_s", "after")
    columns = {key: np.concatenate([getattr(one, key) for one in found]) for key in names}
    seen = {key: np.concatenate([getattr(one.seen, key) for one in found]) for key in (*NUMBERS, "site")}
    prefix = np.repeat(np.arange(len(found)), [len(one) for one in found])
    order = np.argsort(columns["at_s"], kind="stable")
    # The replay's clock begins with its first session.
    at_s = columns["at_s"][order] - columns["at_s"].min(initial=np.inf)
    kbps, rtt, loss = (seen[key][order] for key in NUMBERS)
    shown = Contexts(kbps, rtt, loss, seen["site"][order], tensor.sites, prefix[order], prefixes)
    return Sessions(at_s, columns["condition"][order], columns["change_s"][order], columns["after"][order], shown)
