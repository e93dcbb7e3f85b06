# SPDX-License-Identifier: MIT
"""Rotation of the manager's key: it changes when it is due, and an agent follows by the line that was printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.fleet.transport.curve_keys import NEXT, curve_pair, manager_address, put_next_pair, signing_key
from configtron.model.errors import BadInput
from configtron.service.fleet import enrolment
from configtron.service.fleet.key_rotation import ROTATION, change_key, rotation_of
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.running_fleet import MAP, Fleet
from tests.support.waiting import until


@pytest.mark.slow
def test_an_agent_follows_its_manager_by_the_line_of_the_next_key(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FixedMapMaker(MAP))
    database, keys = fleet.options.database, fleet.options.keys
    old = curve_pair(keys).public
    with fleet.manager() as core:
        later, _ = enrolment.rotate(database, keys)
        until(lambda: core.rotation is not None)
        assert curve_pair(keys).public == old, "it is not due"
        found, line = enrolment.rotate(database, keys, 0.0)
        assert found.public == later.public
        until(lambda: curve_pair(keys).public.decode() == found.public)
        with FleetStore(database) as store:
            until(lambda: ROTATION not in store.facts())
        before = manager_address(fleet.folder)
        joined = enrolment.join(fleet.folder, enrolment.join_line(line.text))
        assert joined == manager_address(fleet.folder) == replace(before, curve=found.public)
        with fleet.running_agent(tmp_path):
            until(lambda: "web1" in core.session.agents and core.session.agents["web1"].held == (1, 1))
    assert fleet.errors == [] and not (keys / NEXT).exists()


def test_a_line_of_the_next_key_is_refused_by_an_agent_of_another_manager(tmp_path: Path) -> None:
    FleetStore(tmp_path / "m.db").close()
    _, line = enrolment.rotate(tmp_path / "m.db", tmp_path / "keys")
    with pytest.raises(BadInput, match="not joined a manager"):
        enrolment.join(tmp_path / "agent", line)
    other = enrolment.enroll(tmp_path / "o.db", tmp_path / "other", "web1", "tcp://192.0.2.1:5560")
    enrolment.join(tmp_path / "agent", other)
    with pytest.raises(BadInput, match="another manager"):
        enrolment.join(tmp_path / "agent", line)
    assert manager_address(tmp_path / "agent") == other.address


def test_an_address_that_version_0_2_wrote_while_keys_were_rotated_is_read(tmp_path: Path) -> None:
    line = enrolment.enroll(tmp_path / "m.db", tmp_path / "keys", "web1", "tcp://192.0.2.1:5560")
    enrolment.join(tmp_path / "agent", line)
    path = tmp_path / "agent" / "manager.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "following": "x" * 40, "serial": 3}))
    assert manager_address(tmp_path / "agent") == line.address


def test_a_kill_between_file_and_fact_ends_the_same(tmp_path: Path) -> None:
    FleetStore(tmp_path / "m.db").close()
    found, _ = enrolment.rotate(tmp_path / "m.db", tmp_path, now_s=1e9)
    assert put_next_pair(tmp_path, found.public)
    with FleetStore(tmp_path / "m.db") as store:
        assert change_key(store, tmp_path, found) and rotation_of(store.facts()) is None
    later, _ = enrolment.rotate(tmp_path / "m.db", tmp_path, now_s=1e9)
    assert later.public != found.public
    (tmp_path / NEXT).unlink()
    with FleetStore(tmp_path / "m.db") as store:
        assert not change_key(store, tmp_path, later)
    assert curve_pair(tmp_path).public.decode() == found.public


def test_damaged_facts_and_hours_are_named(tmp_path: Path) -> None:
    for text in ("x", "[]", "{}", json.dumps({"public": "short", "until_s": 1}), '{"public": 1e999}'):
        with pytest.raises(BadInput, match="fact 'key rotation' is damaged"):
            rotation_of({ROTATION: text})
    for wrong in (-1.0, float("nan"), 1e9):
        with pytest.raises(BadInput, match="within"):
            enrolment.rotate(tmp_path / "m.db", tmp_path, wrong)
    assert not (tmp_path / NEXT).exists() and signing_key(tmp_path)
