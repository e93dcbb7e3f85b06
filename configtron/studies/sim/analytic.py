# SPDX-License-Identifier: MIT
"""The analytic PLT-tensor: page load times by a formula, for scale and for worlds that were not measured.

Question   How long would this site load under this configuration on this network, by models of TCP and HTTP?
Method     Handshake; rounds of slow start from ICW up to the pipe; the rest at the rate the congestion control holds
           under this loss and queue; HTTP/1.1's six connections (six windows, six shares, rounds per object) against
           h2's one (no rounds per object, but one loss holds up everything); retransmissions of a burst that overshoots
           the queue, less of them when paced; corking; the browser's own time. Each effect has a strength (`Strength`).
Stop when  computed, once per cell, for all at once.
Reads as   medians in ms; deterministic in (conditions, sites, strength, seed).
Fails as   nothing: conditions are positive by construction.
Differs    from CT, whose tensor is measured in a browser over netem: this one is a model and is labelled "analytic".
           Rankings and convergence on it are results; milliseconds saved are not.
Source     Cardwell, Savage and Anderson 2000 (short transfers); Mathis et al. 1997 (Reno); Ha, Rhee and Xu 2008
           (Cubic); Brakmo and Peterson 1995 (Vegas); Cardwell et al. 2016 (BBR); RFC 9113 (h2).

Learners never read a coefficient from here: tests/studies/test_analytic.py looks at their imports. a warm start is made
from `mis_specified`; `idiosyncratic` adds effects that no formula has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Floats
from configtron.model.grid import Grid, live_grid
from configtron.model.tensor import Tensor
from configtron.studies.sim.conditions import Conditions, spread
from configtron.studies.sim.pages import Pages, pages

# Payload of one segment on a path of MTU 1500 with timestamps, kilobytes.
SEGMENT_KB = 1.448
# Connections a browser opens to one host under HTTP/1.1.
CONNECTIONS = 6
# Packets that TCP sends in one piece per acknowledgement, and so the least a shallow queue must hold.
LEAST_QUEUE = 10.0
# Retransmission timeout: round trip and this floor (Linux TCP_RTO_MIN), ms.
LEAST_RTO_MS = 200.0
# Round trips of HTTP/1.1's requests in a row, per root of requests per connection: browsers overlap most of them.
REQUEST_ROUNDS = 0.8
# Timeouts that a lost packet holds up h2's page by: most losses are mended by a fast retransmission.
HEAD_TIMEOUTS = 0.6
# Timeouts that an initial window of twice the queue costs: the tail of a burst has no acknowledgements behind it.
BURST_TIMEOUTS = 0.45
# Round trips that spreading a window over one adds: a half, for the last packet, at half the windows of a load.
PACED_ROUNDS = 0.25
# Default of cells' own noise, ln: effects that no formula explains even in a world made by one.
OWN_LN, IDIOSYNCRATIC_LN = 0.03, 0.10
# How far a mis-specified world's strengths and cells are off, ln.
STRENGTH_OFF_LN, CELL_OFF_LN = 0.33, 0.06


@dataclass(frozen=True, slots=True)
class Strength:
    """How strongly each effect acts; all are without unit, 1 is the textbook's.

    loss         how much random loss slows a loss-based control
    cubic        Cubic's recovery against Reno's on long fat pipes
    vegas        share that Vegas yields to queues of others
    bbr          share of the loss that BBR does not mind
    probing      BBR's own cost: its drain phases, most where a deep queue would have kept others full
    parallel     gain of six connections' windows and shares
    requests     round trips that HTTP/1.1 spends on objects in a row
    head         cost of one loss for h2's only connection
    burst        cost of an initial window that overshoots the queue
    smooth       share of that which pacing saves
    held         cost of pacing for a window that would have fitted
    cork         gain (small objects, HTTP/1.1) and delay of corking
    """

    loss: float = 1.0
    cubic: float = 1.0
    vegas: float = 1.0
    bbr: float = 1.0
    probing: float = 1.0
    parallel: float = 1.0
    requests: float = 1.0
    head: float = 1.0
    burst: float = 1.0
    smooth: float = 1.0
    held: float = 1.0
    cork: float = 1.0

    def off_by(self, sigma_ln: float, rng: np.random.Generator) -> Strength:
        """Return each strength off by its own factor: the world of a user whose emulator is not the internet."""
        names = [field.name for field in fields(self)]
        factors = np.exp(sigma_ln * rng.standard_normal(len(names)))
        return replace(self, **{n: getattr(self, n) * float(f) for n, f in zip(names, factors, strict=True)})


TEXTBOOK = Strength()


def analytic(
    rng: np.random.Generator,
    *,
    conditions: Conditions | None = None,
    sites: Pages | None = None,
    grid: Grid | None = None,
    strength: Strength = TEXTBOOK,
    own_ln: float = OWN_LN,
    provenance: tuple[tuple[str, str], ...] = (),
) -> Tensor:
    """Return a tensor of conditions x grid x sites (300 x 168 x 12 unless given). own_ln: every cell's own deviation,
    ln."""
    here = spread(300, rng) if conditions is None else conditions
    what = pages(12) if sites is None else sites
    which = live_grid() if grid is None else grid
    canonical = which.canonical()
    ms = _medians(here, what, which, strength)[:, canonical]
    own = np.exp(own_ln * rng.standard_normal(ms.shape))[:, canonical]
    names = tuple(f"n{at}" for at in range(len(here)))
    medians = (ms * own).astype(np.float32)
    columns = (here.bandwidth_kbps, here.rtt_ms, here.loss, medians)
    return Tensor(which, what.names, names, *columns, "analytic", tuple(sorted(provenance)))


def idiosyncratic(rng: np.random.Generator, conditions: Conditions | None = None) -> Tensor:
    """Return a harder world: a tenth of every cell is its own and no formula's."""
    return analytic(rng, conditions=conditions, own_ln=IDIOSYNCRATIC_LN, provenance=(("variant", "idiosyncratic"),))


def mis_specified(rng: np.random.Generator, conditions: Conditions | None = None) -> Tensor:
    """Return an emulator that is wrong: other networks, every strength a third off, every cell 6 %. For warm starts."""
    strength = TEXTBOOK.off_by(STRENGTH_OFF_LN, rng)
    source = (("variant", "mis-specified"),)
    return analytic(rng, conditions=conditions, strength=strength, own_ln=CELL_OFF_LN, provenance=source)


def _medians(here: Conditions, what: Pages, grid: Grid, s: Strength) -> Floats:
    """Return (conditions, configurations, sites) ms."""
    kbps, rtt, loss, queue = (
        column[:, None, None] for column in (here.bandwidth_kbps, here.rtt_ms, here.loss, here.queue_packets)
    )
    knobs = _Knobs.of(grid)
    objects, kilobytes, small, own_ms = (
        column[None, None, :] for column in (what.objects, what.kilobytes, what.small_share, what.own_ms)
    )
    pipe_kb = kbps / 8.0 * rtt / 1000.0
    share = np.where(knobs.h2, 1.0, 1.0 / (1.0 + (CONNECTIONS - 1) * min(s.parallel, 1.5)))
    window_kb = knobs.icw * SEGMENT_KB / share
    start_ms, sent_kb = _slow_start(kilobytes, window_kb, pipe_kb, rtt)
    rate = kbps * _held_rate(kbps, rtt, loss, queue, share, knobs, s)
    rest_ms = np.maximum(kilobytes - sent_kb, 0.0) * 8000.0 / rate
    wire_ms = kilobytes * 8000.0 / kbps
    rows = np.where(knobs.h2, 0.0, REQUEST_ROUNDS * s.requests * np.sqrt(objects / CONNECTIONS)) * rtt
    timeout = np.maximum(LEAST_RTO_MS, rtt)
    segments = kilobytes / SEGMENT_KB
    hit = 1.0 - np.exp(-loss * np.minimum(segments, 4.0 * pipe_kb / SEGMENT_KB + 20.0))
    stopped = np.where(knobs.h2, s.head, 1.0 / CONNECTIONS) * hit * np.sqrt(1.0 + segments * loss)
    head = HEAD_TIMEOUTS * stopped * timeout
    over = np.maximum(window_kb / SEGMENT_KB - np.maximum(queue, LEAST_QUEUE), 0.0) / np.maximum(queue, LEAST_QUEUE)
    paced = knobs.paced * np.minimum(0.7 * s.smooth, 0.95)
    burst = BURST_TIMEOUTS * s.burst * (1.0 - paced) * np.minimum(over, 4.0) * timeout
    held = PACED_ROUNDS * s.held * knobs.paced * rtt * (window_kb < kilobytes)
    cork = knobs.cork * s.cork * (0.02 * rtt + 1.0 - 0.10 * small * (~knobs.h2) * wire_ms * (kbps < 4000.0))
    moving = np.maximum(start_ms + rest_ms, wire_ms) + rows + head + burst + held + cork
    found: Floats = own_ms + 2.0 * rtt + np.maximum(moving, rtt)
    return found


@dataclass(frozen=True, slots=True)
class _Knobs:
    """Columns over configurations, shaped (1, configurations, 1). control: names; the rest numbers and flags."""

    control: npt.NDArray[Any]
    icw: npt.NDArray[Any]
    h2: npt.NDArray[Any]
    paced: npt.NDArray[Any]
    cork: npt.NDArray[Any]

    @classmethod
    def of(cls, grid: Grid) -> _Knobs:
        """Return a grid's columns; a knob that the grid lacks is at its default."""
        columns = []
        defaults = ("cubic", 10, "http/1.1", "pfifo_fast", 1)
        names = ("tcp_congestion_control", "initcwnd", "http_version", "pacing", "tcp_autocorking")
        for name, default in zip(names, defaults, strict=True):
            found = [dict(profile.settings).get(name, default) for profile in grid.profiles]
            columns.append(np.array(found)[None, :, None])
        control, icw, version, pacing, cork = columns
        paced = (pacing == "fq") | (control == "bbr")
        return cls(control, icw.astype(np.float64), version == "h2", paced, cork.astype(np.float64))


def _slow_start(kilobytes: Floats, window_kb: Floats, pipe_kb: Floats, rtt: Floats) -> tuple[Floats, Floats]:
    """Return (ms spent in slow start, kilobytes sent by its end): windows double until page or pipe is full."""
    goal = np.minimum(np.maximum(pipe_kb, window_kb), kilobytes)
    rounds = np.log2(1.0 + goal / window_kb)
    return rounds * rtt, np.minimum(window_kb * (2.0**rounds - 1.0), kilobytes)


def _held_rate(
    kbps: Floats, rtt: Floats, loss: Floats, queue: Floats, share: Floats, knobs: _Knobs, s: Strength
) -> Floats:
    """Return the share of the bandwidth that each configuration holds after slow start, in (0, 1]."""
    pipe = kbps / 8.0 * rtt / 1000.0 / SEGMENT_KB
    lossy = np.maximum(loss, 1e-6)
    # Mathis with delayed acknowledgements: 0.87 / sqrt(loss) packets in flight, per connection.
    reno = 0.87 / np.sqrt(lossy) / (share * np.maximum(pipe, 1.0)) / s.loss
    cubic = reno * np.clip((rtt / 80.0) ** 0.35 * (kbps / 5000.0) ** 0.1, 0.9, 2.0) ** s.cubic
    shallow = np.clip(queue / np.maximum(pipe, 1.0), 0.05, 1.0)
    fill = 0.65 + 0.35 * shallow
    vegas = np.minimum(reno * 1.1, 1.0) * (1.0 - 0.15 * s.vegas * shallow) + 0.08 * (1.0 - shallow)
    drained = 1.0 - s.probing * (0.05 + 0.12 * shallow)
    bbr = drained * (1.0 - np.minimum(1.5 * loss / s.bbr, 0.6))
    held = np.select(
        [knobs.control == "reno", knobs.control == "vegas", knobs.control == "bbr"],
        [np.minimum(reno, 1.0) * fill, vegas, bbr],
        np.minimum(cubic, 1.0) * np.minimum(fill * 1.03, 1.0),
    )
    found: Floats = np.clip(held, 0.02, 1.0)
    return found
