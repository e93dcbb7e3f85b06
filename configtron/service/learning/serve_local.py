# SPDX-License-Identifier: MIT
"""`learn serve --local`: this host's driver, its page loads, and the loop between them, until a signal.

Needs the extras `learn` and `fleet`. With a driver that draws (`protocols.Drawing`) each client is drawn by the kernel;
with another one the unit is (prefix, epoch), drawn by the applier with the same hash.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configtron.intake.pageloads.intake import IntakeOptions, sites_of
from configtron.intake.receiving.http_endpoint import beacons_at
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.learner.registry import PREFERRED
from configtron.learner.rulebook import learned_profile
from configtron.learner.window_maker import INITIAL, LEAST_OF_PREFIX, MOST_LEARNED
from configtron.linux.notify import ready
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import BadInput, ConfigtronError
from configtron.model.grid import Grid, live_grid
from configtron.model.nouns import Profile
from configtron.service.faults import fault
from configtron.service.fleet.map_maker import LearningMaker
from configtron.service.fleet.stages import StageOptions, Stages
from configtron.service.learning.importable import check_classes, importable
from configtron.service.learning.local_loop import (
    AGENT,
    GuardedMaker,
    LocalApplying,
    LocalLearning,
    LoopStep,
    mixes_text,
)
from configtron.service.learning.loop_pages import loop_texts
from configtron.service.lease.options import AUTO, LeaseOptions
from configtron.service.text_listener import listener_place, listening
from configtron.tune.guard import Limits, limits_of, unasked
from configtron.tune.pools import for_kernel

if TYPE_CHECKING:
    from nacl.signing import SigningKey

    from configtron.service.fleet.enforcement import JournaledEnforcement

log = logging.getLogger("configtron.fleet")

# s between two turns of the loop.
TURN_S = 0.25
# Clients of one epoch that a prefix needs to be listed. A driver that does not draw knows of prefixes alone.
CLIENTS, PREFIXES_ALONE = 20, 1


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """lease: database, driver, place and limits; maps: as `MapOptions`, whose `least_clients` 0 is chosen by the
    driver; policy: a row of `learn policies`; begin_with, budget: as in `LoopOptions`; host, port: where beacons
    come; log_path, log_group: socket of the web server's access log, as in `PagesOptions`; keys: folder of the key
    that signs maps; fresh: forget what was learned, and learn from the stored outcomes anew; stages: how maps reach
    clients; page: HOST:PORT of the live page and of /metrics, "" for none; strategies: shares of `--policy initial`,
    sites: as of `sites_of`; both as they are typed."""

    lease: LeaseOptions
    keys: Path
    policy: str = PREFERRED
    holdback: float = 0.05
    epoch_s: int = 600
    seed: int = 1
    least_clients: int = 0
    begin_with: int = 2_000
    budget: float = 0.01
    host: str = "127.0.0.1"
    port: int = 0
    log_path: Path | None = None
    log_group: str = ""
    fresh: bool = False
    ports: tuple[int, ...] = field(default=(80, 443))
    stages: StageOptions = StageOptions()
    page: str = ""
    strategies: str = ""
    sites: str = ""

    def __post_init__(self) -> None:
        """Check texts and the port. Errors: `BadInput`."""
        check_texts(self)
        check_number("port", self.port, 0, 65_535, whole=True)
        sites_of(self.sites)
        if self.page:
            listener_place(self.page, "--page")


def serve_options(
    database: Path, *, driver: str | None = None, bound: Sequence[str] = (), allow_unfair: bool | None = None,
    beacons: str = "127.0.0.1:9315", least_clients: int | None = None,
    stages: bool = True, stage_clients: int = 10_000, dark_hours: int = 0, **given: Any,
) -> ServeOptions:  # fmt: skip
    """Return options as they are typed. Errors: `BadInput`."""
    host, port = beacons_at(beacons)
    lease = LeaseOptions(database, driver or AUTO, limits=limits_of(bound, bool(allow_unfair)))
    staged = StageOptions(stage_clients, dark_hours, stages)
    return ServeOptions(lease, database.parent / "fleet", host=host, port=port, least_clients=least_clients or 0,
                        stages=staged, **given)  # fmt: skip


def barred_here(refused: Callable[[Profile], str], limits: Limits) -> Callable[[Profile], str]:
    """Return why a profile is no choice of the learner's: refused here, or too much to be tried unasked."""
    return lambda profile: refused(profile) or unasked(profile, limits)


def reachable_grid(barred: Callable[..., str], grid: Grid | None = None) -> Grid:
    """Return the configurations that driver, operator and guard take, Default among them. Errors: `BadInput` where
    Default is all there is."""
    whole = live_grid() if grid is None else grid
    able = [at for at in range(len(whole)) if at == whole.default or not barred(learned_profile(whole, at))]
    if len(able) < 2:
        why = next(barred(learned_profile(whole, at)) for at in range(len(whole)) if at != whole.default)
        raise BadInput(f"no configuration but Default may be used here, so there is nothing to learn: {why}")
    return whole.only(able)


def loop_options(options: ServeOptions, grid: Grid, owned: tuple[str, ...], names: frozenset[str], draws: bool
                 ) -> LoopOptions:  # fmt: skip
    """Return the options of the maker. owned, names: prefixes and profiles that a human set."""
    maps = map_options(options, owned, names, draws)
    return LoopOptions(grid, options.policy, maps, options.begin_with, budget=options.budget)


def map_options(options: ServeOptions, owned: tuple[str, ...], names: frozenset[str], draws: bool) -> MapOptions:
    """Return how maps are made. owned, names: prefixes and profiles that a human set."""
    least = options.least_clients or (CLIENTS if draws else PREFIXES_ALONE)
    return MapOptions(options.seed, options.holdback, least, epoch_s=options.epoch_s, ports=options.ports, owned=owned,
                      owned_profiles=names)  # fmt: skip


def local_maker(
    options: ServeOptions, barred: Callable[[Profile], str], owned: tuple[str, ...], names: frozenset[str], draws: bool
) -> tuple[LearningMaker, MapOptions]:
    """Return the policy's maker, and how its maps are made. Errors: `BadInput`, `Missing`."""
    from configtron.service.fleet.makers import check_strategies, window_maker

    check_strategies(options.policy, options.strategies)
    if options.policy == INITIAL:
        least = options.least_clients or LEAST_OF_PREFIX
        maps = replace(map_options(options, owned, names, draws), least_clients=least, new_prefixes=MOST_LEARNED)
        return window_maker(options.lease.database, maps, options.strategies), maps
    made = loop_options(options, reachable_grid(barred), owned, names, draws)
    return LoopMapMaker(made, secrets.token_bytes(16)), made.map


def serve_local(options: ServeOptions, stop: Callable[[], bool], seen: Callable[[LoopStep], None] = lambda _: None
                ) -> None:  # fmt: skip
    """Run the loop until `stop` returns true, asked some times a second; then what stood before is put back.

    seen  gets each turn that applied a map or turned the epoch

    Errors: `BadInput` for options, keys or database; `Missing` for the driver; `Refused` where another database acts
    here, or another loop has the same database.
    """
    from configtron.db.agent_journal import AgentJournal
    from configtron.fleet.transport.curve_keys import signing_key
    from configtron.service.fleet.agent import wanted_by_humans
    from configtron.service.fleet.applier import Applier
    from configtron.service.fleet.enforcement import JournaledEnforcement
    from configtron.service.fleet.makers import draw_key
    from configtron.service.fleet.retuning import ClassRetuning
    from configtron.service.lease.context import context_of
    from configtron.service.lease.planner import chosen

    importable([options.policy])
    check_classes()
    key = signing_key(options.keys)
    with AgentJournal(options.lease.database) as journal:
        driver = chosen(context_of(journal), options.lease, for_kernel(journal.wanted()))
        enforcement = JournaledEnforcement(options.lease, journal, driver)
        humans = wanted_by_humans(journal)
        owned = tuple(humans.prefixes), frozenset(humans.profiles)
        barred = barred_here(enforcement.barred, options.lease.limits)
        maker, maps = local_maker(options, barred, *owned, enforcement.draws)
        boot = secrets.token_hex(8)
        stages = options.stages.made(draw_key(key), maker.note, maps)
        learner = LearningThread(options.lease.database, maker, barred, key, boot, fresh=options.fresh,
                                 stages=stages)  # fmt: skip
        applier = Applier(enforcement, key.verify_key, humans, enforcement.human_rules())
        applier.frozen = enforcement.frozen()
        unit = "draws for each client" if enforcement.draws else "is drawn for, prefix by prefix"
        log.info("driver %s %s; policy %s", driver.name, unit, options.policy)
        try:
            learning = learner.begun()
            applying = LocalApplying(learning, applier, key.verify_key, ClassRetuning(applier, enforcement))
            asyncio.run(_run(options, applying, enforcement, learner, stop, seen))
        finally:
            learner.end()
            enforcement.release()


class LearningThread(threading.Thread):
    """The learning half in its thread, to which its connection to the database belongs: a lease of seconds is renewed
    while an update takes longer."""

    def __init__(self, database: Path, maker: LearningMaker, barred: Callable[[Profile], str], key: SigningKey,
                 boot: str, *, fresh: bool = False, stages: Stages | None = None) -> None:  # fmt: skip
        super().__init__(name="learning", daemon=True)
        self._stages = stages
        self._database, self._maker, self._barred, self._key, self.boot = database, maker, barred, key, boot
        self._fresh = fresh
        self._learning: LocalLearning | None = None
        self._begun, self._over = threading.Event(), threading.Event()
        self.error: ConfigtronError | None = None

    def begun(self) -> LocalLearning:
        """Begin, and return the learning half. Errors: those of `run`."""
        self.start()
        self._begun.wait()
        self.check()
        assert self._learning is not None
        return self._learning

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """Let it end; what is under way is finished."""
        self._over.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        from configtron.db.fleet import FleetStore
        from configtron.service.fleet.manager_core import ManagerCore, forget_learned

        try:
            with FleetStore(self._database) as store:
                # As a manager's: the process's number comes again, after a reboot or in a container.
                name = f"{socket.gethostname()}/{time.time_ns() // 1_000_000:x}"
                if self._fresh:
                    forget_learned(store)
                guarded = GuardedMaker(self._maker, self._barred)
                core = ManagerCore(store, guarded, self._key, name, time.time_ns(), self._stages)
                self._learning = LocalLearning(core, self._maker, self.boot)
                self._learning.turn(time.monotonic(), time.time_ns())
                self._begun.set()
                while not self._over.wait(TURN_S):
                    self._learning.turn(time.monotonic(), time.time_ns())
        except ConfigtronError as error:
            self.error = error
        except Exception as error:
            # A fault of this program must not leave the other half running without a learner.
            log.debug("learning ended", exc_info=True)
            self.error = ConfigtronError(f"learning ended by {fault(error)}; rules are taken back. Run it with -vv for"
                                         " the report, and start it again: it goes on from the database")  # fmt: skip
        finally:
            self._begun.set()


def until(stop: Callable[[], bool], span_s: float | None) -> Callable[[], bool]:
    """Return whether `stop` asks for the end, or so many seconds have passed since now; None: no such end."""
    end_s = math.inf if span_s is None else time.monotonic() + span_s
    return lambda: stop() or time.monotonic() >= end_s


async def _run(
    options: ServeOptions, applying: LocalApplying, enforcement: JournaledEnforcement, learner: LearningThread,
    stop: Callable[[], bool], seen: Callable[[LoopStep], None],
) -> None:  # fmt: skip
    """Take page loads in, serve the page, and turn the loop."""
    from configtron.intake.pageloads.plan_book import PlanBook
    from configtron.intake.receiving.ended_sockets import EndedSockets, boottime_ns
    from configtron.intake.receiving.http_endpoint import PORT
    from configtron.service.outcomes.local_outcomes import LOG_PATH, LocalOutcomes
    from configtron.service.outcomes.root_reader import RecordsInForce
    from configtron.service.outcomes.web_group import web_group

    book, learning = PlanBook(enforcement.draws), applying.learning
    source: RecordsInForce | EndedSockets
    if enforcement.draws:
        source = RecordsInForce(enforcement.drawing)
    else:
        source = enforcement.marker = EndedSockets(options.ports)
    outcomes = LocalOutcomes(AGENT, learner.boot, source, book, learning.rows, options.log_path or LOG_PATH,
                             IntakeOptions(sites_of(options.sites)),
                             log_group=web_group(options.log_group, options.ports))  # fmt: skip
    place = listener_place(options.page, "--page") if options.page else None

    def turn() -> None:
        learner.check()
        step = applying.turn(time.clock_gettime(time.CLOCK_BOOTTIME), time.time_ns())
        applying.applier.activations.pass_on(book, boottime_ns())
        if step.applied is not None:
            log.info("map %d.%d: %s; %s", step.applied.term, step.applied.version, mixes_text(step.applied),
                     learning.learned())  # fmt: skip
        if step.applied is not None or step.moved or step.retuned is not None:
            seen(step)

    await outcomes.start(options.host, options.port or PORT)
    try:
        with listening(place, loop_texts(options.lease.database, outcomes=outcomes), "--page"):
            log.info("log lines are read at %s, beacons at %s port %d", outcomes.reader.lines.access(), options.host,
                     outcomes.pages.endpoint.port)  # fmt: skip
            turn()
            ready()
            while not stop():
                await asyncio.sleep(TURN_S)
                # What stops this process may have stopped its watchdogs: they are not started anew then.
                if not stop():
                    turn()
    finally:
        await outcomes.stop()
