# SPDX-License-Identifier: MIT
"""Shards over cores: done in any order to the same bytes, taken again only where not whole, ended with their owner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from configtron.lab.testbed import measure, orphans
from configtron.lab.testbed.families import named
from configtron.lab.testbed.measure import FillCounts, Guests, ShardResult
from configtron.lab.testbed.pages import PageModel, PageObject
from configtron.lab.testbed.shard import LINES, ORDERS, Orders, seed_of
from configtron.lab.testbed.studies import STUDIES
from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.repeats import StoppingRule
from tests.support import ROOT
from tests.support.lab import pretended_guest as pretend
from tests.support.waiting import until

SIZES = {"a": 900, "b": 9000}
PAGES = tuple(PageModel(name, (f"{name}.example",), (PageObject("/", size, "html"),)) for name, size in SIZES.items())


def orders(condition: str = "hotcloud:1/50/0", seed: int = 1) -> Orders:
    return Orders(named(condition), STUDIES["smoke"].grid.profiles, PAGES, StoppingRule(), seed)


def performed(
    conditions: list[str], folder: Path, jobs: int = 2, guests: Guests | None = None
) -> dict[str, ShardResult]:
    shards = [(orders(name), folder / measure.slug(n, name)) for n, name in enumerate(conditions)]
    reported: list[FillCounts] = []
    found = measure.perform(shards, guests or pretend.guests(), jobs, reported.append)
    return {ended.condition: ended for ended in found}


def test_orders_come_back_as_they_were() -> None:
    there = orders("pantheon:1;2:access:dsl", seed=2**48 - 1)
    assert Orders.from_json(there.to_json()) == there
    with pytest.raises(BadInput, match="orders"):
        Orders.from_json('{"condition": {}}')


def test_a_loads_seed_is_the_same_under_every_configuration() -> None:
    """A matter of its arguments alone; and no two of a measurement's loads share one."""
    seeds = [seed_of(seed, site, repeat) for seed in (1, 2) for site in ("a", "b") for repeat in range(24)]
    assert len(set(seeds)) == len(seeds) and max(seeds) < 2**48
    assert seed_of(1, "a", 0) == seeds[0]


@pytest.mark.slow
def test_order_of_work_changes_no_byte(tmp_path: Path) -> None:
    names = ["hotcloud:1/50/0", "hotcloud:5/150/2.5", "access:dsl"]
    one, other = performed(names, tmp_path / "1", jobs=1), performed(names[::-1], tmp_path / "2", jobs=3)
    assert {name: ended.text for name, ended in one.items()} == {name: ended.text for name, ended in other.items()}
    assert all(ended.filled().condition == name for name, ended in one.items())
    assert one["access:dsl"].software == pretend.SOFTWARE


def test_the_drawn_order_is_the_seeds() -> None:
    every = [orders(name, seed) for seed in (1,) for name in STUDIES["hotcloud"].conditions]
    drawn = measure.in_drawn_order(every)
    assert drawn != every and sorted(drawn, key=every.index) == every
    assert measure.in_drawn_order(every[::-1]) == drawn


@pytest.mark.slow
def test_a_failed_guest_is_reported_in_its_own_words(tmp_path: Path) -> None:
    found = performed(["hotcloud:1/500/0", "hotcloud:1/50/0"], tmp_path)
    lost = found["hotcloud:1/500/0"]
    assert lost.text == "" and "exit code 4" in lost.why and "the guest is lost" in lost.why
    assert not found["hotcloud:1/50/0"].why


def test_what_is_missing_ends_it_all(tmp_path: Path) -> None:
    """Exit code 5 of one guest would be that of all others."""
    absent = Guests(pretend.Here(), ("sh", "-c", "echo no nginx here >&2; exit 5"), ())
    with pytest.raises(Missing, match="no nginx here"):
        performed(["hotcloud:1/50/0", "hotcloud:5/50/0"], tmp_path, jobs=1, guests=absent)


def test_half_a_shard_is_not_whole(tmp_path: Path) -> None:
    performed(["hotcloud:1/50/0"], tmp_path)
    folder = tmp_path / measure.slug(0, "hotcloud:1/50/0")
    text = (folder / LINES).read_text()
    assert measure.whole(folder, orders()) == text
    assert measure.whole(folder, orders(seed=2)) == "" == measure.whole(tmp_path / "none", orders())
    (folder / LINES).write_text(text[:-30])
    assert measure.whole(folder, orders()) == ""
    assert measure.software_of(folder / measure.SOFTWARE) == pretend.SOFTWARE


@pytest.mark.slow
def test_cells_are_counted_while_they_come(tmp_path: Path) -> None:
    reported: list[FillCounts] = []
    shards = [(orders(name), tmp_path / name.replace("/", "-")) for name in ("hotcloud:1/50/0", "hotcloud:5/50/0")]
    for _ in measure.perform(shards, pretend.guests(0.02), 2, reported.append):
        pass
    assert 0 < max(seen.cells for seen in reported) <= 64 and max(seen.loads for seen in reported) <= 6 * 64
    assert reported[-1] == FillCounts()


def test_a_core_is_claimed_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cores = sorted(os.sched_getaffinity(0))
    held = [measure.claimed_core() for _ in cores]
    assert sorted(core for core, _ in held) == cores
    crowded = [measure.claimed_core() for _ in range(len(cores) * (measure.MOST_ON_A_CORE - 1))]
    with pytest.raises(Refused, match="--jobs"):
        measure.claimed_core()
    held[0][1].close()
    core, file = measure.claimed_core()
    assert core == held[0][0]
    for _, claim in [*held[1:], *crowded, (core, file)]:
        claim.close()


OWNER = """
import sys
from pathlib import Path
from tests.lab.testbed.test_measure import orders, performed
from tests.support.lab import pretended_guest as pretend
from configtron.lab.testbed import measure, orphans
how, folder, guests = sys.argv[1], Path(sys.argv[2]), pretend.guests(float(sys.argv[3]))
if how == "many":
    performed(["hotcloud:1/50/0", "hotcloud:5/50/0"], folder, 2, guests)
else:
    measure.perform_one(orders(), folder / "one", guests)
"""


@contextmanager
def killed(folder: Path, how: str, pause_s: float) -> Iterator[None]:
    """Within: an owner of guests at work there has been killed."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, how, str(folder), str(pause_s)], cwd=ROOT)
    until(lambda: len(list(folder.glob(f"*/{LINES}"))) == (2 if how == "many" else 1))
    assert guests_in(folder)
    owner.kill()
    owner.wait()
    try:
        yield
    finally:
        for place in folder.iterdir():
            orphans.adopt(place).kill()


@pytest.mark.slow
def test_guests_outlive_a_killed_owner_and_the_next_one_adopts_them(tmp_path: Path) -> None:
    """No shard is done twice, and the bytes are those of a run left in peace."""
    names = ["hotcloud:1/50/0", "hotcloud:5/50/0"]
    with killed(tmp_path / "a", "many", 0.1):
        assert guests_in(tmp_path / "a")
        found = performed(names, tmp_path / "a")
    assert [orphans.boots(folder) for folder in (tmp_path / "a").iterdir()] == [1, 1]
    peace = performed(names, tmp_path / "b")
    assert {name: one.text for name, one in found.items()} == {name: one.text for name, one in peace.items()}
    assert all(one.software == pretend.SOFTWARE and one.wall_s >= 1 for one in found.values())


@pytest.mark.slow
def test_an_orphan_that_is_not_adopted_ends_by_itself(tmp_path: Path) -> None:
    with killed(tmp_path, "many", 0.02):
        until(lambda: not guests_in(tmp_path))
        assert all(measure.whole(folder, orders(name)) for folder, name in zip(
            sorted(tmp_path.iterdir()), ("hotcloud:1/50/0", "hotcloud:5/50/0"), strict=True))  # fmt: skip


@pytest.mark.slow
def test_an_orphan_with_other_orders_is_ended(tmp_path: Path) -> None:
    with killed(tmp_path, "many", 60.0):
        folder = tmp_path / measure.slug(0, "hotcloud:1/50/0")
        (folder / ORDERS).write_text(orders(seed=9).to_json())
        (ended,) = measure.perform([(orders(), folder)], pretend.guests(), 1, lambda seen: None)
        assert ended.text and orphans.boots(folder) == 2


@pytest.mark.slow
def test_a_killed_guest_loses_its_shard_and_no_other(tmp_path: Path) -> None:
    with killed(tmp_path, "many", 0.1):
        lost, spared = (tmp_path / measure.slug(n, f"hotcloud:{rate}/50/0") for n, rate in enumerate((1, 5)))
        orphans.adopt(lost).kill()
        assert not guests_in(lost) and guests_in(spared)
        performed(["hotcloud:1/50/0", "hotcloud:5/50/0"], tmp_path)
        assert (orphans.boots(lost), orphans.boots(spared)) == (2, 1)


@pytest.mark.slow
def test_a_process_that_adopted_a_guest_can_end_it(tmp_path: Path) -> None:
    with killed(tmp_path, "many", 60.0):
        shards = [(orders(), tmp_path / measure.slug(0, "hotcloud:1/50/0"))]
        running = iter(measure.perform(shards, pretend.guests(), 1, interrupt))
        with pytest.raises(KeyboardInterrupt):
            next(running)
        assert not guests_in(shards[0][1])


def interrupt(seen: FillCounts) -> None:
    raise KeyboardInterrupt


def test_a_guest_that_cannot_be_found_is_not_guessed_at(tmp_path: Path) -> None:
    """Its number may be another process's by now, or by another machine's count."""
    life = orphans.claim(tmp_path)
    assert life and orphans.claim(tmp_path) is None
    with life:
        for reported in ("", str(os.getpid())):
            (tmp_path / orphans.LIFE).write_text(reported)
            with pytest.raises(Refused, match="booted elsewhere"):
                orphans.adopt(tmp_path).kill()
        with pytest.raises(Refused, match="a guest is at work"):
            measure.perform_one(orders(), tmp_path, pretend.guests())
    orphans.adopt(tmp_path).kill()


@pytest.mark.slow
def test_a_guest_that_is_waited_for_ends_with_its_owner(tmp_path: Path) -> None:
    """As on a cluster, where no process would adopt it."""
    with killed(tmp_path, "one", 60.0):
        until(lambda: not guests_in(tmp_path))


def guests_in(folder: Path) -> list[str]:
    return [line for line in command_lines() if pretend.__name__ in line and str(folder) in line]


def command_lines() -> Iterator[str]:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
