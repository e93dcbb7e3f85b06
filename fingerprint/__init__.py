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
INFERENCES = {
    row.name: row
    for row in (
        Inference("icw", icw.PROBES, icw.KNOBS, icw.infer),
        Inference("icw_tls", icw_tls.PROBES, icw_tls.KNOBS, icw_tls.infer),
        Inference("cwnd_at_request", cwnd_at_request.PROBES, cwnd_at_request.KNOBS, cwnd_at_request.infer),
        Inference("synack_rto", synack_rto.PROBES, synack_rto.KNOBS, synack_rto.infer),
        Inference("syn_cookies", syn_cookies.PROBES, syn_cookies.KNOBS, syn_cookies.infer),
        Inference("data_rto", data_rto.PROBES, data_rto.KNOBS, data_rto.infer),
        Inference("rwin", rwin.PROBES, rwin.KNOBS, rwin.infer),
        Inference("signature", signature.PROBES, signature.KNOBS, signature.infer),
        Inference("delayed_ack", delayed_ack.PROBES, delayed_ack.KNOBS, delayed_ack.infer),
        Inference("idle", idle.PROBES, idle.KNOBS, idle.infer),
        Inference("stack", stack.PROBES, stack.KNOBS, stack.infer),
        Inference("negotiated_options", negotiated_options.PROBES, negotiated_options.KNOBS, negotiated_options.infer),
        Inference("ecn", ecn.PROBES, ecn.KNOBS, ecn.infer),
        Inference("tfo", tfo.PROBES, tfo.KNOBS, tfo.infer),
        Inference("craft", craft.PROBES, craft.KNOBS, craft.infer),
        Inference("http_version", http_version.PROBES, http_version.KNOBS, http_version.infer),
        Inference("h2_settings", h2_settings.PROBES, h2_settings.KNOBS, h2_settings.infer),
        Inference("tls_versions", tls_versions.PROBES, tls_versions.KNOBS, tls_versions.infer),
    )
}


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
