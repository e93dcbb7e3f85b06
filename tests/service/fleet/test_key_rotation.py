# SPDX-License-Identifier: MIT
"""Rotation of the manager's key: agents follow, whatever is killed or sent again; who does not know is named."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import zmq
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.fleet.manager_session import ManagerSession, SendTo
from configtron.fleet.messages import AgentHello, Beat, KeyHeld, NextKey, frame, from_manager
from configtron.fleet.transport.applier_link import ApplierLink, HostReport
from configtron.fleet.transport.curve_keys import (
    NEXT,
    ManagerAddress,
    curve_pair,
    manager_address,
    put_next_pair,
    signing_key,
    write_manager_address,
)
from configtron.model.errors import BadInput, Unwritten
from configtron.service.fleet.agent_core import AgentCore
from configtron.service.fleet.agent_network import run_network
from configtron.service.fleet.key_rotation import (
    ROTATION,
    AgentKeys,
    KeyRotation,
    change_key,
    rotate,
    rotation_of,
)
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.running_fleet import MAP, Fleet
from tests.support.waiting import PATIENCE_S, until

KEY = SigningKey(bytes(32))


def public() -> str:
    return zmq.curve_keypair()[0].decode()


@contextmanager
def network(folder: Path) -> Iterator[AgentCore]:
    """The agent's network process as a thread, which tries another key soon."""
    ours, theirs = socket.socketpair()
    cores: list[AgentCore] = []
    done = threading.Event()
    ApplierLink(ours).send(HostReport("memory", (), (), False, 0, 0, b""))
    thread = threading.Thread(target=lambda: run_network(theirs, folder, stop=done.is_set, started=cores.append,
                                                         try_s=2.5))  # fmt: skip
    thread.start()
    try:
        until(lambda: bool(cores))
        yield cores[0]
    finally:
        done.set()
        thread.join(PATIENCE_S)
        ours.close()
        theirs.close()


def test_an_agent_follows_its_manager_to_the_next_key(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FixedMapMaker(MAP))
    database, keys = fleet.options.database, fleet.options.keys
    old = curve_pair(keys).public
    with fleet.manager() as core, network(fleet.folder):
        until(lambda: "web1" in core.session.agents)
        found, waits = rotate(database, keys)
        assert waits == ["web1"] and curve_pair(keys).public == old
        until(lambda: curve_pair(keys).public.decode() == found.public)
        heard = core.session.agents["web1"].heard_s
        until(lambda: core.session.agents["web1"].heard_s > heard + 0.5)
        until(lambda: manager_address(fleet.folder).curve == found.public)
    assert fleet.errors == [] and not (keys / NEXT).exists()
    kept = manager_address(fleet.folder)
    assert (kept.following, kept.serial) == ("", found.serial)
    with FleetStore(database) as store:
        assert ROTATION not in store.facts()


def test_the_old_key_works_until_all_hold_the_new_or_the_time_has_passed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FixedMapMaker(MAP))
    fleet.joined("web2", tmp_path / "absent")
    database, keys = fleet.options.database, fleet.options.keys
    old = curve_pair(keys).public
    with fleet.manager() as core, network(fleet.folder):
        until(lambda: "web1" in core.session.agents)
        first, waits = rotate(database, keys)
        assert waits == ["web1", "web2"]
        until(lambda: rotate(database, keys)[1] == ["web2"])
        assert curve_pair(keys).public == old, "web2 does not hold it"
        again, _ = rotate(database, keys, 0.0)
        assert (again.public, again.serial) == (first.public, first.serial)
        until(lambda: curve_pair(keys).public.decode() == first.public)
        until(lambda: manager_address(fleet.folder).curve == first.public)
    assert fleet.errors == []


def test_a_kill_between_file_and_fact_ends_the_same(tmp_path: Path) -> None:
    FleetStore(tmp_path / "m.db").close()
    found, _ = rotate(tmp_path / "m.db", tmp_path, now_s=1e9)
    assert put_next_pair(tmp_path, found.public)
    with FleetStore(tmp_path / "m.db") as store:
        assert change_key(store, tmp_path, found) and rotation_of(store.facts()) is None
    later, _ = rotate(tmp_path / "m.db", tmp_path, now_s=1e9)
    assert later.public != found.public
    (tmp_path / NEXT).unlink()
    with FleetStore(tmp_path / "m.db") as store:
        assert not change_key(store, tmp_path, later)
    assert curve_pair(tmp_path).public.decode() == found.public


def test_a_rotation_that_ended_without_its_fact_makes_another_key(tmp_path: Path) -> None:
    FleetStore(tmp_path / "m.db").close()
    found, _ = rotate(tmp_path / "m.db", tmp_path, now_s=1e9)
    assert put_next_pair(tmp_path, found.public)
    later, _ = rotate(tmp_path / "m.db", tmp_path, now_s=1e9)
    assert later.public != found.public and later.serial == found.serial + 1


def test_a_next_key_is_sent_until_it_is_held() -> None:
    session = ManagerSession("m", 1, {"k1": "web1", "k2": "web2"})
    assert session.without_key() == []
    session.next_key = KeyRotation(public(), 7, 0).message("m", 1, KEY)

    def sent(message: AgentHello | Beat | KeyHeld) -> int:
        effects = session.receive(b"c", "k1", frame(message), 1.0)
        return sum(isinstance(from_manager(each.data), NextKey) for each in effects if isinstance(each, SendTo))

    assert sent(AgentHello("boot", "1")) == sent(Beat()) == 1
    assert session.without_key() == ["web1", "web2"]
    assert sent(KeyHeld(6)) == 0 and sent(Beat()) == 1
    assert sent(KeyHeld(7)) == 0 and sent(Beat()) == 0
    assert session.without_key() == ["web2"]


@pytest.fixture
def address(tmp_path: Path) -> ManagerAddress:
    found = ManagerAddress("tcp://192.0.2.1:5560", public(), bytes(KEY.verify_key).hex())
    write_manager_address(tmp_path, found)
    return found


def test_only_a_later_key_of_the_manager_s_is_written_down(tmp_path: Path, address: ManagerAddress) -> None:
    keys, curve = AgentKeys(tmp_path, address, 0.0), public()
    good = KeyRotation(curve, 5, 0).message("m", 1, KEY)
    forged = KeyRotation(public(), 9, 0).message("m", 1, SigningKey(b"x" * 32))
    assert not keys.learn(forged) and not keys.learn(replace_serial(good, 6))
    assert keys.learn(good) and keys.learn(good), "it was held already"
    assert manager_address(tmp_path) == replace(address, following=curve, serial=5)
    older = KeyRotation(public(), 5, 0).message("m", 1, KEY), KeyRotation(public(), 4, 0).message("m", 1, KEY)
    assert not any(keys.learn(message) for message in older)
    assert not keys.learn(KeyRotation("'" * 40, 6, 0).message("m", 1, KEY))
    assert keys.learn(KeyRotation(public(), 6, 0).message("m", 1, KEY))


def replace_serial(message: NextKey, serial: int) -> NextKey:
    return NextKey(message.manager, message.term, message.curve, serial, message.signature)


def test_keys_are_tried_in_turn_until_one_is_heard(tmp_path: Path, address: ManagerAddress) -> None:
    keys, curve, tried = AgentKeys(tmp_path, address, 0.0, 8.0), public(), list[str]()

    def turn(now_s: float, heard_s: float | None) -> None:
        keys.turn(now_s, None if heard_s is None else now_s - heard_s, lambda to: tried.append(to.curve))

    turn(100.0, None)
    assert tried == [], "one key is known"
    assert keys.learn(KeyRotation(curve, 5, 0).message("m", 1, KEY))
    turn(101.0, 100.5)
    turn(108.4, 100.5)
    assert tried == []
    turn(108.6, 100.5)
    turn(116.0, 100.5)
    assert tried == [curve]
    turn(116.7, 100.5)
    assert tried == [curve, address.curve]
    turn(118.0, 117.5)
    assert manager_address(tmp_path).following == curve, "by the present key it is heard again"
    turn(126.0, 117.5)
    turn(126.2, 126.1)
    assert manager_address(tmp_path) == replace(address, curve=curve, serial=5) and keys.address.curve == curve
    turn(200.0, 126.1)
    assert tried == [curve, address.curve, curve]


def test_a_full_disk_keeps_the_present_key(
    tmp_path: Path, address: ManagerAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = AgentKeys(tmp_path, address, 0.0)

    def fails(*_: object) -> None:
        raise Unwritten("manager.json: no space left on device")

    monkeypatch.setattr("configtron.service.fleet.key_rotation.write_manager_address", fails)
    assert not keys.learn(KeyRotation(public(), 5, 0).message("m", 1, KEY))
    monkeypatch.undo()
    assert keys.learn(KeyRotation(public(), 5, 0).message("m", 1, KEY))


def test_damaged_facts_and_hours_are_named(tmp_path: Path) -> None:
    for text in ("x", "[]", "{}", json.dumps({"public": "short", "serial": 1, "until_s": 1}), '{"public": 1e999}'):
        with pytest.raises(BadInput, match="fact 'key rotation' is damaged"):
            rotation_of({ROTATION: text})
    for wrong in (-1.0, float("nan"), 1e9):
        with pytest.raises(BadInput, match="within"):
            rotate(tmp_path / "m.db", tmp_path, wrong)
    assert not (tmp_path / NEXT).exists() and signing_key(tmp_path)
