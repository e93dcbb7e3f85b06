# SPDX-License-Identifier: MIT
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from configtron import report
from configtron.model import records
from configtron.model.errors import BadInput
from configtron.model.nouns import GRADES, Observation, Target, Vantage
from configtron.model.records import Result

SCHEMA = json.loads(Path(report.__file__).with_name("probe.schema.json").read_text())

names = st.text(min_size=1, max_size=8)
numbers = st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).map(lambda x: round(x, 6)) | st.booleans()
values = st.recursive(numbers | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
pairs = st.dictionaries(names, values, max_size=3).map(lambda d: tuple(sorted(d.items())))


@st.composite
def observations(draw: st.DrawFn, deep: bool = True) -> Observation:
    grade = draw(st.sampled_from(GRADES))
    unit, method, trace = (draw(st.text(max_size=4)) for _ in range(3))
    value, reason = (None, draw(names)) if grade == "N" else (draw(values), None)
    frames = tuple(draw(st.lists(st.integers(0, 99), max_size=3)))
    trials = tuple(draw(st.lists(observations(deep=False), max_size=2))) if deep else ()
    return Observation(draw(names), value, reason, unit, method, grade, trace, frames, trials, draw(pairs))


targets = st.builds(
    Target, names, st.just("192.0.2.1"), st.integers(1, 65535), st.just("/"), st.text(max_size=4), st.text(max_size=4)
)
results = st.builds(
    Result, names, names, targets, names, pairs, st.integers(0, 2**62), names,
    st.lists(names, max_size=2).map(tuple), names, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9),
    st.integers(0, 9), st.lists(observations(), max_size=3).map(tuple),
)  # fmt: skip


@pytest.mark.slow
@given(results)
def test_result_comes_back_from_one_line(result: Result) -> None:
    line = records.result_to_json(result)
    assert "\n" not in line
    assert records.result_from_json(line) == result


@given(st.text(max_size=40) | st.from_regex(r'\{"(target|knob|value)": ?[\[{"0-9]*[\]}"]*\}'))
def test_other_text_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        records.result_from_json(text)


@pytest.mark.slow
@given(targets, st.lists(observations(), max_size=4), st.lists(results, max_size=3))
def test_every_record_fits_the_schema(target: Target, verdicts: list[Observation], evidence: list[Result]) -> None:
    line = records.target_record(target, Vantage("na", "North America"), verdicts, evidence)
    assert list(Draft202012Validator(SCHEMA).iter_errors(json.loads(line))) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"schema": "configtron.probe/2"},
        {"observations": {"icw": {"value": 10, "grade": "N"}}},
        {"vantage": {"region": "Europe"}},
    ],
)
def test_the_schema_is_one_and_refuses_what_is_wrong(broken: dict[str, object]) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == records.SCHEMA
    line = records.target_record(Target("example.com", "192.0.2.1"), Vantage("na", ""), [])
    assert list(Draft202012Validator(SCHEMA).iter_errors({**json.loads(line), **broken}))


def test_numbers_are_rounded_to_the_microsecond_and_keys_sorted() -> None:
    reading = Observation("data_rto", 0.1 + 0.2, unit="s", grade="C", details=(("b", 1), ("a", (1, 0.1234567))))
    line = records.result_to_json(Result("a", "na", Target("a"), "data_rto", observations=(reading,)))
    assert '{"details":{"a":[1,0.123457],"b":1},"grade":"C","knob":"data_rto","unit":"s","value":0.3}' in line


def of_target(verdict: Observation, *results: Result) -> Any:
    line = records.target_record(Target("a"), Vantage("na", ""), [verdict], list(results))
    return json.loads(line)["observations"]["icw"]


def test_a_trials_frames_are_numbered_as_wireshark_does() -> None:
    trial = Observation("icw", 10, grade="C", trace_id="na/a/icw.1", evidence=(0, 4))
    result = Result("na/a/icw.1", "na", Target("a"), "icw", evidence_file="na.pcapng", first_frame=17, frames=9)
    record = of_target(Observation("icw", 10, grade="A", trials=(trial,)), result)
    assert record["trials"][0]["evidence"] == {"file": "na.pcapng", "frames": [17, 21]}


def test_a_lower_bound_keeps_its_sign() -> None:
    assert of_target(Observation("icw", 4, grade="L"))["text"] == ">= 4"
