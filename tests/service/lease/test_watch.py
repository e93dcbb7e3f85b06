# SPDX-License-Identifier: MIT
"""A watch that could not look, or could not keep what it saw, looks at all the next time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Answers, Changes, Difference, Place, Rules
from configtron.service import lease
from configtron.service.lease.context import LeaseContext
from configtron.service.lease.watcher import Watcher
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.journal import KEPT, REPLACED, Transaction
from tests.support.memory_stack import Stack, here, stack

__all__ = ["here", "stack"]

SCOPE = "10.1.0.0/16"
RULES = Rules({"web": Profile("web", (("initcwnd", 20),))}, {SCOPE: "web", "10.2.0.0/16": "web"})


class EventRecorder:
    """The kernel's news of the shared memory: each prefix is reported once, whatever becomes of the report."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.written, self.fails = stack, set[str](), False

    def news(self, _: MemoryDriver) -> tuple[frozenset[str], Rules]:
        written, self.written = frozenset(self.written), set()
        if self.fails:
            raise Refused("the routing tables change faster than they can be read")
        rules = self.stack.rules
        return written, Rules(rules.profiles, {p: name for p, name in rules.prefixes.items() if p in written})


@pytest.fixture
def recorder(here: LeaseContext, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> EventRecorder:
    """In force, and looked at once."""
    stack.driver.apply(Changes(RULES.profiles, RULES.prefixes))
    here.journal.begin(Transaction("memory", Place(), here.namespace, here.boot, KEPT, "{}", RULES))
    reported = EventRecorder(stack)
    monkeypatch.setattr(MemoryDriver, "news", lambda driver: reported.news(driver), raising=False)
    return reported


def scopes(watcher: Watcher) -> list[tuple[str, str]]:
    return [(event.event, event.scope) for event in watcher.turn()]


@pytest.mark.parametrize("what", ["heard", "written"])
def test_what_was_seen_when_the_driver_or_the_disk_failed_is_not_lost(
    here: LeaseContext, recorder: EventRecorder, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(*_: object) -> None:
        raise BadInput("the disk is full")

    watcher = Watcher(here)
    assert scopes(watcher) == []
    recorder.stack.driver.apply(Changes(dropped_prefixes=frozenset({SCOPE})))
    recorder.written.add(SCOPE)
    with monkeypatch.context() as failing:
        failing.setattr(*((recorder, "fails", True) if what == "heard" else (Tuning, "freeze", full)))
        assert scopes(watcher) == [("failed", "")]
    assert scopes(watcher) == [("foreign", SCOPE)]


def test_a_storm_is_one_event_by_one_reading(here: LeaseContext, recorder: EventRecorder) -> None:
    many = {f"10.3.{n}.0/24": "web" for n in range(200)}
    recorder.stack.driver.apply(Changes(prefixes=many))
    rules = Rules(RULES.profiles, {**RULES.prefixes, **many})
    here.journal.put(replace(here.journal.acts(KEPT)[0], status=REPLACED))
    number = here.journal.begin(Transaction("memory", Place(), here.namespace, here.boot, KEPT, "{}", rules)).id
    watcher = Watcher(here)
    assert scopes(watcher) == []
    recorder.stack.driver.apply(Changes(dropped_prefixes=frozenset(many)))
    recorder.written |= many.keys()
    asked, kept = [0], recorder.news

    def news(driver: MemoryDriver) -> tuple[frozenset[str], Rules]:
        asked[0] += 1
        return kept(driver)

    recorder.news = news  # type: ignore[method-assign]
    (event,) = watcher.turn()
    assert event.scope.startswith("200 prefixes, e.g. 10.3.") and asked == [1]
    assert {frozen.scope for frozen in here.journal.frozen()} == many.keys()
    assert len(here.journal.known(number)) == 200 and watcher.turn() == []


@pytest.mark.parametrize(("lost", "asked"), [(frozenset[str](), 1), (frozenset(RULES.prefixes), 0)])
def test_the_kernel_is_asked_at_the_turn_after_all_was_read_unless_all_was_lost(
    here: LeaseContext, recorder: EventRecorder, monkeypatch: pytest.MonkeyPatch, lost: frozenset[str], asked: int
) -> None:
    led = Difference(SCOPE, "lookup", "table 7", "table 254")
    monkeypatch.setattr(MemoryDriver, "ask", lambda _, rules: Answers(1, 1, (led,)), raising=False)
    recorder.stack.driver.apply(Changes(dropped_prefixes=lost))
    watcher = Watcher(here)
    watcher.turn()
    assert scopes(watcher) == [("foreign", SCOPE)] * asked and watcher.turn() == []


@pytest.mark.parametrize(("asked", "span_s"), [([False, True], None), ([True], 60.0), ([False], 0.0)])
def test_a_watch_ends_when_it_is_stopped_or_its_time_is_over(
    tmp_path: Path, asked: list[bool], span_s: float | None
) -> None:
    answers, notices = iter(asked), list[lease.Notice]()
    options = lease.LeaseOptions(tmp_path / "t.db")
    lease.watch(options, lambda events: None, notices.append, stop=lambda: next(answers), span_s=span_s)
    assert list(answers) == [] and len(notices) == 1
