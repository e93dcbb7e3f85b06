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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from configtron.errors import BadInput
from configtron.learner.columns import Contexts, contexts_of
from configtron.learner.sim.sessions import Sessions
from configtron.learner.sim.traces import Piece, contexts_pieces, visited
from configtron.nouns import Context
from configtron.tensor import Tensor

NUMBERS = ("bandwidth_kbps", "rtt_ms", "loss")
CONTEXT = "configtron.context/"


# By client prefix: when, and what was known of the client then.
Clients = Mapping[str, Sequence[tuple[float, Context]]]


def captured(seen: Clients, tensor: Tensor, n: int, rng: np.random.Generator, name: str = "contexts") -> Sessions:
    """n sessions. Errors: `BadInput` where nobody is known well enough."""
    clients = {prefix: _pieces(contexts) for prefix, contexts in sorted(seen.items())}
    known = {prefix: (parts, count) for prefix, (parts, count) in clients.items() if parts}
    if not known:
        raise BadInput(f"{name}: no client whose bandwidth, round trip and loss are known at once")
    counts = np.array([count for _, count in known.values()], dtype=np.float64)
    shares = rng.multinomial(n, counts / counts.sum())
    found = [
        visited(parts, prefix, tensor, int(share), rng)
        for (prefix, (parts, _)), share in zip(known.items(), shares, strict=True)
    ]
    return _together(found, tuple(known), tensor)


def _pieces(seen: Sequence[tuple[float, Context]]) -> tuple[list[Piece], int]:
    """A client's times without change, and how many contexts it has; none where it is never known whole."""
    seen = sorted(seen, key=lambda pair: pair[0])
    try:
        at_s = np.array([at for at, _ in seen])
        return contexts_pieces(at_s, contexts_of([context for _, context in seen])), len(seen)
    except BadInput:
        return [], 0


def clients_of(text: str, name: str = "contexts") -> Clients:
    """The clients of contexts as JSON Lines. Errors: `BadInput`, by line."""
    found: dict[str, list[tuple[float, Context]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            form: dict[str, Any] = json.loads(line)
            if not str(form["schema"]).startswith(CONTEXT):
                continue
            context: dict[str, Any] = form["context"]
            kbps, rtt, loss = (float(context[key]) if key in context else None for key in NUMBERS)
            one = Context(kbps, rtt, loss, prefix=str(context.get("prefix", "")))
            found.setdefault(one.prefix, []).append((float(form["at"]), one))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadInput(f"{name}, line {number}: no context ({type(error).__name__}: {error})") from error
    return found


def _together(found: list[Sessions], prefixes: tuple[str, ...], tensor: Tensor) -> Sessions:
    """All clients' sessions in order of arrival."""
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
