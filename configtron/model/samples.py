# SPDX-License-Identifier: MIT
"""Page loads as text: a shard of the testbed writes them line by line, the store keeps them, the tensor collects them.

A shard is one boot of the lab under one condition. Its file holds canonical JSON, one object a line, without the time
or the machine of the run: the same orders give the same bytes.

    {"kind": "shard", "condition": NAME, "network": {...}}           first: the network as read from the kernel
    {"kind": "stack", "configuration": N, "read_back": {...}}        the stack's settings as read from the kernel,
    {"kind": "stack", "configuration": N, "reason": "...", ...}      or why this configuration was not measured
    {"kind": "load", "configuration": N, "site": NAME, ...}          a page load, complete or failed
    {"kind": "path", "features": {...}}                              the path as the servers' kernel measured it
    {"kind": "end", "loads": N, "virtual_s": S}                      last: a file without it is an incomplete shard
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from configtron.model.errors import BadInput
from configtron.model.nouns import Value
from configtron.model.records import canonical
from configtron.model.repeats import StoppingRule, Verdict, judge

Pairs = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One stored page load; the numbers are those of the lab's client (`configtron/lab/testbed/loads.py`).

    repeat    from 0, within its cell
    failed    "", or a named reason; a failed load has no times
    plt_ms    from the request for the document to the last byte of the last object
    ttfb_ms   from that request to the first byte of the document's answer
    index_ms  mean time at which the parts of the first screen were present (as SpeedIndex)
    bytes     of all bodies
    neighbours_lost   bytes that this load took from other hosts' flows; None where there were no such flows
    """

    configuration: int
    site: str
    repeat: int
    failed: str = ""
    plt_ms: float | None = None
    ttfb_ms: float | None = None
    index_ms: float | None = None
    bytes: int = 0
    neighbours_lost: int | None = None


class Stack(NamedTuple):
    """A configuration in force: its settings as read back, or a named reason (and words) for a difference."""

    configuration: int
    read_back: Pairs = ()
    reason: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """A whole shard: settings as read back, all loads, their virtual time (s), and features of the path."""

    condition: str
    network: Pairs
    stacks: tuple[Stack, ...]
    samples: tuple[Sample, ...]
    virtual_s: float
    features: tuple[tuple[str, float], ...] = ()


class Cell(NamedTuple):
    """One judged cell of the tensor {condition x configuration x site}; `verdict.flag` names its fault."""

    condition: str
    configuration: int
    site: str
    verdict: Verdict
    samples: tuple[Sample, ...]


class Kept(NamedTuple):
    """A cell in the store, with its settings, the values read back, and its provenance."""

    condition: str
    configuration: int
    settings: tuple[tuple[str, Value], ...]
    site: str
    verdict: Verdict
    read_back: Pairs
    provenance: str
    plt_ms: tuple[float | None, ...]
    neighbours_lost: tuple[int | None, ...] = ()


def digest(*texts: str) -> str:
    """SHA-256 over texts, each apart from the next."""
    return hashlib.sha256("\0".join(hashlib.sha256(text.encode()).hexdigest() for text in texts).encode()).hexdigest()


def shard_line(condition: str, network: Mapping[str, str]) -> str:
    """The first line of a shard's file."""
    return canonical({"kind": "shard", "condition": condition, "network": dict(network)})


def stack_line(stack: Stack) -> str:
    """A configuration's line."""
    refused = {"reason": stack.reason, "words": stack.words}
    outcome: dict[str, Any] = dict(refused) if stack.reason else {"read_back": dict(stack.read_back)}
    return canonical({"kind": "stack", "configuration": stack.configuration, **outcome})


def sample_line(sample: Sample) -> str:
    """A page load's line."""
    form = sample._asdict()
    if sample.neighbours_lost is None:
        del form["neighbours_lost"]
    return canonical({"kind": "load", **form})


def path_line(features: Mapping[str, float]) -> str:
    """The line of a path's features."""
    return canonical({"kind": "path", "features": dict(features)})


def end_line(loads: int, virtual_s: float) -> str:
    """The last line of a shard's file."""
    return canonical({"kind": "end", "loads": loads, "virtual_s": virtual_s})


def filled_of(lines: Iterable[str], name: str) -> Filled:
    """A shard from its file's lines; `name` is how errors call it. Errors: `BadInput`, also for half a shard."""
    stacks: list[Stack] = []
    samples: list[Sample] = []
    first: dict[str, Any] = {}
    ended: dict[str, Any] = {}
    features: dict[str, Any] = {}
    try:
        for line in lines:
            form = json.loads(line)
            kind = form.pop("kind")
            if kind == "load":
                samples.append(Sample(**form))
            elif kind == "stack":
                stacks.append(_stack(form))
            elif kind == "shard":
                first = form
            elif kind == "path":
                features = form["features"]
            else:
                ended = form
        if not first or ended.get("loads") != len(samples):
            raise BadInput(f"{name}: half a shard: {len(samples)} loads and no end; run it again")
        network = _pairs(first["network"])
        path = tuple(sorted((str(name), float(value)) for name, value in features.items()))
        return Filled(first["condition"], network, tuple(stacks), tuple(samples), float(ended["virtual_s"]), path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{name}: no shard's file ({error}); remove it and resume the measurement") from error


def _stack(form: dict[str, Any]) -> Stack:
    words = (str(form.get(name, "")) for name in ("reason", "words"))
    return Stack(int(form["configuration"]), _pairs(form.get("read_back", {})), *words)


def _pairs(form: Mapping[str, Any]) -> Pairs:
    return tuple(sorted((str(name), str(value)) for name, value in form.items()))


def judged(filled: Filled, configurations: int, sites: Iterable[str], rule: StoppingRule) -> tuple[Cell, ...]:
    """Every cell of a shard, those that were not measured too: by configuration, then site."""
    held: dict[tuple[int, str], list[Sample]] = {}
    for sample in filled.samples:
        held.setdefault((sample.configuration, sample.site), []).append(sample)
    refused = {stack.configuration: stack.reason for stack in filled.stacks if stack.reason}
    order = tuple(sites)
    return tuple(
        Cell(filled.condition, at, site, _verdict(held.get((at, site), []), rule, refused.get(at, "")),
             tuple(held.get((at, site), ())))
        for at in range(configurations)
        for site in order
    )  # fmt: skip


def _verdict(samples: list[Sample], rule: StoppingRule, refused: str) -> Verdict:
    if refused:
        return Verdict(None, None, None, len(samples), refused)
    return judge(slowness(samples), rule, [sample.failed for sample in samples if sample.failed])


def slowness(samples: Iterable[Sample]) -> list[float]:
    """Page load times for `judge`: a failed load is slower than all others."""
    return [math.inf if sample.plt_ms is None else sample.plt_ms for sample in samples]
