# SPDX-License-Identifier: MIT
"""Network conditions to draw from: bandwidth, round trip, loss and queue, jointly, in the shape of CT's four sources.

Question   Which networks do the clients of this trace have?
Method     ln bandwidth and ln round trip are normal and correlated (fast networks are near); loss is zero for a share
           of networks and lognormal for the others, the more the slower; the queue is some share of the pipe.
Stop when  n are drawn, or the kinds are listed (Pantheon).
Reads as   columns; every number is a parameter of a `Shape` below, with where it is from.
Fails as   `BadInput` for a shape that is none of SHAPES.
Differs    CT takes packets from CAIDA and MAWI and distributions from FCC and Pantheon. None of those data are here:
           a shape is a documented distribution. Two things of each are put in, from the paper, and so prove nothing
           when they come out: the 75th percentile of round trips, and Default's median page load time, which the
           median bandwidth is chosen for.
Source     CT section 6 (the sources, gains that imply the medians), 6.2 (75th percentiles of round trips); Pantheon's
           calibrated emulators (USENIX ATC 2018); speed-test percentiles of two European countries (spreads).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Floats
from configtron.model.errors import BadInput


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """(n,) each: kbit/s, ms, share of packets lost, packets the bottleneck's queue holds."""

    bandwidth_kbps: Floats
    rtt_ms: Floats
    loss: Floats
    queue_packets: Floats

    def __len__(self) -> int:
        return len(self.bandwidth_kbps)


@dataclass(frozen=True, slots=True)
class Shape:
    """A distribution of networks. Medians and spreads (ln) of bandwidth and round trip and their correlation; share of
    networks with loss, its median and spread; queue as a share of the pipe, median and spread."""

    median_kbps: float
    spread_kbps_ln: float
    median_rtt_ms: float
    spread_rtt_ln: float
    correlation: float
    lossy_share: float
    median_loss: float
    spread_loss_ln: float
    queue_pipes: float = 0.8
    spread_queue_ln: float = 0.8


# Default's median page load time, ms, that CT's gains imply for each source (19 % are 500 ms, and so on).
DEFAULT_MEDIAN_MS = {"pantheon": 2600.0, "mawi": 4700.0, "fcc": 2500.0, "caida": 2500.0}

# 75th percentile of the sources' round trips, ms (CT 6.2): (least, most); None: no more is stated.
RTT_P75_MS: dict[str, tuple[float, float | None]] = {
    "pantheon": (100.0, None), "mawi": (100.0, None), "fcc": (34.0, 34.0), "caida": (34.0, 34.0),
}  # fmt: skip

# Slow-down with loss: a network at a tenth of the median bandwidth is this many times as lossy.
LOSS_SLOWER = 3.0
# Nothing loses more: TCP makes no headway beyond, and neither CT nor HC go further than HC's 5 %.
MOST_LOSS = 0.08
# Queue in packets: routers hold no less, and more than this is seconds of delay.
QUEUE_PACKETS = (10.0, 1000.0)
# Nothing is slower or nearer than this on a path to a content network.
LEAST_KBPS, LEAST_RTT_MS = 200.0, 8.0
# Per path of Pantheon: clients differ by this much from the calibrated emulator, ln.
PATH_SPREAD_LN = 0.25

SHAPES: dict[str, Shape] = {
    # All networks equally often: the default where no trace is named.
    "spread": Shape(8300.0, 1.3, 130.0, 0.75, -0.3, 0.6, 0.008, 1.0),
    # A backbone link between exchange points: near mostly, few far, little loss.
    "caida": Shape(5800.0, 1.0, 21.2, 0.70, -0.3, 0.5, 0.004, 1.0),
    # A trans-Pacific link: everything is far.
    "mawi": Shape(4200.0, 1.1, 225.0, 0.45, -0.3, 0.6, 0.006, 1.0),
    # Fixed broadband as measured at home: cable, DSL and fibre, near, deep queues.
    "fcc": Shape(5450.0, 0.9, 22.7, 0.60, -0.4, 0.5, 0.004, 0.9, queue_pipes=1.5),
}


@dataclass(frozen=True, slots=True)
class CalibratedPath:
    """One of Pantheon's calibrated emulators. share: of sessions; ours, the source has none: mostly the slower ones."""

    name: str
    mbps: float
    one_way_ms: float
    loss: float
    queue_packets: float
    share: float


PANTHEON = (
    CalibratedPath("nepal-wifi", 0.57, 28.0, 0.0477, 14.0, 0.05),
    CalibratedPath("mexico-cellular", 2.64, 88.0, 0.0, 130.0, 0.29),
    CalibratedPath("colombia-cellular", 3.04, 130.0, 0.0, 426.0, 0.30),
    CalibratedPath("india-wired", 100.42, 27.0, 0.0, 173.0, 0.12),
    CalibratedPath("korea-china-wired", 77.72, 51.0, 0.0006, 94.0, 0.12),
    CalibratedPath("mexico-wired", 114.68, 45.0, 0.0, 450.0, 0.12),
)


def draw(shape: str, n: int, rng: np.random.Generator) -> Conditions:
    """Return n networks of a shape: a name of SHAPES, or "pantheon". Errors: `BadInput` for another name."""
    if shape == "pantheon":
        return _pantheon(n, rng)
    if shape not in SHAPES:
        raise BadInput(f"no trace shape is called {shape!r}; there is: {', '.join((*SHAPES, 'pantheon'))}")
    s = SHAPES[shape]
    normal = rng.standard_normal((n, 4))
    near = s.correlation * normal[:, 0] + np.sqrt(1.0 - s.correlation**2) * normal[:, 1]
    kbps = np.maximum(s.median_kbps * np.exp(s.spread_kbps_ln * normal[:, 0]), LEAST_KBPS)
    rtt = np.maximum(s.median_rtt_ms * np.exp(s.spread_rtt_ln * near), LEAST_RTT_MS)
    slow = (s.median_kbps / kbps) ** (np.log(LOSS_SLOWER) / np.log(10.0))
    some = rng.random(n) < s.lossy_share
    loss = np.where(some, np.minimum(s.median_loss * slow * np.exp(s.spread_loss_ln * normal[:, 2]), MOST_LOSS), 0.0)
    # kbit/s times ms are bits; packets of 1500 bytes have 12 000.
    pipe = kbps * rtt / 12_000.0
    queue = np.clip(pipe * s.queue_pipes * np.exp(s.spread_queue_ln * normal[:, 3]), *QUEUE_PACKETS)
    return Conditions(kbps, rtt, loss, queue)


def spread(n: int, rng: np.random.Generator) -> Conditions:
    """Return n networks when no trace is named."""
    return draw("spread", n, rng)


def _pantheon(n: int, rng: np.random.Generator) -> Conditions:
    which = rng.choice(len(PANTHEON), size=n, p=[path.share for path in PANTHEON])
    wrong = np.exp(PATH_SPREAD_LN * rng.standard_normal((2, n)))
    mbps, one_way, loss, queue = (
        np.array([getattr(path, name) for path in PANTHEON])[which]
        for name in ("mbps", "one_way_ms", "loss", "queue_packets")
    )
    return Conditions(mbps * 1000.0 * wrong[0], 2.0 * one_way * wrong[1], loss, queue)
