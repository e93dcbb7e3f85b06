# SPDX-License-Identifier: MIT
"""Clients and servers of a closed loop in one process and virtual time: loads under a map, as rows of outcomes.

The truth is a PLT-tensor: a client's prefix has a condition, a load's time is one of the cell's measured repeats (or
its median with noise). What is drawn for whom comes from `configtron.model.draw`, as a kernel draws it. A learner gets
`OutcomeRow`s and nothing else; `Loads` also holds what happened, for who judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.model.draw import HELD, Key, Mix, Plan, draws, is_held
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.siphash import Words
from configtron.model.tensor import Tensor

# Rate and round trip of a prefix, and each sample of it, are off by so much, ln.
PREFIX_OFF_LN, SAMPLE_OFF_LN = 0.05, 0.05
# Noise of a load beside the repeats that were measured, ln.
LOAD_LN = 0.05
# First address of the made clients: 10.0.0.0.
FIRST = 10 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """(n,) clients: address, prefix, how often each loads a page; (prefixes,) continent and condition of each prefix,
    and its own factor on rate and round trip (prefixes, 2)."""

    address: Words
    prefix: Codes
    weight: Floats
    continent: Codes
    condition: Codes
    factor: Floats
    continents: tuple[str, ...] = ("all",)

    def __len__(self) -> int:
        return len(self.address)

    def prefix_name(self, at: int) -> str:
        """Return a prefix as rows have it."""
        start = FIRST + at * 256
        return f"{start >> 24}.{start >> 16 & 255}.{start >> 8 & 255}.0/24"

    def moved(self, prefixes: Codes, condition: Codes) -> Clients:
        """Return the same clients, some prefixes with another condition each."""
        now = self.condition.copy()
        now[prefixes] = condition
        return replace(self, condition=now)


def clients_of(mixtures: dict[str, dict[int, float]], prefixes: int, clients: int, rng: np.random.Generator) -> Clients:
    """Return clients of continents. mixtures: continent -> weight of each condition; prefixes of a continent, clients
    of a prefix. Every condition of a continent has a prefix, where there are enough."""
    condition, continent = [], []
    for at, mixture in enumerate(mixtures.values()):
        chance = np.array(list(mixture.values())) / sum(mixture.values())
        first = np.array(list(mixture))[:prefixes]
        rest = rng.choice(np.array(list(mixture)), prefixes - len(first), p=chance)
        condition += [first, rest]
        continent += [at] * prefixes
    every = prefixes * len(mixtures)
    prefix = np.repeat(np.arange(every), clients)
    host = np.tile(np.arange(clients) + 1, every)
    address = (FIRST + prefix * 256 + host).astype(np.uint64)
    weight = np.exp(0.5 * rng.standard_normal(len(address)))
    factor = np.exp(PREFIX_OFF_LN * rng.standard_normal((every, 2)))
    return Clients(address, prefix, weight / weight.sum(), np.array(continent), np.concatenate(condition), factor,
                   tuple(mixtures))  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Loads:
    """(n,) loads of an epoch: client, site, configuration in the tensor's grid, ms; arm, its class and propensity;
    whether the client is held back; condition, and the chance of each load, for `LiveWorld.instead`."""

    epoch: int
    client: Codes
    site: Codes
    configuration: Codes
    plt_ms: Floats
    arm: Codes
    class_name: tuple[str, ...]
    propensity: Floats
    held: Codes
    condition: Codes
    chance: Floats
    noise: Floats
    rows: Sequence[OutcomeRow] = field(default=())


class LiveWorld:
    """What happens to pages of these clients under a map.

    slow  configuration -> factor on its load times; lost: agents whose clients the next one serves, with the same map
    """

    def __init__(self, tensor: Tensor, clients: Clients, seed: int, *, loads: int = 2_000, agents: int = 4):
        self.tensor, self.clients, self.seed, self.loads, self.agents = tensor, clients, seed, loads, agents
        self.slow: dict[int, float] = {}
        self.lost: set[int] = set()
        self._sequence = [0] * agents

    def epoch(self, number: int, fleet_map: FleetMap, epoch_s: int | None = None) -> Loads:
        """Return the loads of an epoch, all under one map. The same seed and epoch have the same clients, sites and
        noise, whatever the map."""
        rng = np.random.default_rng((self.seed, number))
        who = rng.choice(len(self.clients), self.loads, p=self.clients.weight)
        site = rng.integers(len(self.tensor.sites), size=self.loads)
        chance, noise = rng.random(self.loads), np.exp(LOAD_LN * rng.standard_normal(self.loads))
        wrong = np.exp(SAMPLE_OFF_LN * rng.standard_normal((2, self.loads)))
        at_s = np.sort(rng.random(self.loads))
        drawn = Drawer(fleet_map, number)
        names = self._classes(fleet_map, who)
        units = np.array([0xFFFF << 32], dtype=np.uint64) | self.clients.address[who]
        arm, propensity, held = drawn.arms(units, names)
        configuration = self._configurations(fleet_map, names, arm)
        condition = self.clients.condition[self.clients.prefix[who]]
        ms = self._loaded(condition, configuration, site, chance) * noise * self._slower(configuration)
        made = Loads(number, who, site, configuration, ms, arm, names, propensity, held, condition, chance, noise)
        length_s = fleet_map.epoch_s if epoch_s is None else epoch_s
        times = ((number + at_s) * length_s * 1e9).astype(np.int64)
        return replace(made, rows=self._rows(made, fleet_map, times, wrong, condition, drawn))

    def instead(self, made: Loads, configuration: Codes) -> Floats:
        """Return (n,) what the same loads would have taken under other configurations, by the same chance, in ms."""
        found = self._loaded(made.condition, configuration, made.site, made.chance) * made.noise
        return found * self._slower(configuration)

    def _slower(self, configuration: Codes) -> Floats:
        return np.array([self.slow.get(int(at), 1.0) for at in configuration])

    def _classes(self, fleet_map: FleetMap, who: Codes) -> tuple[str, ...]:
        """Return each client's class: of its prefix, else of its round trip's band, "" for none."""
        of_prefix = [self._class_of(fleet_map, at) for at in range(len(self.clients.condition))]
        return tuple(of_prefix[at] for at in self.clients.prefix[who])

    def _class_of(self, fleet_map: FleetMap, prefix: int) -> str:
        name = fleet_map.prefixes.get(self.clients.prefix_name(prefix), "")
        if name:
            return name
        rtt_us = self.tensor.rtt_ms[self.clients.condition[prefix]] * self.clients.factor[prefix, 1] * 1000.0
        return next((band.class_name for band in fleet_map.bands if rtt_us <= band.up_to_us), "")

    def _configurations(self, fleet_map: FleetMap, names: tuple[str, ...], arm: Codes) -> Codes:
        """Return what each load's profile is in the tensor's grid; Default where nothing was drawn."""
        grid, found = self.tensor.grid, {}
        for name, mix in fleet_map.mixes.items():
            for at, (profile, _) in enumerate(mix):
                found[name, at] = grid.index(Profile("", fleet_map.profiles[profile].settings))
        drawn = zip(names, arm.tolist(), strict=True)
        return np.array([found.get(one, grid.default) for one in drawn], dtype=np.int64)

    def _loaded(self, condition: Codes, configuration: Codes, site: Codes, chance: Floats) -> Floats:
        tensor = self.tensor
        if tensor.repeats_ms is None:
            return tensor.lookup(condition, configuration, site)
        repeats = tensor.repeats_ms[condition, configuration, site].astype(np.float64)
        known = np.maximum((~np.isnan(repeats)).sum(axis=1), 1)
        ordered = np.sort(repeats, axis=1)
        found: Floats = ordered[np.arange(len(chance)), (chance * known).astype(np.int64)]
        return np.where(np.isnan(found), tensor.lookup(condition, configuration, site), found)

    def _rows(self, made: Loads, fleet_map: FleetMap, times: Codes, wrong: Floats, condition: Codes, drawn: Drawer
              ) -> list[OutcomeRow]:  # fmt: skip
        tensor, clients, rows = self.tensor, self.clients, []
        prefix = clients.prefix[made.client]
        kbps = tensor.bandwidth_kbps[condition] * clients.factor[prefix, 0] * wrong[0]
        rtt = tensor.rtt_ms[condition] * clients.factor[prefix, 1] * wrong[1]
        server = (clients.address[made.client] % np.uint64(self.agents)).astype(int)
        for at in range(len(made.client)):
            agent = int(server[at])
            while agent in self.lost:
                agent = (agent + 1) % self.agents
            self._sequence[agent] += 1
            name, arm = made.class_name[at], int(made.arm[at])
            mine = bool(made.held[at])
            mix = fleet_map.mixes.get(name)
            further = {
                key: float(column[condition[at]] * wrong[0, at])
                for key, column in tensor.characteristics.items()
                if not np.isnan(column[condition[at]])
            }
            rows.append(
                OutcomeRow(
                    f"web{agent}", "boot", self._sequence[agent], int(times[at]), tensor.sites[made.site[at]],
                    clients.prefix_name(int(prefix[at])), drawn.unit(int(clients.address[made.client[at]])),
                    float(made.plt_ms[at]), fleet_map.term, fleet_map.version, made.epoch, name if mix else "",
                    arm if mix and not mine else None, mix[arm][0] if mix and not mine else "",
                    float(made.propensity[at]) if mix else None, mine, rtt_ms=float(rtt[at]),
                    bandwidth_kbps=float(kbps[at]), loss=float(tensor.loss[condition[at]]), more=further,
                )
            )  # fmt: skip
        return rows


class Drawer:
    """The kernel's draw of an epoch, under a map."""

    def __init__(self, fleet_map: FleetMap, epoch: int):
        self.secret, key = fleet_map.key, Key.of(fleet_map.key)
        bands = tuple((band.up_to_us, band.class_name) for band in fleet_map.bands)
        self.plan = Plan(key, epoch, 0, fleet_map.holdback, "", bands)
        self.mixes = {
            name: Mix(tuple(one for one, _ in mix), tuple(parts for _, parts in mix))
            for name, mix in fleet_map.mixes.items()
        }

    def arms(self, units: Words, names: tuple[str, ...]) -> tuple[Codes, Floats, Codes]:
        """Return arm, propensity and whether it is held back of each unit, by its class; `HELD` and 1 for no class."""
        arm, propensity = np.full(len(units), HELD, dtype=np.int64), np.ones(len(units))
        of_class = np.array(names)
        for name, mix in self.mixes.items():
            mine = of_class == name
            arm[mine], propensity[mine] = draws(self.plan, mix, units[mine])
        return arm, propensity, is_held(self.plan, units).astype(np.int64)

    def unit(self, address: int) -> str:
        """Return what an agent reports in place of a client: useless in the next epoch."""
        words = self.plan.epoch.to_bytes(8, "big") + address.to_bytes(8, "big")
        return blake2b(words, digest_size=8, key=self.secret).hexdigest()
