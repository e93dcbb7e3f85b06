# SPDX-License-Identifier: MIT
"""Metrics as Prometheus reads them: the format, escapes, and label sets that stay bounded."""

from __future__ import annotations

import re

import pytest

from configtron.model.exposition import AGENT_METRICS, MANAGER_METRICS, MOST_VALUES, bounded, exposition

EVERY = {family.name: family for family in (*AGENT_METRICS, *MANAGER_METRICS)}
LOADS, RECORDS = EVERY["agent_loads_total"], EVERY["agent_records_total"]
SAMPLE = re.compile(r'^[a-z_]+(\{([a-z]+="(\\.|[^"\\\n])*",?)+\})? (NaN|[+-]Inf|-?\d+(\.\d+)?(e[+-]?\d+)?)$')


def test_the_text_is_the_published_form() -> None:
    text = exposition(AGENT_METRICS, {"agent_map_version": {(): 7.0}, RECORDS.name: {("lost",): 2.0, ("open",): 1e20}})
    assert text == (
        "# HELP configtron_agent_map_version Version of the map in force.\n"
        "# TYPE configtron_agent_map_version gauge\n"
        "configtron_agent_map_version 7\n"
        "# HELP configtron_agent_records_total Connections by the kernel, log lines by the web server.\n"
        "# TYPE configtron_agent_records_total counter\n"
        'configtron_agent_records_total{kind="lost"} 2\n'
        'configtron_agent_records_total{kind="open"} 1e+20\n'
    )


def test_any_word_and_number_can_be_read() -> None:
    values = {('a"b\\c\nd',): 1.5, ("plain",): float("inf"), ("nan",): float("nan")}
    for line in exposition(AGENT_METRICS, {LOADS.name: values}).splitlines():
        assert line.startswith("# ") or SAMPLE.match(line), line
    assert 'outcome="a\\"b\\\\c\\nd"' in exposition(AGENT_METRICS, {LOADS.name: values})


def test_label_sets_are_bounded() -> None:
    flood = {(f"reason-{n}",): float(n) for n in range(10_000)}
    found = bounded(LOADS, flood)
    assert len(found) == MOST_VALUES + 1
    assert sum(found.values()) == sum(flood.values()) and ("reason-9999",) in found
    assert bounded(RECORDS, {("open",): 1.0, ("weird",): 2.0, ("odd",): 3.0}) == {("open",): 1.0, ("other",): 5.0}


def test_what_no_table_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such metrics: sites"):
        exposition(AGENT_METRICS, {"sites": {(): 1.0}})
    with pytest.raises(ValueError, match="has 1 labels"):
        exposition(AGENT_METRICS, {LOADS.name: {(): 1.0}})


def test_names_follow_the_rules() -> None:
    assert len(EVERY) == len(AGENT_METRICS) + len(MANAGER_METRICS)
    for family in EVERY.values():
        assert re.fullmatch(r"(agent|manager)_[a-z_]+", family.name) and family.kind in ("gauge", "counter")
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert not any(label in ("prefix", "site", "client", "unit") for label, _ in family.labels)
