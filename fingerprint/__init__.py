# SPDX-License-Identifier: MIT
"""INFERENCES: every way to read an answer. A reader is `infer(trace) -> observations`: pure, total, never raising.

One trace may answer several questions, so a reader names the probes whose traces it understands.

A question that one trace cannot answer is answered from all trials of one target and vantage: `across(trials by knob)
-> verdict or None`, pure and total; None if the trials show nothing of its question. The trial's reader keeps in its
details the facts that such a function needs. Such a function stands in the table of `grades.py`, imports `verdict`, and
not `merge`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from configtron.fingerprint import (
    craft,
    cwnd_at_request,
    data_rto,
    delayed_ack,
    ecn,
    h2_settings,
    http_version,
    icw,
    icw_tls,
    idle,
    negotiated_options,
    rwin,
    signature,
    stack,
    syn_cookies,
    synack_rto,
    tfo,
    tls_versions,
)
from configtron.model.nouns import Observation, Trace


@dataclass(frozen=True, slots=True)
class Inference:
    """One row: which probes' traces it reads, which knobs it may report, and how."""

    name: str
    probes: tuple[str, ...]
    knobs: tuple[str, ...]
    infer: Callable[[Trace], tuple[Observation, ...]]


# The ending of a probe whose packet could not be sent, and the names of a server's silence.
UNSENT, SILENT = "send-failed:", ("no-synack", "no-data")
# In the order in which they read a trace; each module has the name of its row.
INFERENCES = {
    name: Inference(name, module.PROBES, module.KNOBS, module.infer)
    for module in (
        icw, icw_tls, cwnd_at_request, synack_rto, syn_cookies, data_rto, rwin, signature, delayed_ack, idle, stack,
        negotiated_options, ecn, tfo, craft, http_version, h2_settings, tls_versions,
    )
    for name in [module.__name__.rpartition(".")[2]]
}  # fmt: skip


def read(trace: Trace, wanted: frozenset[str] | None = None) -> tuple[Observation, ...]:
    """Return the observations of a trace, in registry order: all, or only those of readers that report a
    `wanted` knob.

    Where a packet could not be sent, observations without an answer have that reason: no server was silent.
    """
    found: list[Observation] = []
    for inference in INFERENCES.values():
        if trace.probe in inference.probes and (wanted is None or not wanted.isdisjoint(inference.knobs)):
            found.extend(inference.infer(trace))
    if not trace.ending.startswith(UNSENT):
        return tuple(found)
    return tuple(replace(one, reason=trace.ending) if one.reason in SILENT else one for one in found)
