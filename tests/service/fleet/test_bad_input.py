# SPDX-License-Identifier: MIT
"""Keys, addresses, folders and databases that do not fit: one clear line, and nothing is written."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
import zmq

from configtron.fleet.messages import AgentHello
from configtron.fleet.transport.agent_sockets import AgentSockets
from configtron.fleet.transport.applier_link import (
    OF_APPLIER,
    ApplierLink,
    HeldReport,
    LinkClosed,
    StandingReport,
)
from configtron.fleet.transport.curve_keys import (
    CURVE,
    CurvePair,
    ManagerAddress,
    curve_pair,
    signing_key,
    write_curve_pair,
    write_manager_address,
)
from configtron.fleet.transport.manager_sockets import ManagerSockets
from configtron.intake.pageloads.intake import Intake
from configtron.intake.receiving.http_endpoint import BeaconEndpoint
from configtron.intake.receiving.log_socket import LogSocket
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.model.errors import BadInput, Busy, Missing
from configtron.model.nouns import Profile
from configtron.service.fleet import enrolment
from configtron.service.fleet.agent_core import AgentCore
from configtron.service.fleet.agent_network import run_network
from configtron.service.fleet.makers import AGAIN_NS, FileMapMaker, grid_of, learning_maker
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.map_maker import MapMaker
from configtron.service.fleet.restarts import Restarts
from configtron.service.learning import importable
from configtron.service.text_listener import TextListener, listener_place
from tests.support.faults.descriptors import no_descriptors
from tests.support.loopback import free_endpoint

KEY, SIGNING = "x" * 40, "0" * 64
HERE = "tcp://127.0.0.1:5560"


# ---- keys, addresses and folders


@pytest.mark.parametrize("endpoint", [
    "tcp://127.0.0.1:²", "tcp://127.0.0.1 x:5560", "tcp://\udcff:5560", "tcp://host\n:5560", "tcp://h:99999", "tcp://:1",
    "m:1",
])  # fmt: skip
def test_endpoint_that_libzmq_does_not_take_is_refused(endpoint: str) -> None:
    """A digit that is no number ended in a traceback; a space was found by the agent's network process alone."""
    with pytest.raises(BadInput, match="is no endpoint"):
        ManagerAddress(endpoint, KEY, SIGNING)


@pytest.mark.parametrize("endpoint", ["tcp://*:5560", "tcp://[::1]:5560", "tcp://[fe80::1%eth0]:1", "tcp://a-b.c_d:2"])
def test_endpoint_that_libzmq_takes_is_taken(endpoint: str) -> None:
    assert ManagerAddress(endpoint, KEY, SIGNING).endpoint == endpoint


def curve_file(folder: Path, public: str, secret: str) -> None:
    (folder / CURVE).touch(0o600)
    (folder / CURVE).write_text(f"{public}\n{secret}\n")


@pytest.mark.parametrize("key", ["~" * 40, "#" * 40, "é" * 40, KEY[1:], ""])
def test_key_that_is_no_z85_is_refused(tmp_path: Path, key: str) -> None:
    """Of the right length, yet not 32 bytes as Z85: on disk, in a line to join by, and at `enroll --key`."""
    with pytest.raises(BadInput, match="keys are cut short"):
        ManagerAddress(HERE, key, SIGNING)
    if key:
        with pytest.raises(BadInput, match="no public key"):
            enrolment.enroll(tmp_path / "a.db", tmp_path / "keys", "a", HERE, key)
    curve_file(tmp_path, key, key)
    with pytest.raises(BadInput, match="not a pair of keys"):
        curve_pair(tmp_path)


def test_halves_of_two_pairs_are_no_pair(tmp_path: Path) -> None:
    """A manager with its public key in the secret one's place would run, and no agent could connect."""
    public, secret = (half.decode() for half in zmq.curve_keypair())
    curve_file(tmp_path, secret, public)
    with pytest.raises(BadInput, match="not a pair of keys"):
        curve_pair(tmp_path)


def test_folder_with_other_files_is_not_given_away_and_an_agents_is_used_again(tmp_path: Path) -> None:
    """`tune agent --key --folder /etc` made the agent's user the owner of all files there."""
    line, mine, other = enrolment.JoinLine("a", ManagerAddress(HERE, KEY, SIGNING)), tmp_path / "a", tmp_path / "b"
    other.mkdir()
    (other / "shadow").write_text("root")
    for call in (lambda: enrolment.own_key(other), lambda: enrolment.join(other, line)):
        with pytest.raises(BadInput, match=r"'shadow' is no file of an agent"):
            call()
    assert [path.name for path in other.iterdir()] == ["shadow"]
    own = enrolment.own_key(mine)
    for name in ("spool.db", "spool.db-wal", "spool.db-shm"):
        (mine / name).touch()
    enrolment.join(mine, line)
    assert enrolment.own_key(mine) == own


@pytest.mark.parametrize("call", [
    lambda db: enrolment.revoke(db, "a"), enrolment.roll_back, enrolment.resume, enrolment.agents, enrolment.maps,
    lambda db: enrolment.rotate(db, db.parent / "fleet"),
])  # fmt: skip
def test_mistyped_database_is_refused_and_not_made(tmp_path: Path, call: Callable[[Path], object]) -> None:
    """`rollback --resume` on a path that is none answered that maps were being made already."""
    with pytest.raises(BadInput, match="no database here; name the manager's"):
        call(tmp_path / "typo.db")
    assert not [*tmp_path.iterdir()]


# ---- maps in files

MAP = {"profiles": {"fast": {"initcwnd": 20}}, "mixes": {"near": {"fast": 1}}, "prefixes": {}}
# Python's parser gives up at about 1,000 levels.
DEEP = "[" * 100_000
TWICE = ('{"profiles": {"a": {}}, "mixes": {"x": {"a": 1}, "y": {"a": 1}},'
         ' "prefixes": {"192.0.2.0/24": "x", "192.0.2.0/24": "y"}}')  # fmt: skip


def file_of(folder: Path, change: dict[str, object] | str = "") -> Path:
    """Return the file of a map with changes, or of a text."""
    path = folder / "map.json"
    path.write_text(change if isinstance(change, str) and change else json.dumps(MAP | dict(change or {})))
    return path


@pytest.mark.parametrize(("change", "why"), [
    # JSON as Python reads it knows NaN, Infinity, NUL and halves of characters.
    ({"valid_s": float("nan")}, "valid_s"), ({"valid_s": 1e300}, "valid_s"), ({"valid_s": -1}, "valid_s"),
    ({"holdback": float("inf")}, "holdback"), ({"mixes": {"ne\0ar": {"fast": 1}}}, "a name in the map"),
    ({"profiles": {"\ud800": {}}, "mixes": {"near": {"\ud800": 1}}}, "a name in the map"),
    ({"hold_back": 0.5}, "no member 'hold_back'; it has profiles"), ({"holdback": 2}, "holdback: 2 is no number from"),
    ({"epoch_s": 1}, "epoch_s: 1 is no whole number"), ({"epoch_s": 10.9}, "epoch_s: 10.9 is no whole number"),
    ({"lease_s": 1e999}, "lease_s: inf"), ({"ports": [0]}, "ports: 0"), ({"ports": "80"}, "ports: '8'"),
    ({"valid_s": 0}, "valid_s: 0"), ({"bands": [[1e300, "near"]]}, "bands: 1e"), ({"bands": [[0, "near"]]}, "bands: 0"),
    ({"bands": [[20, "far"]]}, "class 'far' has a band and no mix"), ({"mixes": {"near": {"slow": 1}}}, "'slow'"),
    ({"prefixes": {"10.0.0.0/24": "near", "::ffff:10.0.0.0/120": "near"}}, "'10.0.0.0/24' stands twice"),
    ({"profiles": {"a\x1b[2J": {}}, "mixes": {"near": {"a\x1b[2J": 1}}}, "does not print"),
    (TWICE, "'192.0.2.0/24' stands twice"), (DEEP, "not a map"),
    ({"profiles": {"fast": {"initcwn": 20}}}, "profile 'fast': no knob is called 'initcwn' (did you mean initcwnd?)"),
    ({"profiles": {"fast": {"initcwnd": "many"}}}, "initcwnd takes a number of segments"),
    ({"profiles": {"fast": {"initcwnd": 2.5}}}, "initcwnd takes a whole number"),
    ({"profiles": {"fast": {"initcwnd": None}}}, "is no setting"),
    ({"profiles": {"fast": {"tcp_congestion_control": "cubic; reboot"}}}, "takes a name"),
])  # fmt: skip
def test_what_no_map_has_is_named_before_it_is_signed(
    tmp_path: Path, change: dict[str, object] | str, why: str
) -> None:
    """A band of 1e300 ms ended the manager; `hold_back` was a holdback of 5 %; an unknown knob was published."""
    with pytest.raises(BadInput) as found:
        FileMapMaker(file_of(tmp_path, change))
    assert why in str(found.value) and "map.json: " in str(found.value)


@pytest.fixture
def running(tmp_path: Path) -> FileMapMaker:
    """The maker of a manager that runs, and has made its map."""
    found = FileMapMaker(file_of(tmp_path))
    assert found.make(0, lambda profile: "") is not None
    return found


def epochs(maker: FileMapMaker, *times_ns: int) -> list[int]:
    """Return the length of the epoch of the map that is made at each time; 0: none is."""
    made = (maker.make(now_ns, lambda profile: "") for now_ns in times_ns)
    return [0 if found is None else found.epoch_s for found in made]


def test_running_manager_outlives_a_map_that_is_mistyped(
    running: FileMapMaker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A slip of the editor ended the manager of all agents; the warning comes once, and the mended file is taken up."""
    file_of(tmp_path, "{")
    assert epochs(running, 1, 2) == [0, 0]
    assert [one.getMessage().count("not a map") for one in caplog.records] == [1]
    file_of(tmp_path, {"epoch_s": 60})
    assert epochs(running, 3) == [60]


def test_a_map_that_could_not_be_read_is_read_later(
    running: FileMapMaker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A manager out of descriptors took the file's state down before it had read it, and never read it again."""
    file_of(tmp_path, {"epoch_s": 60})
    with no_descriptors():
        assert epochs(running, *(at * AGAIN_NS for at in range(1, 4))) == [0] * 3
    (line,) = [one.getMessage() for one in caplog.records]
    assert "map.json: Too many open files" in line
    assert epochs(running, 3 * AGAIN_NS + 1, 4 * AGAIN_NS) == [0, 60], "it was tried within AGAIN_NS"


# ---- makers and their databases


@pytest.mark.parametrize("term", [-1, 2**62, 2**63 - 1, 2**63])
def test_term_leaves_room_for_more(tmp_path: Path, term: int) -> None:
    """2^63 - 1 as `--after-term` left a database in which no manager could start."""
    with pytest.raises(BadInput, match="after_term"):
        ManagerOptions(tmp_path / "a.db", tmp_path, after_term=term)


def test_unknown_policy_is_refused_at_once() -> None:
    """It was found only after `begin_with` outcomes, by a manager that had run for hours."""
    with pytest.raises(BadInput, match="no policy is called 'nosuch'"):
        LoopOptions(grid_of([Profile("fast", (("initcwnd", 20),))]), "nosuch")


@pytest.mark.parametrize("module", ["scipy", "sklearn"])
def test_manager_that_learns_needs_its_packages_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """It ended for want of scikit-learn only once `begin_with` outcomes were there, and so after each restart."""
    monkeypatch.setattr(importable, "find_spec", lambda name: None if name == module else name)
    with pytest.raises(Missing, match=r"pip install 'configtron\[learn\]'"):
        learning_maker(tmp_path / "a.db", "thompson", MapOptions())


def learner(path: Path) -> MapMaker:
    """A maker that learns. path: where the other one's map is."""
    return LoopMapMaker(LoopOptions(grid_of([Profile("fast", (("initcwnd", 20),))])), b"k" * 16)


def from_file(path: Path) -> MapMaker:
    """A maker with a map in a file."""
    return FileMapMaker(file_of(path.parent))


def managed(database: Path, keys: Path, maker: MapMaker, *, fresh: bool = False) -> None:
    """Run a manager for one turn."""
    run_manager(ManagerOptions(database, keys, free_endpoint(), fresh=fresh), maker, stop=iter((False, True)).__next__)


@pytest.mark.parametrize(("first", "second"), [(from_file, learner), (learner, from_file)])
def test_database_of_another_maker_names_the_remedy_and_the_remedy_works(
    tmp_path: Path, first: Callable[[Path], MapMaker], second: Callable[[Path], MapMaker]
) -> None:
    """`--policy` after `--map` advised to save a policy by `learn run`, or to name another database."""
    database, path = tmp_path / "a.db", tmp_path / "map.json"
    managed(database, tmp_path, first(path))
    with pytest.raises(BadInput, match="--fresh") as caught:
        managed(database, tmp_path, second(path))
    assert "learn run" not in str(caught.value) and "\n" not in str(caught.value)
    managed(database, tmp_path, second(path), fresh=True)
    managed(database, tmp_path, second(path))


@pytest.mark.parametrize("text", ["", "[]", '{"maker": 1}', '{"maker": 1, "learner": "{}"}', '{"maker": "x"}', "00"])
def test_damaged_state_of_a_learner_names_the_remedy(tmp_path: Path, text: str) -> None:
    """Keys that are absent ended in a traceback."""
    for maker in (learner(tmp_path), from_file(tmp_path / "map.json")):
        with pytest.raises(BadInput, match="--fresh"):
            maker.restore(text)


# ---- sockets, lines and processes


def test_address_in_use_may_be_free_later(tmp_path: Path) -> None:
    """The unit starts the manager again after it, and not after an error that lasts: exit codes 4 and 2."""
    keys = curve_pair(tmp_path)
    endpoint = free_endpoint()
    with closing(ManagerSockets(endpoint, keys, {})), pytest.raises(Busy, match="another manager runs there"):
        ManagerSockets(endpoint, keys, {})
    assert (Busy.code, BadInput.code) == (4, 2)


def test_keys_that_two_processes_make_at_once_are_one_pair(tmp_path: Path) -> None:
    """`enroll` beside a manager that started found no file, or printed a key that was replaced a moment later."""
    begin = threading.Barrier(8)

    def made() -> tuple[bytes, bytes]:
        begin.wait()
        return curve_pair(tmp_path).public, bytes(signing_key(tmp_path))

    with ThreadPoolExecutor(8) as pool:
        found = {one.result() for one in [pool.submit(made) for _ in range(8)]}
    assert len(found) == 1 and sorted(path.name for path in tmp_path.iterdir()) == ["curve.key", "signing.key"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def bound_anywhere(keys: CurvePair) -> tuple[ManagerSockets, int]:
    """A manager's sockets on all addresses, and the port: other tests have ports on some of them."""
    for _ in range(50):
        port = int(free_endpoint().rpartition(":")[2])
        with suppress(Busy):
            return ManagerSockets(f"tcp://*:{port}", keys, {}), port
    raise AssertionError("no two ports in a row are free on all addresses")


def test_default_address_is_for_both_families(tmp_path: Path) -> None:
    """Agents of a network without IPv4 found no manager at 0.0.0.0."""
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this host has no IPv6")
    assert ManagerOptions(tmp_path, tmp_path).endpoint == "tcp://*:5560"
    sockets, port = bound_anywhere(curve_pair(tmp_path))
    with closing(sockets):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as client:
                client.settimeout(5)
                client.connect((host, port))


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]", "-", "%"])
def test_agents_are_not_sent_to_an_address_that_none_can_connect_to(tmp_path: Path, host: str) -> None:
    """`enroll --address tcp://*:5560` printed a line by which each start of the agent ended in a traceback."""
    with pytest.raises(BadInput, match="no agent can connect"):
        enrolment.enroll(tmp_path / "a.db", tmp_path / "keys", "a", f"tcp://{host}:5560")
    if host not in ("0.0.0.0", "[::]"):
        pair = CurvePair(*zmq.curve_keypair())
        address = ManagerAddress(f"tcp://{host}:5560", pair.public.decode(), SIGNING)
        with pytest.raises(BadInput, match="no address to connect to"):
            AgentSockets(address, pair)


def test_a_line_with_one_wrong_letter_joins_nothing(tmp_path: Path) -> None:
    """A third of all slips was taken: another secret, with which no later line could be joined by."""
    line = enrolment.enroll(tmp_path / "a.db", tmp_path / "keys", "a", "tcp://manager.example:5560").text
    assert enrolment.join_line(line).text == line
    for cut in (line[:-9], "x", "", line[::-1]):
        with pytest.raises(BadInput):
            enrolment.join_line(cut)
    for at, letter in enumerate(line):
        with suppress(BadInput):
            # Some bits of the last letter, and the name of the checksum, say nothing.
            assert enrolment.join_line(line[:at] + ("A" if letter != "A" else "B") + line[at + 1 :]).text == line


def test_a_line_of_an_earlier_release_joins_and_one_that_is_nested_too_deep_is_none() -> None:
    """It has no checksum."""

    def line(text: str) -> str:
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    form = {"n": "a", "e": "tcp://manager.example:5560", "c": KEY, "v": SIGNING, "s": ""}
    assert enrolment.join_line(line(json.dumps(form))).name == "a"
    with pytest.raises(BadInput, match="no line of"):
        enrolment.join_line(line(DEEP))


@pytest.mark.parametrize("host", ["a..b", ".", "a" * 64])
def test_a_name_that_no_host_has_is_one_line(host: str) -> None:
    """Python looks such names up in an encoding of its own, whose errors are not the system's."""
    with pytest.raises(BadInput, match="no host is called that; name an address of this host"):
        TextListener(listener_place(f"{host}:9316", "--metrics"), {}, "--metrics")
    with pytest.raises(Missing, match="no host is called that; choose another"):
        asyncio.run(BeaconEndpoint(Intake(), lambda admitted: None).start(host, 9315))


def test_a_log_socket_that_cannot_be_had_names_what_is_in_the_way(tmp_path: Path) -> None:
    """A link to nothing was in use, and the remedy for everything was to make a folder."""
    link, stream = tmp_path / "link", tmp_path / "stream"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Missing, match="link: a symbolic link to nothing; choose another path"):
        LogSocket(link)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stream))
        listener.listen()
        with pytest.raises(Missing, match="stream: Protocol wrong type for socket; choose another path"):
            LogSocket(stream)
    with pytest.raises(Missing, match="No such file or directory; create its folder"):
        LogSocket(tmp_path / "no" / "folder" / "log")


def test_the_appliers_first_messages_may_come_at_once_or_in_parts(tmp_path: Path) -> None:
    """Two at once, where a place was frozen while the process started, ended it in a traceback."""
    write_curve_pair(tmp_path, CurvePair(*zmq.curve_keypair()))
    write_manager_address(tmp_path, ManagerAddress(free_endpoint(), curve_pair(tmp_path).public.decode(), SIGNING))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = ApplierLink(ours)
        link.send(AgentHello("", "1", driver="memory"))
        link.send(HeldReport(3, 4, b"d", "fq was changed"))
        cores: list[AgentCore] = []
        run_network(theirs, tmp_path, stop=lambda: True, started=cores.append)
    assert cores[0].session.frozen == "fq was changed" and cores[0].session.held == (3, 4, b"d")


def test_a_process_that_reads_nothing_keeps_no_lease_from_being_renewed() -> None:
    """After 278 figures for /metrics, one a second, the root process waited for it for good."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link, other = ApplierLink(ours, 0.05), ApplierLink(theirs)
        for second in range(2000):
            link.send_if_room(StandingReport(100.0, float(second), None))
        (first, *_), found = other.receive(OF_APPLIER), 0
        assert isinstance(first, StandingReport) and first.lease_s == 0.0
        with pytest.raises(LinkClosed, match="reads nothing any more"):
            while found < 2000:
                link.send(HeldReport(1, 1, b"", "x" * 1000))
                found += 1
        assert found > 10


def test_a_process_that_ends_at_once_is_started_again_ever_less_often() -> None:
    """Each second two lines came, for as long as its spool was damaged."""
    restarts = Restarts()
    now_s, waits = 0.0, []
    for _ in range(9):
        restarts.begun(now_s)
        waits.append(restarts.ended(now_s + 0.5))
        now_s = restarts.due_s
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    restarts.begun(now_s)
    assert restarts.ended(now_s + 61) == 1
