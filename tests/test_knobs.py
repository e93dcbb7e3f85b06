# SPDX-License-Identifier: MIT
"""The knob table: complete, typed, consistent with itself and with what probes report."""

from __future__ import annotations

import importlib
import pkgutil

import configtron.fingerprint as readers
from configtron.model.knobs import KNOBS, MEASURED, NAMED_BY_HC, PER_CONNECTION, TABLE2, TUNABLE
from configtron.model.nouns import Knob, Observation
from tests.support.rules import offenders

# Names of a merged fingerprint, as the probes' readers and the lab's truth spell them.
REPORTED = (
    "icw icw_tls cwnd_at_request icw_formula "
    "synack_rto synack_backoff synack_retries synack_end synack_duplicates syn_cookies data_rto min_rto rwin "
    "rwin_ts wscale rwin_first_ack signature stack ecn sack timestamps tfo craft delayed_ack slow_start_after_idle "
    "http_version http_tls http_clear h2c h2_header_table_size h2_enable_push h2_max_concurrent_streams "
    "h2_initial_window_size "
    "h2_max_frame_size h2_max_header_list_size h2_settings h2_window_update h2_reserved "
    "h2_later_settings h2_goaway tls_versions load_balancing"
).split()
ALL = (*TUNABLE, *NAMED_BY_HC, *PER_CONNECTION, *MEASURED)


def test_every_reported_name_has_a_row() -> None:
    """Names in recorded data keep their row and their order; a new one needs no copy of its name here."""
    assert [knob.name for knob in MEASURED if knob.name in REPORTED] == REPORTED


def test_table_2_has_nine_rows() -> None:
    assert len(TABLE2) == len(set(TABLE2)) == 9 and set(TABLE2) <= set(REPORTED)
    assert [name for name in TABLE2 if not KNOBS[name].values] == []


def test_names_are_unique() -> None:
    for table in (TUNABLE, NAMED_BY_HC, PER_CONNECTION, MEASURED):
        assert len({knob.name for knob in table}) == len(table)
    twice = {knob.name for knob in TUNABLE} & {knob.name for knob in MEASURED}
    assert twice == {"http_version"}
    assert KNOBS["http_version"].values == ("h2", "http/1.1")


def is_whole(knob: Knob) -> None:
    assert knob.layer in ("ip", "tcp", "web", "http2")
    assert knob.scope in ("socket", "prefix", "netns", "process", "device")
    assert knob.source or knob.note, "where does this come from?"
    assert len(set(knob.values)) == len(knob.values)
    assert {type(value) for value in knob.values} <= {int, float, str}
    assert len({type(value) for value in knob.values}) <= 1
    if knob in TUNABLE:
        assert knob.default in knob.values
        assert knob.note.startswith("HC:")


def test_row_is_whole() -> None:
    assert offenders(is_whole, ALL, lambda knob: knob.name) == {}


def test_readers_report_known_names() -> None:
    """Every name a reader declares is a row, except those it marks as asides by not declaring them."""
    modules = [f"configtron.fingerprint.{module.name}" for module in pkgutil.iter_modules(readers.__path__)]
    seen = {name for module in modules for name in getattr(importlib.import_module(module), "KNOBS", ())}
    assert seen and seen - set(KNOBS) == set()


def test_a_value_fits_an_observation() -> None:
    for knob in MEASURED:
        for value in knob.values:
            assert Observation(knob.name, value, unit=knob.unit, grade="A").text == str(value)
