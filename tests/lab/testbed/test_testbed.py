# SPDX-License-Identifier: MIT
"""The testbed in a guest: links are as their conditions, chance is the seed's, stacks are as asked or fail."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.testbed import player
from configtron.lab.testbed.families import named
from configtron.lab.uml.kernel import cache_folder
from configtron.lab.uml.user_mode_linux import GuestJob, UmlVirtual
from configtron.tune.drivers.bpf import objects
from tests.support import ROOT, guest_module
from tests.support.lab.testbed_guest import LOSSY, NAMES, TWO
from tests.support.waiting import GUEST_S

pytestmark = [pytest.mark.root, pytest.mark.lab]


def conditions_text(folder: Path, *only: str) -> str:
    backend = UmlVirtual()
    if reason := backend.available():
        pytest.skip(reason)
    words = (sys.executable, "-m", "tests.support.lab.testbed_guest", str(player.program()), *only)
    environment = (("PYTHONPATH", str(ROOT)), ("XDG_CACHE_HOME", str(cache_folder().parent)))
    running = backend.boot(GuestJob(words, folder, seed=1, cpu=max(os.sched_getaffinity(0)), environment=environment))
    assert running.wait(GUEST_S) == 0, running.console.read_text() + running.last_words()
    return running.console.read_text()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return conditions_text(tmp_path_factory.mktemp("testbed"))


@pytest.fixture(scope="module")
def found(text: str) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(text)
    return seen


def test_round_trips_are_the_conditions(found: dict[str, Any]) -> None:
    seen = found["conditions"]["trips"]
    assert list(seen) == sorted(NAMES)
    for name in NAMES:
        # ping prints three digits at most, by size: 150, 90.0
        assert seen[name] == pytest.approx([named(name).rtt_ms] * 3, abs=0.1)


@pytest.mark.parametrize("link", ["kernel", "played"])
def test_the_seed_decides_what_is_lost(found: dict[str, Any], link: str) -> None:
    once, again, other, *more = found["conditions"][link]
    assert once == again != other
    # five standard deviations of a hundred draws
    for answered in (once, other):
        assert abs(1 - len(answered) / 100 - LOSSY.loss) < 5 * (LOSSY.loss * (1 - LOSSY.loss) / 100) ** 0.5
    # and the kernel's link is the same after the player's has been there
    assert more == ([once, again, other] if link == "kernel" else [])


def test_the_player_counts(found: dict[str, Any]) -> None:
    down, up = found["conditions"]["counts"]["down"], found["conditions"]["counts"]["up"]
    # three hundred pings and four, with each an answer that arrives at the link
    assert down == up == 304


def test_what_is_played_is_reported(found: dict[str, Any]) -> None:
    """A packet each 2.4 ms, ten of delay; nothing that another seed would make other."""
    seen = found["conditions"]["seen"]
    played = "played opportunities 1 period_us 2400 delay_us 10000 loss 0 packets 0 bytes 0"
    assert seen["r1"] == f"{played} rate 0 bucket 0 outage_us 0 waits 1"
    assert "loss 0.3 " in seen["r2"] and "seed" not in seen["r2"]


def test_links_change_during_a_load(found: dict[str, Any]) -> None:
    """Pings leave 0, 0.9 and 1.8 s, and 2.7 s, after the first; the link changes 2 s after it."""
    by_kernel, by_player = found["steps"]
    assert by_kernel == pytest.approx([170, 170, 170, 300], abs=0.1)
    # the player's opportunities: a packet each 1.3 ms first, then up to 200 ms later
    assert max(by_player[:3]) <= 173 and min(by_player[:3]) >= 170
    assert 20 <= by_player[3] <= 222 and not 169 < by_player[3] < 174


def test_a_played_link_begins_with_the_load(found: dict[str, Any]) -> None:
    """However long the load took to begin; and elsewhere with another seed, unless a trace says where."""
    bursts, poisson, trace = found["phases"]
    for once, later, other in (bursts, poisson):
        assert once == later != other
    assert len(set(trace)) == 1


def test_nothing_of_the_load_before_is_under_way(found: dict[str, Any]) -> None:
    assert found["rest"] == pytest.approx([50, 50], abs=0.5)


def test_a_link_that_is_not_as_asked_fails(found: dict[str, Any]) -> None:
    assert found["planted"].startswith("Mismatch: cell 7:")
    assert "r2: netem loss is 1 instead of 42949673" in found["planted"]
    assert found["no player"].startswith("BadInput") and "player" in found["no player"]


def test_stacks_are_read_back(found: dict[str, Any]) -> None:
    assert found["stacks"]["found"] == found["stacks"]["asked"]
    # a route's congestion control is its clients', whatever the listener chose for itself
    for name in ("own listener", "again"):
        assert found["stacks"][name] == {"tcp_congestion_control": "cubic", "initcwnd": 4}


def test_a_stack_that_is_not_as_asked_fails(found: dict[str, Any]) -> None:
    seen = found["stacks"]
    assert seen["led elsewhere"] == "Mismatch: cell 9: the stack is not as asked: initcwnd is 10 instead of 4"
    assert seen["no listener"].startswith("Mismatch: cell 9: no server accepts")
    for knob in ("initcwnd", "tcp_congestion_control", "pacing", "h2_push"):
        assert seen[knob].startswith("BadInput: cell 9:") and knob in seen[knob]


def test_a_revert_leaves_nothing(found: dict[str, Any]) -> None:
    assert found["stacks"]["reverted"] is True


def test_a_second_boot_is_the_same(text: str, tmp_path: Path) -> None:
    assert conditions_text(tmp_path) == text


def test_every_driver_sets_the_stack(tmp_path: Path) -> None:
    """What is measured can be applied by whichever is at hand."""
    for program in objects.PROGRAMS:
        objects.compiled(program)
    guest_module.build(tmp_path)
    seen = json.loads(conditions_text(tmp_path, "drivers"))
    assert seen == {name: list(TWO) for name in ("route", "ebpf", "kmod")}
