# SPDX-License-Identifier: MIT
"""Every policy: one contract; one file each, parts that are held, states that are declared; policies of one's own."""

from __future__ import annotations

import ast
import gc
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.learner import registry, row_of, untaken
from configtron.learner.columns import Codes, Contexts, Floats, contexts_of
from configtron.learner.damage import damage_bound
from configtron.learner.map_making import MapOptions, map_of
from configtron.learner.registry import POLICIES, policy
from configtron.learner.setting import Setting
from configtron.learner.state import decode, encode
from configtron.learner.table_policy import TablePolicy
from configtron.learner.traffic import Traffic
from configtron.model.errors import BadInput
from configtron.model.fleet import WHOLE
from configtron.model.nouns import Context, Outcome
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise
from tests.support.sources import parsed
from tests.support.worlds import FASTEST, clients, lived, played, small_classes, small_tensor

SESSIONS = 600
CLASSES, WARM = small_classes(small_tensor()), small_tensor(seed=9)
FACTORS = Noise().factors(SESSIONS, np.random.default_rng(5))


@pytest.fixture(scope="module")
def tensor() -> Tensor:
    return small_tensor()


def made(name: str, tensor: Tensor, seed: int = 7) -> TablePolicy:
    rng = np.random.default_rng(seed)
    return policy(name, Setting(tensor.grid, tensor.sites, CLASSES, rng, 150, WARM, tensor))


def seen_by(p: TablePolicy, tensor: Tensor, contexts: Contexts, condition: np.ndarray) -> Contexts:
    if not p.SEES_TRUTH:
        return contexts
    columns = (tensor.bandwidth_kbps[condition], tensor.rtt_ms[condition], tensor.loss[condition])
    return Contexts(*columns, contexts.site, contexts.sites, contexts.prefix, contexts.prefixes)


def run(p: TablePolicy, tensor: Tensor, batch: int, part: slice) -> list[tuple[int, float]]:
    """Choose and observe `part` of the sessions in batches of at most `batch`; what was chosen, and how likely."""
    contexts, condition = clients(tensor, SESSIONS)
    contexts, log, at = seen_by(p, tensor, contexts, condition), [], part.start
    while at < part.stop:
        rows = slice(at, min(part.stop, at + min(batch, p.due())))
        here = contexts[rows]

        def load(part: slice, configuration: Codes, here: Contexts = here, begin: int = at) -> Floats:
            where = slice(begin + part.start, begin + part.stop)
            return tensor.lookup(condition[where], configuration, here.site[part]) * FACTORS[where]

        chosen, _ = played(p, here, load)
        log += list(zip(chosen.configuration.tolist(), chosen.propensity.tolist(), strict=True))
        at = rows.stop
    return log


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_keeps_the_contract(name: str, tensor: Tensor) -> None:
    """However its clients are cut into calls, and saved and restored in between, it decides the same and ends in the
    same state; one client at a time as a manager asks, too. Propensities are how often, and anybody is served."""
    whole, first, second, single = (made(name, tensor, seed) for seed in (7, 7, 99, 7))
    log = run(whole, tensor, SESSIONS, slice(0, SESSIONS))
    assert run(first, tensor, 77, slice(0, 370)) == log[:370]
    second.restore(first.save())
    assert second.save() == first.save()
    assert run(second, tensor, 64, slice(370, SESSIONS)) == log[370:] and second.save() == whole.save()
    contexts, condition = clients(tensor, SESSIONS)
    contexts = seen_by(single, tensor, contexts, condition)
    for i in range(170):
        decision = single.choose(contexts.row(i))
        configuration = tensor.grid.index(decision.profile)
        assert (configuration, decision.propensity) == log[i]
        took = tensor.lookup(condition[[i]], np.array([configuration]), contexts.site[[i]])
        single.observe(Outcome(decision, float(took[0] * FACTORS[i]), i, "sim"))
    assert single.updates_ == min(whole.updates_, 1)
    table, chosen = whole.served_.probabilities(len(tensor.grid)), whole.choose_many(contexts[:60])
    assert np.allclose(table.sum(axis=1), 1.0) and (table >= 0).all()
    known = chosen.row >= 0
    assert np.allclose(chosen.propensity[known], table[chosen.row[known], chosen.configuration[known]])
    if name != "optimal":
        stranger = whole.choose(Context(site="elsewhere"))
        assert stranger.class_id == "" and 0 < (stranger.propensity or 0) <= 1
        elsewhere = whole.choose(Context(bandwidth_kbps=5000, rtt_ms=50, loss=0.0, site="elsewhere"))
        whole.observe(Outcome(elsewhere, 900.0, 0))
        assert elsewhere.profile in tensor.grid.profiles


@pytest.mark.slow
@pytest.mark.parametrize("name", [row.name for row in POLICIES.values() if not row.oracle])
def test_every_policy_makes_a_map_and_serves_nothing_beyond_its_bound(name: str, tensor: Tensor) -> None:
    """Half of the configurations harm in every network: Default and the other half are served, before and after loads
    taught the policy."""
    harmful = np.flatnonzero(np.arange(len(tensor.grid)) % 2 != tensor.grid.default % 2)
    damage = np.ones_like(tensor.median_ms)
    damage[:, harmful] = 3.0
    one, free = made(name, tensor), made(name, tensor)
    one.keep_within(damage_bound(replace(tensor, damage=damage), tensor.grid))
    for p in (free, one):
        before = p.served_.probabilities(len(tensor.grid))[:, harmful].max()
        run(p, tensor, SESSIONS, slice(0, SESSIONS))
        served = max(before, p.served_.probabilities(len(tensor.grid))[:, harmful].max())
        only_default = (p.served_.configuration == tensor.grid.default).all()
        assert served == 0.0 if p is one else served > 0.0 or only_default
    found = map_of(free, Traffic(), MapOptions(), term=1, version=1, key=bytes(16), now_ns=10**18).map
    assert found.mixes and all(sum(weight for _, weight in mix) == WHOLE for mix in found.mixes.values())
    assert {profile for mix in found.mixes.values() for profile, _ in mix} == set(found.profiles)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_what_a_policy_takes_makes_a_difference_and_nothing_else_does(name: str, tensor: Tensor) -> None:
    def state(**changed: Any) -> str:
        rng = np.random.default_rng(7)
        try:
            made = policy(name, Setting(tensor.grid, tensor.sites, CLASSES, rng, 150, truth=tensor, **changed))
            run(made, tensor, SESSIONS, slice(0, 320))
            return made.save()
        except BadInput as error:
            return str(error)

    assert ("warm" in POLICIES[name].takes) == (state(warm=WARM) != state())
    assert ("engine" in POLICIES[name].takes) == ("no engine is called" in state(engine="steam"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thompson", "configtron", "reuse"])
def test_a_heap_of_outcomes_is_cut_where_updates_fall_due(name: str, tensor: Tensor) -> None:
    """Outcomes that arrive late and all at once teach the same as in pieces."""
    heap, pieces = made(name, tensor), made(name, tensor)
    contexts, condition = clients(tensor, SESSIONS)
    chosen = heap.choose_many(contexts)
    pieces.choose_many(contexts)
    took = tensor.lookup(condition, chosen.configuration, contexts.site)
    heap.observe_many(contexts, chosen, took)
    for start in range(0, SESSIONS, 50):
        rows = slice(start, start + 50)
        pieces.observe_many(contexts[rows], chosen[rows], took[rows])
    assert heap.updates_ == SESSIONS // 150 and heap.save() == pieces.save()


def test_other_peoples_states_are_refused(tensor: Tensor) -> None:
    text = made("default", tensor).save()
    with pytest.raises(BadInput, match="'cell_optimum', version 4, is wanted"):
        made("cell_optimum", tensor).restore(text)
    with pytest.raises(BadInput, match="no saved policy"):
        made("default", tensor).restore("{")
    elsewhere = policy("mab_nc", Setting(tensor.grid, ("other",), CLASSES, np.random.default_rng(1)))
    with pytest.raises(BadInput, match="other configurations or sites"):
        elsewhere.restore(made("mab_nc", tensor).save())
    for nonsense in ("[]", "null", "{}", '{"map":[]}', '{"map":[["policy","default"],["version",1]]}', '{"array":"x"}'):
        with pytest.raises(BadInput):
            made("default", tensor).restore(nonsense)
    with pytest.raises(BadInput, match="no policy is called"):
        made("oracle", tensor)
    with pytest.raises(BadInput, match="no engine is called 'steam'"):
        setting = Setting(tensor.grid, tensor.sites, CLASSES, np.random.default_rng(1), engine="steam")
        policy("configtron", setting)


def test_optimal_is_best_and_the_cell_optimum_next(tensor: Tensor) -> None:
    contexts, condition = clients(tensor, SESSIONS)
    took = {}
    for name in ("optimal", "cell_optimum", "static", "default"):
        p = made(name, tensor)
        chosen = p.choose_many(seen_by(p, tensor, contexts, condition)).configuration
        took[name] = float(tensor.lookup(condition, chosen, contexts.site).mean())
    assert took["optimal"] < took["cell_optimum"] < took["static"] < took["default"]
    assert took["optimal"] == pytest.approx(float(tensor.best_ms[condition, contexts.site].mean()))


def test_columns_say_what_contexts_say(tensor: Tensor) -> None:
    contexts, _ = clients(tensor, 20)
    rows = [contexts.row(i) for i in range(20)]
    assert [contexts_of(rows, tensor.sites).row(i) for i in range(20)] == rows
    gap = Context(rtt_ms=3.0, prefix="192.0.2.0/24")
    assert contexts_of([gap]).row(0) == gap


FILES = sorted(
    f"{folder}.{file.stem}"
    for folder in registry.FOLDERS
    for file in Path(import_module(folder).__path__[0]).glob("*.py")
    if file.stem != "__init__"
)
LEARNER = Path(registry.__file__).parent
GRID = small_tensor().grid
EIGHT = GRID.only(sorted({GRID.default, *range(0, 168, 24)}))
SMALL, SMALL_WARM = small_tensor().over(EIGHT), small_tensor(seed=9).over(EIGHT)
SMALL_CLASSES = small_classes(SMALL)


def small_made(name: str, update_every: int = 150) -> TablePolicy:
    rng = np.random.default_rng(7)
    return policy(name, Setting(SMALL.grid, SMALL.sites, SMALL_CLASSES, rng, update_every, SMALL_WARM, SMALL))


def kinds(file: str) -> list[type[TablePolicy]]:
    module = import_module(file)
    own = (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)
    return [one for one in own if issubclass(one, TablePolicy)]


def test_every_file_is_listed_and_every_policy_has_its_file() -> None:
    rows = [row.name for file in FILES for row in import_module(file).ROWS]
    assert sorted(rows) == sorted(POLICIES) and len(set(rows)) == len(rows) > 15
    assert all(row.name == name for name, row in POLICIES.items())
    assert {type(small_made(name)).__module__ for name in POLICIES} == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_a_policy_inherits_from_nothing_but_the_table_policy_and_types_every_argument(file: str) -> None:
    assert kinds(file) and all(kind.__bases__ == (TablePolicy,) for kind in kinds(file))
    for kind in kinds(file):
        for given in list(inspect.signature(kind.__init__).parameters.values())[1:]:
            assert given.kind not in (given.VAR_POSITIONAL, given.VAR_KEYWORD), (kind, given)
            assert given.annotation not in (inspect.Parameter.empty, "Any", Any), (kind, given)


def test_generators_are_arguments() -> None:
    """One file of the learner makes generators from seeds; simulated worlds have their own."""
    found = []
    for file in LEARNER.rglob("*.py"):
        if file.name != "chance.py":
            names = (node.attr for node in ast.walk(parsed(file)) if isinstance(node, ast.Attribute))
            found += [f"{file.name}: {name}" for name in names if name in ("default_rng", "PCG64", "RandomState")]
    assert found == []


def test_one_policy_is_imported_without_the_others() -> None:
    shown = "import sys; import configtron.learner.policies.thompson; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    others = {file for file in FILES if not file.endswith(".thompson")}
    assert "configtron.learner.policies.thompson" in loaded
    assert not loaded & (others | {"configtron.learner.registry", "configtron.learner.engines.grid", "sklearn"})


# Values that no field of a state has, but for those of whatever type.
JUNK = ("x", -1, None, [], np.zeros(3), np.zeros((2, 2), dtype=np.int64))
# Fields that states of earlier versions do not have, so that a state without them loads.
ADDED = ("noise_ln_",)
# One policy of each part that has a state.
STATES = ("default", "reuse", "bo", "configtron", "thompson")


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_a_damaged_state_is_refused_in_one_line(name: str) -> None:
    """Each field of a saved policy left out, or replaced: refused, or taken because it is of the declared type."""
    one, other = small_made(name), small_made(name)
    lived(one, SMALL, 300)
    text = one.save()
    for end in (0, 1, len(text) // 2, len(text) - 1):
        with pytest.raises(BadInput) as refused:
            other.restore(text[:end])
        assert "\n" not in str(refused.value)
    whole, refusals = decode(text), 0
    for field in whole["own"]:
        for junk in ("left out", *JUNK):
            state = whole | {"own": whole["own"] | {field: junk}}
            left_out = isinstance(junk, str) and junk == "left out"
            if left_out:
                del state["own"][field]
            try:
                other.restore(encode(state))
            except BadInput as error:
                refusals += 1
                assert "\n" not in str(error) and "damaged" in str(error), str(error)
            else:
                assert field in ADDED if left_out else not isinstance(junk, str), f"{field} is taken without a value"
    assert refusals >= 5 * len(whole["own"])


@pytest.mark.parametrize("own", [None, 3, "x", [], {}, {"served_": 1}])
def test_a_state_that_is_no_state_is_refused(own: object) -> None:
    state = decode(small_made("mab_nc").save()) | {"own": own}
    with pytest.raises(BadInput, match="damaged.*--fresh"):
        small_made("mab_nc").restore(encode(state))


def test_a_state_of_other_classes_does_not_fit() -> None:
    other = Setting(SMALL.grid, SMALL.sites, small_classes(SMALL, 4), np.random.default_rng(7), 150)
    state = decode(policy("thompson", other).save())
    state["own"]["classes_"] = SMALL_CLASSES
    with pytest.raises(BadInput, match="damaged: tally_ has shape"):
        small_made("thompson").restore(encode(state))


OWN = f"""{FASTEST}

class Raises(Fastest):
    def learn(self, seen):
        super().learn(seen)
        if len(seen):
            raise ZeroDivisionError("none left")

class Lost(Fastest):
    def where(self, contexts):
        return contexts.nothing

class Beyond(Fastest):
    def learn(self, seen):
        super().learn(seen)
        self.served_.configuration[:] = 10_000 if len(seen) else 0

class Heavy(Fastest):
    def learn(self, seen):
        super().learn(seen)
        self.served_.weight[:] = 0.7 if len(seen) else 1.0

class Empty(Fastest):
    def learn(self, seen):
        self.served_ = None

class Made(Fastest):
    @classmethod
    def make(cls, setting):
        made = cls(setting)
        made.update_every = 7
        return made

class Wanting(Fastest):
    def __init__(self, one, two):
        pass

class Nothing(Fastest):
    def where(self, contexts):
        return None

class Short(Fastest):
    def where(self, contexts):
        row, network = super().where(contexts)
        return row[:-1], network

class Outside(Fastest):
    def where(self, contexts):
        row, network = super().where(contexts)
        return row + 10_000, network

class Ends(Fastest):
    def where(self, contexts):
        raise SystemExit(0)

class Unread(Fastest):
    def decide(self, contexts, chance):
        raise OSError("x")

class Undecided(Fastest):
    def decide(self, contexts, chance):
        return None

class Other:
    pass

number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_policy.py").write_text(OWN)
    (tmp_path / "broken_policy.py").write_text("import nothing_of_the_kind")
    (tmp_path / "ending_policy.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "unreadable_policy.py").write_text("def :")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_policy"
    for name in ("own_policy", "broken_policy", "ending_policy", "unreadable_policy"):
        sys.modules.pop(name, None)


def lived_through(name: str) -> Any:
    made = small_made(name, 100)
    lived(made, SMALL, 300, batch=100)
    return made


def test_it_learns_as_any_other_does(own: str) -> None:
    made = lived_through(f"{own}:Fastest")
    assert made.updates_ == 3 and made.cells.tally_.count.sum() == 300
    again = small_made(f"{own}:Fastest", 100)
    again.restore(made.save())
    assert again.save() == made.save()
    assert small_made(f"{own}:Made").update_every == 7, "it may be made by a method of its own"
    assert "--engine" in untaken([f"{own}:Fastest"], "engine"), "options that make no difference are named"
    with pytest.raises(BadInput, match="no policy is called 'fastest'.*package.module:Class"):
        row_of("fastest")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_policy:Raises", "ZeroDivisionError: none left .*own_policy.py, line 23"),
        ("own_policy:Lost", "AttributeError: .*nothing.*own_policy.py, line 27"),
        ("own_policy:Beyond", "configuration that the grid"), ("own_policy:Heavy", "sum to 1"),
        ("own_policy:Empty", "served_ is NoneType"), ("own_policy:Wanting", "TypeError"),
        ("own_policy:Nothing", r"'own_policy:Nothing': where.. \(.*own_policy.py, line 55. returns NoneType;"),
        ("own_policy:Short", "returns an array of int64 .*an array of 100 integers"),
        ("own_policy:Outside", "returns 10000 to 100[0-9][0-9] where there are 0 to"),
        ("own_policy:Ends", "SystemExit: 0 .*own_policy.py, line 70"),
        ("own_policy:Unread", "OSError: x .*own_policy.py, line 74"),
        ("own_policy:Undecided", r"decide\(\) .*own_policy.py, line 77\) returns NoneType"),
        ("ending_policy:X", "'ending_policy:X': SystemExit: 0 .*ending_policy.py, line 2"),
        ("own_policy:Other", "no configtron.learner.TablePolicy"),
        ("own_policy:number", "no configtron.learner.TablePolicy"),
        ("own_policy:Nowhere", "no Nowhere in own_policy"),
        ("no_policy_here:Fastest", "No module named 'no_policy_here'"),
        ("broken_policy:X", "No module named 'nothing_of_the_kind'"), ("unreadable_policy:X", "SyntaxError"),
        ("own policy:Fastest", "write package.module:Class"), (":Fastest", "write package.module:Class"),
        ("own_policy:", "write package.module:Class"),
    ],
)  # fmt: skip
def test_what_it_does_wrong_is_one_line(own: str, name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        lived_through(name)
    assert "\n" not in str(caught.value)


def test_what_is_encoded_comes_back() -> None:
    state = {"a": np.arange(6.0).reshape(2, 3), "b": ("x", float("nan"), None), "c": {1: [True]}, "d": np.array(["é"])}
    back = decode(encode(state))
    assert encode(back) == encode(state) and back["a"].dtype == state["a"].dtype and back["b"][0] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[" * 5000, '{"tuple":' * 900 + "1" + "}" * 900, '{"map": 5}', '{"map": [["a"]]}',
        '{"map": [["a", {"kind": "NetworkClass", "fields": []}]]}',
        '{"map": [["a", {"kind": "nothing", "fields": {}}]]}', '{"map": [["a", {"float": 1%s}]]}' % ("0" * 400),
        '{"map": [["a", {"array": 5, "dtype": "<f8", "shape": [1]}]]}',
        '{"map": [["a", {"array": "eJwDAAAAAAE=", "dtype": "O", "shape": [0]}]]}',
        '{"map": [["a", {"array": "eJwDAAAAAAE=", "dtype": "f4,(2,", "shape": [0]}]]}',
        '{"map": [["a", {"array": "eJwDAAAAAAE=", "dtype": "<f8", "shape": [1180591620717411303424]}]]}',
    ],
)  # fmt: skip
def test_what_was_not_is_refused(text: str) -> None:
    gc.collect()  # the finalizer of another test's garbage would fail in a deep recursion
    with pytest.raises(BadInput, match="no saved policy"):
        decode(text)


@pytest.mark.parametrize("fields", [{}, {"hops": 3}])
def test_a_state_with_other_fields_is_one_of_another_version(fields: dict[str, int]) -> None:
    kept = {"map": [["a", {"kind": "NetworkClass", "fields": fields}]]}
    with pytest.raises(BadInput, match="saved by another version.*--fresh") as refused:
        decode(json.dumps(kept))
    assert "__init__" not in str(refused.value) and "\n" not in str(refused.value)
