# SPDX-License-Identifier: MIT
"""A manager and an agent over ZeroMQ on loopback, the agent in its two processes, with the driver of trials."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import zmq

from configtron.db.fleet import FleetStore
from configtron.fleet.messages import Beat, frame
from configtron.fleet.transport.agent_sockets import AgentSockets
from configtron.fleet.transport.curve_keys import (
    NEXT,
    CurvePair,
    curve_pair,
    manager_address,
    public_key,
    put_next_pair,
    signing_key,
)
from configtron.fleet.transport.manager_sockets import ManagerSockets
from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.fleet import OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet import agent, enrolment
from configtron.service.fleet.key_rotation import ROTATION, change_key, rotation_of
from configtron.service.fleet.manager import run_manager
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.fleet.spool import Spool
from configtron.service.lease.options import LeaseOptions
from configtron.service.text_listener import ListenerPlace, TextListener
from tests.support.running_fleet import MAP, Fleet
from tests.support.waiting import PATIENCE_S, until

# linux/tcp.h
TCP_NOTSENT_LOWAT = 25


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, FixedMapMaker(MAP))


@pytest.mark.proof
@pytest.mark.slow
def test_a_map_reaches_the_applier_and_rows_the_database(fleet: Fleet, tmp_path: Path) -> None:
    row = OutcomeRow("", "", 0, 5, "a.example", "198.51.7.0/24", "0" * 16, 812.5, 1, 1, 3, "near", 0, "fast", 1.0)
    spool = Spool(fleet.folder / "spool.db", "web1")
    spool.add([row] * 5000)
    spool.close()
    with fleet.manager() as core, fleet.running_agent(tmp_path):
        until(lambda: holds(core, 1))
        until(lambda: fleet.maker.rows == 5000)
        fleet.maker.change(replace(MAP, prefixes={**MAP.prefixes, "192.0.2.0/24": "near"}))
        until(lambda: holds(core, 2))
        until(lambda: core.session.agents["web1"].waiting == 0)
    assert fleet.errors == []
    with FleetStore(fleet.options.database) as store:
        assert [(stream.agent, stream.through, stream.lost) for stream in store.streams()] == [("web1", 5000, 0)]
        assert [row.why for row in store.maps()] == ["made", "made"]
        assert '"held":"1.' in store.facts()["agent web1"] or '"held": "1.' in store.facts()["agent web1"]


def holds(core: ManagerCore, version: int) -> bool:
    """Return whether the manager knows that its agent holds a version."""
    return "web1" in core.session.agents and core.session.agents["web1"].held == (1, version)


def scraped(place: str, path: str = "/metrics") -> str:
    """Return what a path has; "" while nothing listens."""
    with suppress(URLError), urlopen(f"http://{place}{path}", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())
    return ""


def test_manager_and_agent_serve_their_metrics(fleet: Fleet, tmp_path: Path) -> None:
    # the endpoint's address is this test's own
    host = fleet.options.endpoint.removeprefix("tcp://").partition(":")[0]
    places = f"{host}:9316", f"{host}:9317"
    fleet.options = replace(fleet.options, metrics=places[0])
    with fleet.manager(), fleet.running_agent(tmp_path, metrics=places[1]):
        until(lambda: "\nconfigtron_agent_map_version 1\n" in scraped(places[1]))
        text = scraped(places[1])
        for line in ("agent_map_term 1", "agent_spool_rows 0", "agent_frozen 0", "agent_entries_refused 0"):
            assert f"\nconfigtron_{line}\n" in text
        assert "\nconfigtron_agent_apply_seconds " in text and "\nconfigtron_agent_manager_heard_seconds " in text
        until(lambda: "\nconfigtron_agent_lease_seconds " in scraped(places[1]))
        left = dict(re.findall(r"^configtron_agent_(map_valid|lease)_seconds (\S+)$", scraped(places[1]), re.M))
        assert 0 < float(left["lease"]) <= 5 < float(left["map_valid"]) <= 21600
        until(lambda: "\nconfigtron_manager_map_version 1\n" in scraped(places[0]))
        assert 'configtron_manager_rollout_stage{stage="none"} 1' in scraped(places[0])
        page = scraped(places[0], "/")
        assert '<meta http-equiv="refresh" content="30">' in page and "<script" not in page
    assert fleet.errors == [] and scraped(places[0]) == ""


def test_a_python_that_the_agents_user_may_not_run_ends_the_agent(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(fleet.folder / "manager.json"))
    options = agent.AgentOptions(LeaseOptions(tmp_path / "t.db", driver="memory"), fleet.folder, "root")
    # Where root cannot drop groups, that is refused first.
    with pytest.raises(Missing, match=r"may not run .*manager.json: Permission denied; let it read|cannot become user"):
        agent.run_agent(options)


def test_a_metrics_port_that_is_taken_is_one_line(fleet: Fleet) -> None:
    taken = TextListener(ListenerPlace("127.0.0.1", 0), {}, "")
    with closing(taken), pytest.raises(Missing, match=f"--metrics 127.0.0.1:{taken.port}: Address already in use"):
        run_manager(replace(fleet.options, metrics=str(taken.port)), fleet.maker, stop=lambda: True)
    with pytest.raises(BadInput, match="--metrics"):
        replace(fleet.options, metrics="nowhere")


def test_an_agent_is_ready_once_its_map_is_in_force_and_its_beacons_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, socket.socket() as beacons:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        beacons.bind(("127.0.0.1", 0))
        one = agent.Readiness(beacons.getsockname()[1])
        one.turn(True)
        with pytest.raises(BlockingIOError):
            manager.recv(100)
        beacons.listen()
        for connected in (False, True, True):
            one.turn(connected)
        assert manager.recv(100) == b"READY=1"
        with pytest.raises(BlockingIOError):
            manager.recv(100)


def test_what_a_manager_stores_outlasts_a_power_cut(fleet: Fleet) -> None:
    """Agents forget rows that are receipted, and obey the highest term: neither may be gone from the disk."""
    full, seen = 2, list[tuple[int]]()
    run_manager(fleet.options, fleet.maker, stop=lambda: True, started=lambda core: seen.append(
        core.store._connection.execute("PRAGMA synchronous").fetchone()))  # fmt: skip
    assert seen == [(full,)]


def test_a_second_manager_of_the_database_stops_the_first_by_a_line_that_names_both(fleet: Fleet) -> None:
    with fleet.manager() as core:
        with FleetStore(fleet.options.database) as store:
            store.begin_term("another host")
        until(lambda: bool(fleet.errors))
    (error,) = fleet.errors
    assert isinstance(error, Refused) and "another host" in str(error) and core.session.manager in str(error)


@pytest.fixture
def sockets(fleet: Fleet) -> Iterator[ManagerSockets]:
    enrolled = {fleet.agent.public.decode(): "web1"}
    found = ManagerSockets(fleet.options.endpoint, curve_pair(fleet.options.keys), enrolled)
    yield found
    found.close()


def heard(sockets: ManagerSockets, agent: AgentSockets, data: bytes, patience_s: float = PATIENCE_S) -> list[str]:
    """Return the keys of frames that arrive while an agent sends."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        agent.send(data)
        sockets.wait(0.05)
        # Frames that were sent before, by another, may still arrive.
        if found := [each.key for each in sockets.receive(10) if each.data == data]:
            return found
    return []


def test_only_enrolled_keys_are_heard_and_a_refused_agent_can_say_so(fleet: Fleet, sockets: ManagerSockets) -> None:
    data = frame(Beat())
    known = AgentSockets(fleet.address, fleet.agent)
    unknown = AgentSockets(fleet.address, CurvePair(*zmq.curve_keypair()))
    assert heard(sockets, known, data)[:1] == [fleet.agent.public.decode()]

    def refused() -> bool:
        assert heard(sockets, unknown, frame(Beat(7, 7)), 0.1) == []
        return "refuses this host's key" in unknown.complaint()

    until(refused)
    assert sockets.refused > 0
    unknown.close()
    sockets.allowed.clear()
    # libzmq hears a key that was revoked on its old connection: the session drops it by the key of each frame.
    assert heard(sockets, known, data)[:1] == [fleet.agent.public.decode()]
    again = AgentSockets(fleet.address, fleet.agent)
    assert fleet.agent.public.decode() not in heard(sockets, again, b"\x01again", 1.0)
    for each in (known, again):
        each.close()


def test_a_client_without_a_key_and_one_with_the_wrong_server_key_are_not_heard(
    fleet: Fleet, sockets: ManagerSockets
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    plain = context.socket(zmq.DEALER)
    plain.linger, plain.immediate, plain.sndtimeo = 0, True, 0
    plain.connect(fleet.options.endpoint)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        with suppress(zmq.Again):
            plain.send(frame(Beat()))
        sockets.wait(0.05)
        assert sockets.receive(10) == []
    plain.close(0)
    context.term()
    other = replace(fleet.address, curve=zmq.curve_keypair()[0].decode())
    agent = AgentSockets(other, fleet.agent)
    assert heard(sockets, agent, frame(Beat()), 1.0) == []
    agent.close()


def test_a_frame_of_many_megabytes_ends_its_connection_and_nothing_else(fleet: Fleet, sockets: ManagerSockets) -> None:
    agent = AgentSockets(fleet.address, fleet.agent)
    assert heard(sockets, agent, frame(Beat()))
    agent.send(bytes(64 << 20))
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        sockets.wait(0.05)
        assert all(len(each.data) < 100 for each in sockets.receive(10))
    assert heard(sockets, agent, frame(Beat()))
    agent.close()


def test_a_line_of_enroll_joins_an_agent(tmp_path: Path) -> None:
    keys, database = tmp_path / "keys", tmp_path / "m.db"
    line = enrolment.enroll(database, keys, "web1", "tcp://manager.example:5560")
    again = enrolment.join_line(line.text)
    assert again == line and line.secret and line.text.replace("-", "").replace("_", "").isalnum()
    enrolment.join(tmp_path / "agent", again)
    with FleetStore(database) as store:
        assert store.allowed() == {curve_pair(tmp_path / "agent").public.decode(): "web1"}
    own = enrolment.own_key(tmp_path / "other")
    other = enrolment.enroll(database, keys, "web2", "tcp://[2001:db8::1]:5560", own)
    assert not other.secret
    assert [row.name for row in enrolment.agents(database)] == ["web1", "web2"]
    assert enrolment.revoke(database, "web1") and not enrolment.revoke(database, "web1")


def test_a_rollback_publishes_the_map_before_and_holds_the_maker(fleet: Fleet) -> None:
    with fleet.manager() as core:
        until(lambda: core.session.current is not None)
        fleet.maker.change(replace(MAP, prefixes={"192.0.2.0/24": "near"}))
        until(lambda: core.session.current is not None and len(core.session.current.table) == 1)
        assert enrolment.roll_back(fleet.options.database) == "1.1"
        until(lambda: core.session.current is not None and len(core.session.current.table) == len(MAP.prefixes))
        fleet.maker.change(replace(MAP, prefixes={"192.0.3.0/24": "near"}))
        time.sleep(2.5)
        assert core.session.current is not None and len(core.session.current.table) == len(MAP.prefixes)
        assert enrolment.resume(fleet.options.database)
        until(lambda: core.session.current is not None and len(core.session.current.table) == 1)
    assert [row["why"] for row in enrolment.map_rows(fleet.options.database)] == [
        "made", "made", "rollback to 1.1", "made"]  # fmt: skip


def test_keys_are_files_that_only_their_owner_reads(tmp_path: Path) -> None:
    pair = curve_pair(tmp_path / "keys")
    assert curve_pair(tmp_path / "keys") == pair and public_key(pair.secret) == pair.public
    assert pair.secret.decode() not in repr(pair)
    assert signing_key(tmp_path / "keys") == signing_key(tmp_path / "keys")
    for path in (tmp_path / "keys").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "keys" / "curve.key").chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600"):
        curve_pair(tmp_path / "keys")
    with pytest.raises(BadInput, match="not joined"):
        manager_address(tmp_path / "keys")


# ---- rotation of the manager's key: it changes when it is due


@pytest.mark.slow
def test_an_agent_follows_its_manager_by_the_line_of_the_next_key(fleet: Fleet, tmp_path: Path) -> None:
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
            until(lambda: holds(core, 1))
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


# ---- open connections: `tune agent --retune-open` has them follow a map, else they stay


@pytest.mark.root
@pytest.mark.parametrize("retune_open", [True, False])
def test_open_connections_follow_a_map_if_asked_and_come_back_at_the_end(
    fleet: Fleet, tmp_path: Path, retune_open: bool
) -> None:
    profiles = {"low": Profile("low", (("notsent_lowat", 5000),)), "high": Profile("high", (("notsent_lowat", 9000),))}
    mixes = {"near": (("low", 65_536),), "far": (("high", 65_536),)}
    first = replace(MAP, profiles=profiles, mixes=mixes, prefixes={"127.77.0.0/16": "near", "127.78.0.0/16": "near"})
    fleet.maker.change(first)
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        ends = []
        for address in ("127.77.0.1", "127.78.0.1"):
            place = listener.getsockname()
            stack.enter_context(socket.create_connection(place, PATIENCE_S, (address, 0)))
            ends.append(stack.enter_context(listener.accept()[0]))

        def seen() -> list[int]:
            return [one.getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT) for one in ends]

        with fleet.manager() as core, fleet.running_agent(tmp_path, retune_open=retune_open):
            until(lambda: holds(core, 1))
            assert seen() == [0, 0], "a map alone changes no open connection"
            # Under another key it does not wait for the turn of the epoch.
            fleet.maker.change(replace(first, prefixes={**first.prefixes, "127.77.0.0/16": "far"}, key=b"o" * 16))
            until(lambda: holds(core, 2))
            if retune_open:
                until(lambda: seen() != [0, 0])
            assert seen() == [9000 * retune_open, 0]
        assert seen() == [0, 0]
