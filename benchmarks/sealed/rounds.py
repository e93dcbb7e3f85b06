# SPDX-License-Identifier: MIT
"""Pages over TCP, round trip by round trip: windows, a queue, losses, connections, waves of objects.

Question   How long does each page take on each network under each configuration, if TCP does what its RFCs say?
Method     A page is loaded in waves: a wave is requested when the one before has arrived. A wave's packets go over one
           connection (h2) or up to six (HTTP/1.1). In each round every connection sends a window; what exceeds the
           path and its buffer is lost, and each packet by chance; the congestion control does the rest. All
           configurations of a network and site meet the same random numbers. A cell's time is the mean of two loads.
Stop when  all packets of all waves have arrived, or after 150 rounds of a wave; its rest then takes the path's rate.
Reads as   (conditions, configurations, sites) ms.
Differs    from every formula: effects of knobs are no terms of it, they emerge.
Source     RFC 5681 (slow start, congestion avoidance), RFC 9438 (CUBIC), Brakmo and Peterson 1995 (Vegas), Cardwell et
           al. 2016 (BBR), RFC 6298 (timers), RFC 9113 (HTTP/2), RFC 9112 section 9.4 (connections).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from configtron.model.grid import Grid

Array = npt.NDArray[Any]
MTU, MOST_ROUNDS, PAGES, LEAST_WINDOW = 1448.0, 150, 2, 2.0
# How much of a request is hidden behind what other connections still receive.
OVERLAP = 0.6
CONNECTIONS, LEAST_RTO_S = 6, 0.2
CUBIC_C, CUBIC_BETA, RENO_BETA = 0.4, 0.7, 0.5
STARTUP = 2.885


@dataclass(frozen=True, eq=False)
class Paths:
    """(n,) each: packets a second, round trip s, loss, buffer packets, receive window packets."""

    rate: Array
    rtt_s: Array
    loss: Array
    buffer: Array
    window: Array


@dataclass(frozen=True, eq=False)
class Pages:
    """(sites, waves): packets and objects of each wave; (sites,) server think s, hosts."""

    packets: Array
    objects: Array
    think_s: Array
    hosts: Array


def pages(rng: np.random.Generator, sites: int) -> Pages:
    """Three waves a site: the document, what lays it out, what fills it."""
    document = np.exp(rng.normal(np.log(18), 0.6, sites))
    layout = np.exp(rng.normal(np.log(120), 0.8, sites))
    content = np.exp(rng.normal(np.log(420), 1.0, sites)) * (rng.random(sites) > 0.12)
    objects = np.stack((np.ones(sites), rng.integers(2, 14, sites), rng.integers(4, 70, sites)), axis=1)
    think = rng.gamma(2.0, 0.03, sites)
    return Pages(np.stack((document, layout, content), axis=1), objects, think, rng.integers(1, 5, sites))


def times_ms(rng: np.random.Generator, paths: Paths, site: Pages, grid: Grid) -> npt.NDArray[np.float32]:
    """(conditions, configurations, sites) ms. Knobs that the grid lacks are at Linux's defaults."""
    total: Array = np.zeros((len(paths.rate), len(grid), len(site.think_s)))
    for _ in range(PAGES):
        for at in range(len(site.think_s)):
            total[:, :, at] += 1e3 * _page(rng, paths, site, at, _settings(grid))
    return (total / PAGES).astype(np.float32)


def _settings(grid: Grid) -> dict[str, Array]:
    chosen = [dict(profile.settings) for profile in grid.profiles]
    plain = {"tcp_congestion_control": "cubic", "initcwnd": 10, "pacing": "pfifo_fast", "http_version": "http/1.1"}
    found = {key: np.array([one.get(key, default) for one in chosen])[None, :] for key, default in plain.items()}
    corking = np.array([one.get("tcp_autocorking", 1) for one in chosen])[None, :]
    return found | {"tcp_autocorking": corking}


def _page(rng: np.random.Generator, paths: Paths, site: Pages, at: int, knobs: dict[str, Array]) -> Array:
    """(conditions, configurations) s of one page."""
    h2 = knobs["http_version"] == "h2"
    took: Array = np.zeros((len(paths.rate), h2.shape[1]))
    rtt = paths.rtt_s[:, None]
    state = _Flow(paths, knobs)
    for wave in range(site.packets.shape[1]):
        packets, objects = float(site.packets[at, wave]), float(site.objects[at, wave])
        if packets <= 0:
            continue
        many = min(CONNECTIONS, objects)
        n = np.where(h2, 1.0, many)
        # Handshakes of TCP and TLS, of each new host's connections in turn with the rest.
        opening = 2.0 * rtt if wave == 0 else 0.35 * rtt * (site.hosts[at] - 1) * np.where(h2, 0.6, 1.0)
        # A request and its answer's first byte; without streams objects queue behind one another.
        turns = np.where(h2, 1.0, np.ceil(objects / many))
        asked = rtt * (1.0 + (1.0 - OVERLAP) * (turns - 1.0)) + site.think_s[at] * (1.0 + 0.15 * (turns - 1.0))
        # Not gathering small writes sends more packets of the same page.
        small = np.where(knobs["tcp_autocorking"] == 1, 1.0, 1.0 + 0.25 * objects / (packets + 10.0 * objects))
        took += opening + asked + state.send(rng, packets * small, n)
    return took


class _Flow:
    """State of connections from wave to wave: window, threshold, the congestion control's variables."""

    def __init__(self, paths: Paths, knobs: dict[str, Array]):
        self.paths, control = paths, knobs["tcp_congestion_control"]
        shape = (len(paths.rate), control.shape[1])
        self.reno, self.cubic, self.vegas, self.bbr = (
            np.broadcast_to(control == name, shape) for name in ("reno", "cubic", "vegas", "bbr")
        )
        self.paced = np.broadcast_to(knobs["pacing"] == "fq", shape) | self.bbr
        self.window: Array = np.broadcast_to(knobs["initcwnd"].astype(float), shape).copy()
        self.threshold: Array = np.full(shape, np.inf)
        self.top, self.since = self.window.copy(), np.zeros(shape)
        self.queue: Array = np.zeros(shape)
        self.best, self.flat = np.zeros(shape), np.zeros(shape)
        self.turn = 0

    def send(self, rng: np.random.Generator, packets: Array, n: Array) -> Array:
        """(conditions, configurations) s until all packets are there."""
        left = np.broadcast_to(packets, self.window.shape).copy()
        took: Array = np.zeros(self.window.shape)
        for chance in _chances(rng, len(self.paths.rate)):
            busy = left > 0
            if not busy.any():
                return took
            left, took = self._round(chance, left, took, np.broadcast_to(n, left.shape), busy)
        rest: Array = took + left / self.paths.rate[:, None]
        return rest

    def _round(self, chance: Array, left: Array, took: Array, n: Array, busy: Array) -> tuple[Array, Array]:
        path, base = self.paths, self.paths.rtt_s[:, None]
        rate, room = path.rate[:, None], path.buffer[:, None]
        pipe = rate * base
        offered = np.minimum(np.minimum(n * self.window, n * path.window[:, None]), left)
        # An unpaced flight arrives as a burst, half of which finds the path still busy with the other half.
        burst = np.where(self.paced, 0.0, 0.5 * np.minimum(offered, 64.0))
        over = np.maximum(0.0, np.maximum(self.queue + offered - pipe - room, burst - room - 8.0))
        over = np.minimum(over, 0.7 * offered)
        by_chance = 1.0 - (1.0 - path.loss[:, None]) ** offered
        lost_some = (over > 0.5) | (chance[:, :1] < by_chance)
        lost = over + np.where(chance[:, :1] < by_chance, np.maximum(1.0, path.loss[:, None] * offered), 0.0)
        self.queue = np.clip(self.queue + offered - over - pipe, 0.0, room)
        trip = base + self.queue / rate
        trip = np.where(self.paced, trip + 0.3 * base * (self.turn < 1), trip)
        self.turn += 1
        lasting = np.where(left > offered, np.maximum(trip, offered / rate), trip * 0.5 + offered / rate)
        # Too few packets behind a loss to show it, or the last ones lost: a timer, else another round.
        blind = lost_some & ((offered < 4.0 * n) | ((left <= offered) & (chance[:, 1:] < 0.35)))
        timer = np.maximum(LEAST_RTO_S, 2.0 * trip)
        # One connection's hole holds up all its streams, several only a share.
        waits = np.where(blind, timer / np.sqrt(n), np.where(lost_some, trip / n, 0.0))
        took = np.where(busy, took + lasting + waits, took)
        left = np.where(busy, np.maximum(left - offered + np.minimum(lost, 0.9 * offered), 0.0), left)
        left = np.where(left < 0.5, 0.0, left)
        self._answer(lost_some, blind, offered, trip, base, rate, n, busy)
        return left, took

    def _answer(
        self, lost: Array, blind: Array, offered: Array, trip: Array, base: Array, rate: Array, n: Array, busy: Array
    ) -> None:
        """Update each congestion control's window after a round."""
        w = self.window
        share = np.where(lost, 1.0 / n, 0.0)
        beta = np.where(self.cubic, CUBIC_BETA, RENO_BETA)
        cut = np.maximum(w * (1.0 - share * (1.0 - beta)), LEAST_WINDOW)
        rising = w < self.threshold
        self.since = np.where(lost, 0.0, self.since + trip)
        self.top = np.where(lost, w, self.top)
        pivot = np.cbrt(self.top * (1.0 - CUBIC_BETA) / CUBIC_C)
        curve = np.maximum(CUBIC_C * (self.since - pivot) ** 3 + self.top, w + 0.53)
        waiting = w * (1.0 - base / trip)
        even = self.turn % 2 == 0
        careful = np.where(rising, np.where(waiting > 1.0, w * 0.75, w * (2.0 if even else 1.0)),
                           w + np.where(waiting < 2.0, 1.0, np.where(waiting > 4.0, -1.0, 0.0)))  # fmt: skip
        grown = np.where(rising, 2.0 * w, np.where(self.cubic, np.minimum(curve, 1.5 * w), w + 1.0))
        grown = np.where(self.vegas, careful, grown)
        after = np.where(lost, np.where(blind, np.maximum(w * (1.0 - 0.7 * share), 1.0), cut), grown)
        self.threshold = np.where(lost & ~self.bbr, cut, np.where(self.vegas & (waiting > 1.0), w, self.threshold))
        got = np.minimum(offered / trip, rate)
        more = got > 1.25 * self.best
        self.flat = np.where(more, 0.0, self.flat + 1.0)
        self.best = np.maximum(self.best, got)
        model = np.where(self.flat < 3.0, w * STARTUP, np.maximum(2.0 * self.best * base / n, 4.0))
        self.window = np.where(busy, np.maximum(np.where(self.bbr, model, after), 1.0), w)


def _chances(rng: np.random.Generator, n: int) -> Iterator[Array]:
    """Each round's uniform random numbers, (conditions, 2): the same for all configurations."""
    yield from rng.random((MOST_ROUNDS, n, 2))
