# SPDX-License-Identifier: MIT
"""Worlds that are brought: files in both forms, traces, sessions, networks and captures; what is none is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, StringIO
from typing import Any

import numpy as np
import pytest

from configtron.learner.columns import Contexts
from configtron.model.errors import BadInput
from configtron.model.nouns import Context
from configtron.model.tensor import Tensor, write
from configtron.studies.sim import traces, worldfile
from configtron.studies.sim.captured import captured, clients_of
from configtron.studies.sim.networks import csv_networks, placed
from configtron.studies.sim.noise import Noise, Pooled
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn
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
        write_sessions(SESSIONS, tensor, out := StringIO())
        same(traces.csv_sessions(out.getvalue(), again), shifted)


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


def test_noise_is_that_of_repeats_where_there_are_enough_and_a_plain_tensor_is_a_world() -> None:
    enough, few = read(bare(loaded(5))).noise, read(bare(loaded(4))).noise
    assert isinstance(enough, Pooled) and few == Noise()
    factors = enough.factors(5000, np.random.default_rng(1))
    assert sorted({round(float(one), 3) for one in factors}) == [0.8, 0.9, 1.0, 1.1, 1.2]
    one_by_one = np.random.default_rng(1)
    assert np.array_equal(factors[:7], np.concatenate([enough.factors(1, one_by_one) for _ in range(7)]))
    plain = read(bare(TENSOR))
    assert plain.sessions is None and plain.arrivals == Arrivals()
    assert np.array_equal(plain.tensor.median_ms, TENSOR.median_ms)


@pytest.mark.parametrize(("text", "words"), [
    ("bandwidth_kbps,rtt_ms,loss,site,initcwnd\n", "lacks plt_ms"),
    ("bandwidth_kbps,rtt_ms,loss,site,plt_ms\n1,1,0,a,1\n", "no column is a knob"),
    (f"{HEAD}\n", "there is no load in it"), (f"{HEAD}\n{ROWS}1000,50,2,news,10,900\n", "line 4: loss must be"),
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
])  # fmt: skip
def test_a_bad_csv_is_refused_by_line(text: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(text.encode(), "bad.csv")
    assert words in str(refused.value) and "bad.csv" in str(refused.value) and "\n" not in str(refused.value)


def _world(**about: Any) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns["about"]["world"] |= about

    return change


def _renamed(name: str, to: str) -> Callable[[dict[str, Any]], None]:
    return lambda columns: columns.update({to: columns[name]})


def _column(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns[name] = columns[name].copy()
        columns[name][5] = value

    return change


@pytest.mark.parametrize(("change", "words"), [
    (_world(format="other"), "expected configtron-world 1"), (_world(version=2), "expected configtron-world 1"),
    (_world(extra=1), "has no 'extra'"), (_world(noise={"kind": "pink"}), "no noise is called 'pink'"),
    (_world(noise={"kind": "repeats"}), "repeats_ms"),
    (_world(noise={"sigma_ln": -1}), "sigma_ln must be a number"), (_world(noise=[]), "noise is no object"),
    (_world(arrivals={"prefixes": "many"}), "prefixes must be a number"),
    (_world(arrivals={"hops": 3}), "arrivals has no 'hops'"),
    (_world(arrivals={"prefixes": 0}), "arrivals need prefixes of at least 1"),
    (_world(arrivals={"prefixes": 10**12}), "at most 1000000"),
    (_world(arrivals={"per_s": 1e-300}), "per_s of at least 0.001"), (_world(prefixes=[1]), "no list of names"),
    (_world(prefixes=["a"]), "session_prefix has a position outside its axis of 1"),
    (lambda columns: columns["about"].update(world=3), "is no object"),
    (lambda columns: columns.pop("session_loss"), "sessions lack session_loss"),
    (_renamed("session_rtt_ms", "session_jiter_ms"), "no column of sessions is called 'session_jiter_ms'"),
    (_renamed("median_ms", "weights"), "no column is called 'weights'"),
    (_renamed("loss", "min_rtt"), "no column is called 'min_rtt'"),
    (_renamed("session_site", "repeat_ms"), "no column is called 'repeat_ms'"),
    (_column("session_condition", 6), "session_condition has a position outside its axis of 6"),
    (_column("session_site", -1), "session_site"), (_column("session_at_s", np.nan), "session_at_s"),
    (_column("session_at_s", 1e9), "session_at_s"), (_column("session_at_s", 0.0), "in order of arrival"),
    (_column("session_change_s", -1.0), "session_change_s"), (_column("session_loss", 3.0), "loss above 1"),
    (lambda columns: columns.update(session_loss=columns["session_loss"][:9]), "columns have 9 and 300 rows"),
    (lambda columns: columns.update(session_loss=columns["session_loss"].astype("U9")), "not of numbers"),
])  # fmt: skip
def test_a_bad_file_says_what_is_wrong(change: Callable[[dict[str, Any]], None], words: str) -> None:
    data = changed(written(Brought(TENSOR, SESSIONS, ARRIVALS, Noise())), change)
    with pytest.raises(BadInput) as refused:
        read(data, "bad.npz")
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_neither_form_is_refused() -> None:
    for data in (b"\xff\xfe\x00", b"PK\x03\x04 no zip", b"", bare(TENSOR)[:2000]):
        with pytest.raises(BadInput):
            read(data, "bad")


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


WIDE = small_tensor()
HEADER = "at_s,prefix,site,bandwidth_kbps,rtt_ms,loss"
AFTER = ",change_s,bandwidth_kbps_after,rtt_ms_after,loss_after"


def test_mahimahi_counts_packets() -> None:
    one_a_ms = "\n".join(str(at) for at in range(1, 3001))
    rates = traces.mahimahi(one_a_ms)
    assert rates.end_s == 3.0 and list(rates.at_s) == [0.0, 1.0, 2.0]
    assert rates.kbps == pytest.approx(traces.MAHIMAHI_BYTES * 8.0, rel=0.01)
    assert traces.mahimahi("0\n5000").kbps[2] == 1.0


@pytest.mark.parametrize(
    "text",
    ["[[0, 4.0], [10, 1.5]]", "[\n [0, 4.0],\n [10, 1.5]\n]", "[[1700000000, 4.0], [1700000010, 1.5]]",
     "0 4.0\n10 1.5\n", "0,4.0\n\n10,1.5", "[0, 4.0],\n[10, 1.5]"],
)  # fmt: skip
def test_steps_come_in_several_dresses(text: str) -> None:
    rates = traces.steps(text)
    assert (list(rates.at_s), list(rates.kbps), rates.end_s) == ([0.0, 10.0], [4000.0, 1500.0], 20.0)


@pytest.mark.parametrize(("read", "text", "message"), [
    (traces.mahimahi, "", "a time in ms"), (traces.mahimahi, "3\nx", "line 2"),
    (traces.mahimahi, "3\n2", "line 2: the times .* never fall"),
    (traces.mahimahi, "0\n1\n" + "9" * 320, "line 3: .* at most"),
    (traces.mahimahi, "0\n1\n" + "9" * 5000, "line 3: .* at most"),
    (traces.mahimahi, "0\n1\n99999999999999", "line 3: .* at most 86400 s"),
    (traces.steps, f"[[0, 1], [1, {10**400}]]", "pair 2: two numbers"),
    (traces.steps, '[[0, 1], {"1": 1, "2": 2}]', "pair 2: two numbers"), (traces.steps, "[" * 100_000, "pairs"),
    (traces.steps, "0 1\n1 1e308", "line 2: .* rate"),
    (traces.steps, "0 1\n1e15 1", "line 2: .* from the first time"),
    (traces.steps, "0 1\ninf 1", "line 2: a time must be finite"), (traces.mahimahi, "0\n0", "the last above 0"),
    (traces.steps, "1 2", "at least two"), (traces.steps, "1 2\n1 2", "must rise"),
    (traces.steps, "1 2\n2 -1", "negative"), (traces.steps, "1 2\nnan nan", "line 2: a time must be finite"),
    (traces.steps, "1 2 3", "line 1"), (traces.steps, "[[1, 2], [3]]", "pair 2: two numbers"),
    (traces.steps, "[[1, 2", "pairs"),
])  # fmt: skip
def test_what_is_none_is_refused(read, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput, match=message):
        read(text)


def test_a_link_that_falls_is_two_pieces() -> None:
    rng = np.random.default_rng(3)
    mbps = np.where(np.arange(120) < 70, 8.0, 1.0) * np.exp(0.05 * rng.standard_normal(120))
    rates = traces.steps("\n".join(f"{at} {rate}" for at, rate in enumerate(mbps)))
    first, second = traces.pieces(rates, 60.0, 0.001)
    assert abs(first.end_s - 70.0) <= 2.0 and first.end_s == second.begin_s and second.end_s == 120.0
    assert first.kbps == pytest.approx(8000, rel=0.05) and second.kbps == pytest.approx(1000, rel=0.05)
    sessions = traces.visited([first, second], "192.0.2.0/24", WIDE, 400, rng)
    early = sessions.at_s < first.end_s
    assert np.allclose((sessions.at_s + sessions.change_s)[early], first.end_s) and 0.5 < early.mean() < 0.7
    assert np.isinf(sessions.change_s[~early]).all()
    assert (sessions.condition[early] != sessions.after[early]).all()
    assert (sessions.after[early] == sessions.condition[~early][0]).all()


def test_a_capture_is_cut_where_round_trips_change() -> None:
    rng = np.random.default_rng(5)
    rtt = np.where(np.arange(100) < 40, 30.0, 150.0) * np.exp(0.05 * rng.standard_normal(100))
    rtt[10] = np.nan
    columns = (np.full(100, 5000.0), rtt, np.full(100, 0.01))
    seen = Contexts(*columns, np.zeros(100, dtype=np.int64), WIDE.sites)
    first, second = traces.contexts_pieces(np.arange(100.0), seen)
    assert abs(first.end_s - 40.0) <= 2.0 and first.rtt_ms < 35.0 and second.rtt_ms > 130.0
    with pytest.raises(BadInput, match="no connection"):
        traces.contexts_pieces(np.arange(1.0), seen[np.array([10])])


def test_sessions_come_as_csv() -> None:
    text = f"{HEADER}{AFTER}\n7,10.0.0.0/24,shop,5000,80,0.01,2.5,300,200,0\n3,10.0.1.0/24,news,900,20,0,,,,\n"
    sessions = traces.csv_sessions(text, WIDE)
    assert list(sessions.at_s) == [0.0, 4.0] and list(sessions.change_s) == [math.inf, 2.5]
    assert sessions.seen.prefixes == ("10.0.1.0/24", "10.0.0.0/24") and list(sessions.seen.rtt_ms) == [20.0, 80.0]
    assert sessions.after[0] == sessions.condition[0] and sessions.after[1] != sessions.condition[1]
    plain = traces.csv_sessions(f"{HEADER}\n1,p,news,900,20,0\n", WIDE)
    assert np.isinf(plain.change_s).all()


@pytest.mark.parametrize(("text", "message"), [
    ("", "lacks at_s"), (HEADER, "no session"),
    (f"{HEADER},change_s\n1,p,news,900,20,0,3", "lacks bandwidth_kbps_after"),
    (f"{HEADER}\n1,p,moon,900,20,0", "no site 'moon'"),
    (f"{HEADER}\n1,p,news,x,20,0", "line 2: bandwidth_kbps is no number"),
    (f"{HEADER}\n1,p,news,900,20", "line 2: loss is no number"), (f"{HEADER}\n1,p,news,900,20,nan", "finite"),
    (f"{HEADER}\n1,p,news,900,20,-1", "at least 0"), (f"{HEADER}\n1,p,news,0,20,0", "above 0"),
    (f"{HEADER}\n1,p,news,900,20,1.5", "line 2: loss must be a share"),
    (f"{HEADER}\n1,p,news,1e308,20,0", "line 2: bandwidth must be"),
    (f"{HEADER}\n1,p,news,900,20,0\n1e9,p,news,900,20,0", "line 3: .* from the first time"),
    (f"{HEADER}\n1,p,news,900,20,0,1", "line 2: 7 values for 6 columns"),
    (f"{HEADER}\n0,{'a' * 200_000},news,900,20,0", "line 2: no CSV"),
    (f'{HEADER}\n0,"p,news,900,20,0', "a quote left open"),
    (f"{HEADER}{AFTER}\n1,p,news,900,20,0,1e99,900,20,0", "line 2: change_s must be at most"),
])  # fmt: skip
def test_csv_that_is_wrong_says_where(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        traces.csv_sessions(text, WIDE)


# Exactly the tensor's first and tenth, the second three times as often.
TWO = "bandwidth_kbps,rtt_ms,loss,weight\n" + "\n".join(
    f"{WIDE.bandwidth_kbps[at]},{WIDE.rtt_ms[at]},{WIDE.loss[at]},{n}" for at, n in ((0, 1), (9, 3))
)


def test_clients_have_these_networks_and_no_other() -> None:
    how = Arrivals(prefixes=2000, skew=0.0, change_share=0.3)
    found = placed(csv_networks(TWO), WIDE, 8000, np.random.default_rng(3), how)
    assert set(found.condition) == set(found.after) == {0, 9}
    assert np.mean(found.condition == 9) == pytest.approx(0.75, abs=0.04)
    moved = np.isfinite(found.change_s)
    assert moved.mean() == pytest.approx(0.3, abs=0.02) and (found.after[~moved] == found.condition[~moved]).all()
    assert np.mean(found.after[moved] == 9) == pytest.approx(0.75, abs=0.04)
    assert np.abs(np.log(found.seen.rtt_ms / WIDE.rtt_ms[found.condition])).max() < 0.5
    again = placed(csv_networks(TWO), WIDE, 8000, np.random.default_rng(3), how)
    assert (again.at_s == found.at_s).all() and (again.condition == found.condition).all()


@pytest.mark.parametrize(("text", "says"), [
    ("bandwidth_kbps,rtt_ms\n1,1\n", "lacks loss"), ("bandwidth_kbps,rtt_ms,loss\n", "no network"),
    ("bandwidth_kbps,rtt_ms,loss,weight\n5,5,0,0\n", "no network"),
    ("bandwidth_kbps,rtt_ms,loss\n5,5,0\n0,5,0\n", "line 3: bandwidth"),
    ("bandwidth_kbps,rtt_ms,loss\n5,5,2\n", "line 2: loss must be"),
    ("bandwidth_kbps,rtt_ms,loss\n5,x,0\n", "line 2: rtt_ms is no number"),
    ("bandwidth_kbps,rtt_ms,loss,weight\n5,5,0,-1\n", "line 2: weight must be"),
    ("bandwidth_kbps,rtt_ms,loss,weight\n5,5,0,1\n5,5,0,1e308\n5,5,0,1e308\n", "line 3: weight must be at most"),
    ("bandwidth_kbps,rtt_ms,loss\n1e308,5,0\n", "line 2: bandwidth must be .* at most"),
    ("bandwidth_kbps,rtt_ms,loss\n5,1e308,0\n", "line 2: round trip must be"),
    ("bandwidth_kbps,rtt_ms,loss,loss\n5,5,0,1\n", "line 1: two columns are called 'loss'"),
    ("bandwidth_kbps;rtt_ms;loss\n5;5;0\n", "lacks bandwidth_kbps, rtt_ms, loss"),
])  # fmt: skip
def test_what_is_no_network_is_named(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        csv_networks(text, "x")


def line(at: float, prefix: str, rtt_ms: float, **more: object) -> str:
    context = {"prefix": prefix, "rtt_ms": rtt_ms, "bandwidth_kbps": 5000.0, "loss": 0.0, **more}
    return json.dumps({"schema": "configtron.context/1", "at": 1e9 + at, "context": context})


def lines() -> str:
    """One client at 20 ms and then at 200, one at 50 ms with a third of the contexts, one that nothing is known of."""
    rng = np.random.default_rng(1)
    spread = np.exp(0.05 * rng.standard_normal(120))
    near = [line(at, "192.0.2.0/24", (20 if at < 60 else 200) * spread[at]) for at in range(120)]
    far = [line(2.0 * at, "198.51.100.0/24", 50.0) for at in range(60)]
    dim = [json.dumps({"schema": "configtron.context/1", "at": 1e9, "context": {"prefix": "203.0.113.0/24"}})]
    return "\n".join([*near, *far, *dim, '{"schema":"configtron.watch/1","watch":1}', ""])


def test_clients_come_with_their_networks() -> None:
    found = captured(clients_of(lines()), WIDE, 3000, np.random.default_rng(2))
    assert len(found) == 3000 and found.seen.prefixes == ("192.0.2.0/24", "198.51.100.0/24")
    assert np.mean(found.seen.prefix == 0) == pytest.approx(2 / 3, abs=0.05)
    one, other = found.seen.prefix == 0, found.seen.prefix == 1
    early, late = one & (found.at_s < 50), one & (found.at_s > 70)
    assert np.median(found.seen.rtt_ms[early]) == pytest.approx(20, rel=0.1)
    assert np.median(found.seen.rtt_ms[late]) == pytest.approx(200, rel=0.1)
    assert (found.seen.rtt_ms[other] == 50.0).all() and np.isinf(found.change_s[other]).all()
    assert found.at_s[0] == 0.0 and (np.diff(found.at_s) >= 0).all()
    # Until the change all of the first client's sessions know when it comes, afterwards none does.
    assert np.isfinite(found.change_s[early]).all() and np.isinf(found.change_s[late]).all()
    assert (found.at_s + found.change_s)[early] == pytest.approx((found.at_s + found.change_s)[early][0])
    assert (found.condition != found.after)[early].all() and set(found.seen.site) == {0, 1, 2}


def test_what_was_too_small_to_measure_is_unknown() -> None:
    known = [line(at, "p", 5) for at in range(3)]
    none = [line(0, "q", 0.0), line(1, "q", 5, bandwidth_kbps=0), line(1, "q", 5, loss=None)]
    text = "\n".join([*known, *none])
    one, again, other = (captured(clients_of(text), WIDE, 20, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.seen.prefixes == ("p",)
    assert (one.at_s == again.at_s).all() and (one.seen.site == again.seen.site).all()
    assert (one.at_s != other.at_s).any()


@pytest.mark.parametrize("rtt_ms", [0.0, -1.0])
def test_a_round_trip_of_nothing_is_none(rtt_ms: float) -> None:
    """As a packet capture may show it, which no reader of lines has looked at."""
    good = [(float(at), Context(5000.0, 40.0, 0.0, prefix="p")) for at in range(3)]
    none = (3.0, Context(5000.0, rtt_ms, 0.0, prefix="p"))
    found = captured({"p": [*good, none]}, WIDE, 9, np.random.default_rng(1))
    assert (found.seen.rtt_ms == 40.0).all()
    with pytest.raises(BadInput, match="from the first time"):
        captured({"p": [*good, (1e15, good[0][1])]}, WIDE, 9, np.random.default_rng(1))


@pytest.mark.parametrize(("text", "says"), [
    ("{", "line 1: no JSON"), ("[" * 100_000, "line 1: no JSON"), ("[1]", "line 1: no context"),
    ('{"schema":"configtron.context/1","at":1,"context":[1]}', "line 1: no context"),
    (line(0, "p", 5, loss=10**400), "line 1: no context: loss must be a finite number"),
    (line(0, "p", math.nan), "line 1: no context: rtt_ms must be a finite number"),
    (line(math.inf, "p", 5), "line 1: no context: at must be a finite number"),
    (line(0, "p", -80), "line 1: round trip must be above 0"),
    (line(0, "p", 5, bandwidth_kbps=-5000), "line 1: bandwidth must be above 0"),
    (line(0, "p", 5) + "\n" + line(0, "p", 5, loss=5), "line 2: loss must be a share"),
    (line(0, "p", 5, loss=True), "line 1: no context: loss"),
    (line(0, "p", 5).replace('"p"', "[1]"), "line 1: the prefix must be text"),
    (line(0, "p", 5) + "\n" + line(-9e8, "p", 5), "line 2: .* from the first time"),
    ('\n{"schema":"configtron.context/1","at":1}', "line 2: no context"),
    ('{"schema":"configtron.context/1","at":1,"context":{"rtt_ms":"x"}}', "line 1"),
    ('{"schema":"configtron.context/1","at":1,"context":{"rtt_ms":5}}', "known at once"),
    ('{"schema":"configtron.watch/1"}', "known at once"),
    (line(0, "p", 5) + "\n" + line(1, "p", 5).replace("context/1", "context/2"), "line 2: .*context/2', not"),
    (line(0, "p", 5).replace("context/1", "probe/1"), "line 1: .*'configtron.probe/1'"),
    ('{"schema":"configtron.watch/2"}', "line 1: .*'configtron.watch/2'"),
])  # fmt: skip
def test_what_is_no_context_is_named(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        captured(clients_of(text, "x"), WIDE, 10, np.random.default_rng(1), "x")
