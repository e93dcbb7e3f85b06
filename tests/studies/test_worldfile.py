# SPDX-License-Identifier: MIT
"""Worlds as files: both forms come back as they were written, gaps load as under Default, bad files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, StringIO
from typing import Any

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor, write
from configtron.studies.sim import worldfile
from configtron.studies.sim.noise import Noise, Pooled
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn
from configtron.studies.sim.traces import csv_sessions
from configtron.studies.sim.worldcsv import cells, write_cells, write_sessions
from configtron.studies.sim.worldfile import Brought
from tests.support import ROOT
from tests.support.worlds import small_tensor

TENSOR = small_tensor(conditions=6)
SESSIONS = drawn(TENSOR, 300, np.random.default_rng(1))
ARRIVALS = Arrivals(prefixes=40, per_s=2.0)
HEAD = "bandwidth_kbps,rtt_ms,loss,site,initcwnd,plt_ms"
ROWS = "1000,50,0,news,10,900\n1000,50,0,news,30,700\n"


def loaded(times: int) -> Tensor:
    """The small tensor with repeats about its medians."""
    factors = 1.0 + 0.1 * np.arange(-(times // 2), times - times // 2)
    repeats = TENSOR.median_ms[..., None] * factors.astype(np.float32)
    return replace(TENSOR, repeats_ms=repeats.astype(np.float32))


def same(one: Sessions, other: Sessions) -> None:
    for key in ("at_s", "condition", "change_s", "after"):
        assert np.allclose(getattr(one, key), getattr(other, key), atol=1e-6), key
    for key in ("bandwidth_kbps", "rtt_ms", "loss"):
        assert np.allclose(getattr(one.seen, key), getattr(other.seen, key), rtol=1e-6), key
    assert [one.seen.row(at).prefix for at in range(20)] == [other.seen.row(at).prefix for at in range(20)]


def bare(tensor: Tensor) -> bytes:
    file = BytesIO()
    write(tensor, file)
    return file.getvalue()


def read(data: bytes, name: str = "world") -> Brought:
    return worldfile.read(BytesIO(data), name)


def written(world: Brought) -> bytes:
    file = BytesIO()
    worldfile.write(world, file)
    return file.getvalue()


def cells_text(tensor: Tensor) -> str:
    out = StringIO()
    write_cells(tensor, out)
    return out.getvalue()


def sessions_text(sessions: Sessions, tensor: Tensor) -> str:
    out = StringIO()
    write_sessions(sessions, tensor, out)
    return out.getvalue()


def changed(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with some of its columns or its header's world changed."""
    with np.load(BytesIO(data)) as found:
        columns = {key: found[key] for key in found.files}
    header = json.loads(str(columns["header"]))
    columns["about"] = header
    change(columns)
    columns["header"] = np.array(json.dumps(columns.pop("about")))
    file = BytesIO()
    np.savez(file, **columns)
    return file.getvalue()


@pytest.mark.parametrize("noise", [Noise(0.3, 0.1, 2.0), Noise(0.0, 0.0), None])
@pytest.mark.parametrize("sessions", [SESSIONS, None])
def test_a_file_comes_back_as_it_was_written(noise: Noise | None, sessions: Sessions | None) -> None:
    tensor = loaded(6)
    world = Brought(tensor, sessions, ARRIVALS, noise or worldfile.pooled(tensor))
    data = written(world)
    again = read(data)
    assert written(again) == data
    assert again.arrivals == ARRIVALS and again.left_out == (0, 0) and again.missing == 0
    assert np.array_equal(again.tensor.median_ms, tensor.median_ms)
    assert isinstance(again.noise, Pooled) if noise is None else again.noise == noise
    if sessions is None:
        assert again.sessions is None
    else:
        assert again.sessions is not None
        same(again.sessions, sessions)


def test_the_plain_form_comes_back_too() -> None:
    for tensor in (TENSOR, loaded(3)):
        again = read(cells_text(tensor).encode()).tensor
        order = [again.grid.index(profile) for profile in tensor.grid.profiles]
        assert np.allclose(again.median_ms[:, order], tensor.median_ms, rtol=1e-6)
        assert again.names == tensor.names and again.sites == tensor.sites
        assert (again.repeats_ms is None) == (tensor.repeats_ms is None)
        shifted = replace(SESSIONS, at_s=SESSIONS.at_s - SESSIONS.at_s[0])
        same(csv_sessions(sessions_text(SESSIONS, tensor), again), shifted)


def test_the_example_is_a_world() -> None:
    world = read((ROOT / "fixtures" / "worlds" / "versions.csv").read_bytes(), "versions.csv")
    assert len(world.tensor.grid) == 8 and len(world.tensor.names) == 6 and world.left_out == (0, 0)
    assert world.tensor.repeats_ms is not None and world.missing == 1


def test_a_gap_loads_as_under_default_and_is_never_the_best() -> None:
    median = TENSOR.median_ms.copy()
    best = int(TENSOR.best[2, 1])
    default = TENSOR.grid.default
    assert best != default
    median[2, best, 1] = np.nan
    median[4, default, 0] = np.nan
    sessions = replace(SESSIONS, after=SESSIONS.condition)
    world = read(written(Brought(replace(TENSOR, median_ms=median), sessions, ARRIVALS, Noise())))
    assert world.missing == 1 and world.left_out == (1, int((SESSIONS.condition == 4).sum()))
    assert world.tensor.median_ms[2, best, 1] == TENSOR.median_ms[2, default, 1]
    assert world.tensor.best[2, 1] != best
    assert world.tensor.names == tuple(name for name in TENSOR.names if name != "n4")
    assert world.sessions is not None and len(world.sessions) == (SESSIONS.condition != 4).sum()
    kept = SESSIONS.condition[SESSIONS.condition != 4]
    assert [world.tensor.names[at] for at in world.sessions.condition] == [TENSOR.names[at] for at in kept]


def test_noise_is_that_of_repeats_where_there_are_enough() -> None:
    enough, few = read(bare(loaded(5))).noise, read(bare(loaded(4))).noise
    assert isinstance(enough, Pooled) and few == Noise()
    factors = enough.factors(5000, np.random.default_rng(1))
    assert sorted({round(float(one), 3) for one in factors}) == [0.8, 0.9, 1.0, 1.1, 1.2]
    one_by_one = np.random.default_rng(1)
    assert np.array_equal(factors[:7], np.concatenate([enough.factors(1, one_by_one) for _ in range(7)]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bandwidth_kbps,rtt_ms,loss,site,initcwnd\n", "lacks plt_ms"),
        ("bandwidth_kbps,rtt_ms,loss,site,plt_ms\n1,1,0,a,1\n", "no column is a knob"),
        (f"{HEAD}\n", "there is no load in it"),
        (f"{HEAD}\n{ROWS}1000,50,2,news,10,900\n", "line 4: loss must be"),
        (f"{HEAD}\n{ROWS}1000,50,0,news,10,-3\n", "line 4: plt_ms must be"),
        (f"{HEAD}\n{ROWS}1000,50,0,news,10,0\n", "line 4: plt_ms must be above 0"),
        (f"{HEAD}\n{ROWS}1000,50,0,news,ten,9\n", "line 4: initcwnd: 'ten'"),
        (f"{HEAD}\n{ROWS}1000,50,0,,10,9\n", "line 4: site"),
        (f"{HEAD},mine\n1,1,0,a,30,9,slow\n1,1,0,a,10,9,fast\n", "no row is Default's (initcwnd=10, mine=slow)"),
        (f"{HEAD}\n1000,50,0,news,10,900\n", "two configurations"),
        (f"{HEAD}\n1000,50,0,news,10,\n1000,50,0,news,30,700\n", "Default has a page load time at every site"),
        (f"condition,{HEAD}\nx,1000,50,0,news,10,900\nx,1000,60,0,news,10,900\n", "line 3: condition 'x'"),
        (f"{HEAD},my knob\n{ROWS}", "knob's name has no spaces"),
        (f"{HEAD},mine\n1,1,0,a,10,9,fast\n1,1,0,a,10,9,3\n", "mine is a number in some rows"),
        (f"{HEAD},mine\n1,1,0,a,10,9,fast\n1,1,0,a,10,9,\n", "line 3: mine is ''"),
    ],
)
def test_a_bad_csv_is_refused_by_line(text: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(text.encode(), "bad.csv")
    assert words in str(refused.value) and "bad.csv" in str(refused.value) and "\n" not in str(refused.value)


def _world(**about: Any) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns["about"]["world"] |= about

    return change


def _column(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns[name] = columns[name].copy()
        columns[name][5] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_world(format="other"), "expected configtron-world 1"),
        (_world(version=2), "expected configtron-world 1"),
        (_world(extra=1), "has no 'extra'"),
        (_world(noise={"kind": "pink"}), "no noise is called 'pink'"),
        (_world(noise={"kind": "repeats"}), "repeats_ms"),
        (_world(noise={"sigma_ln": -1}), "sigma_ln must be a number"),
        (_world(noise=[]), "noise is no object"),
        (_world(arrivals={"prefixes": "many"}), "prefixes must be a number"),
        (_world(arrivals={"hops": 3}), "arrivals has no 'hops'"),
        (_world(arrivals={"prefixes": 0}), "arrivals need prefixes of at least 1"),
        (_world(arrivals={"prefixes": 10**12}), "at most 1000000"),
        (_world(arrivals={"per_s": 1e-300}), "per_s of at least 0.001"),
        (_world(prefixes=[1]), "no list of names"),
        (_world(prefixes=["a"]), "session_prefix has a position outside its axis of 1"),
        (lambda columns: columns["about"].update(world=3), "is no object"),
        (lambda columns: columns.pop("session_loss"), "sessions lack session_loss"),
        (_column("session_condition", 6), "session_condition has a position outside its axis of 6"),
        (_column("session_site", -1), "session_site"),
        (_column("session_at_s", np.nan), "session_at_s"),
        (_column("session_at_s", 1e9), "session_at_s"),
        (_column("session_at_s", 0.0), "in order of arrival"),
        (_column("session_change_s", -1.0), "session_change_s"),
        (_column("session_loss", 3.0), "loss above 1"),
        (lambda columns: columns.update(session_loss=columns["session_loss"][:9]), "columns have 9 and 300 rows"),
        (lambda columns: columns.update(session_loss=columns["session_loss"].astype("U9")), "not of numbers"),
    ],
)
def test_a_bad_file_says_what_is_wrong(change: Callable[[dict[str, Any]], None], words: str) -> None:
    data = changed(written(Brought(TENSOR, SESSIONS, ARRIVALS, Noise())), change)
    with pytest.raises(BadInput) as refused:
        read(data, "bad.npz")
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_neither_form_is_refused() -> None:
    for data in (b"\xff\xfe\x00", b"PK\x03\x04 no zip", b"", bare(TENSOR)[:2000]):
        with pytest.raises(BadInput):
            read(data, "bad")


def test_a_plain_tensor_is_a_world() -> None:
    world = read(bare(TENSOR))
    assert world.sessions is None and world.arrivals == Arrivals()
    assert np.array_equal(world.tensor.median_ms, TENSOR.median_ms)


def test_what_else_is_known_of_networks_comes_back_too() -> None:
    known = {"min_rtt_ms": np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])}
    tensor = replace(TENSOR, characteristics=known)
    of_sessions = {"min_rtt_ms": known["min_rtt_ms"][SESSIONS.condition]}
    shown = replace(SESSIONS, seen=replace(SESSIONS.seen, numbers=of_sessions))
    data = written(Brought(tensor, shown, ARRIVALS, Noise()))
    full, plain = read(data), read(cells_text(tensor).encode())
    assert written(full) == data and full.sessions is not None
    assert np.array_equal(full.sessions.seen.numbers["min_rtt_ms"], shown.seen.numbers["min_rtt_ms"], equal_nan=True)
    for world in (full, plain):
        assert np.array_equal(world.tensor.characteristics["min_rtt_ms"], known["min_rtt_ms"], equal_nan=True)
        assert len(world.tensor.grid.knobs) == len(TENSOR.grid.knobs)


def test_an_unknown_knobs_default_is_the_first_rows() -> None:
    tensor = cells("bandwidth_kbps,rtt_ms,loss,site,mine,plt_ms\n9,9,0,a,slow,5\n9,9,0,a,fast,4\n")
    assert tensor.grid.default == 0 and tensor.grid.knobs[0].values == ("slow", "fast")
    again = cells(cells_text(replace(tensor, grid=tensor.grid.only([1, 0]), median_ms=tensor.median_ms[:, [1, 0]])))
    assert again.grid.knobs[0].default == "slow"
