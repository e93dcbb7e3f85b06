# SPDX-License-Identifier: MIT
"""`fingerprint live`, `socket` and `contexts` as people run them: processes, signals, bad input."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from configtron.cli.outermost import run
from configtron.fingerprint.capture.diag import Endings, established
from configtron.fingerprint.capture.ring import Ring
from configtron.fingerprint.capture.surroundings import Surroundings
from configtron.fingerprint.features import Sighting
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.tcp_info import Socket
from configtron.model.errors import INTERRUPTED, NOTHING, PRIVILEGE, USAGE
from configtron.probe.wire.filter import compile_filter
from configtron.probe.wire.namespaces import ip
from configtron.report.contexts import TABLE, shown
from configtron.service.capture.live import InterfaceListener
from configtron.service.capture.sockets import SocketPoller
from configtron.service.capture.watching import ContextWatch
from tests.support import mmdb
from tests.support.children import child
from tests.support.learn_command import rows
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.root

CONTEXT, WATCH = "configtron.context/1", "configtron.watch/1"


def words(folder: Path, *rest: str) -> list[str]:
    return [sys.executable, "-m", "configtron", "--db", str(folder / "c.db"), "fingerprint", *rest]


def run_fingerprint(folder: Path, *rest: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(folder, *rest), capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@contextmanager
def running(folder: Path, *rest: str) -> Iterator[subprocess.Popen[str]]:
    """A watch that has begun: its row is in the database."""
    with child(words(folder, *rest), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: begun(folder) or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process


def begun(folder: Path) -> bool:
    with suppress(sqlite3.OperationalError), sqlite3.connect(f"file:{folder / 'c.db'}?mode=ro", uri=True) as base:
        return bool(base.execute("SELECT count(*) FROM watch").fetchone()[0])
    return False


def chat(count: int = 1, size: int = 20_000) -> list[int]:
    """Conversations over loopback that have ended; their server ports."""
    ports = []
    for _ in range(count):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ports.append(listener.getsockname()[1])
            with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                server.sendall(bytes(size))
                server.shutdown(socket.SHUT_WR)
                while client.recv(1 << 16):
                    pass
    return ports


def ended(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> tuple[str, str]:
    process.send_signal(number)
    return process.communicate(timeout=PATIENCE_S)


@contextmanager
def open_connection() -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0]:
            client.sendall(b"x")
            yield


@pytest.mark.parametrize("command", [("live", "-i", "lo", "--window", "0.3"), ("socket", "--follow")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reports_the_rest(tmp_path: Path, command: tuple[str, ...], number: signal.Signals) -> None:
    with running(tmp_path, *command, "-f", "jsonl") as process:
        ports = chat(3)
        out, err = ended(process, number)
    assert process.returncode == INTERRUPTED and "Traceback" not in err
    *found, last = rows(out)
    # A client may get the port of a server that has ended.
    servers = [one for one in found if one["local"]["port"] in ports and one["way"] == "out"]
    assert sorted(one["local"]["port"] for one in servers) == sorted(ports)
    for one in servers:
        assert one["schema"] == CONTEXT and one["context"]["prefix"] == "127.0.0.0/24"
        assert one["bytes_out"] == 20_000 and one["context"]["loss"] == 0 and one["context"]["rtt_ms"] > 0
        assert set(one["unknown"]) >= {"asn", "region", "device"}
    assert last["schema"] == WATCH and last["dropped"] == 0 and last["counts"]["connections"] == len(found)
    assert "0 dropped" in err and err.count("\n") == 1
    again = run_fingerprint(tmp_path, "contexts", str(last["watch"]), "-f", "jsonl")
    kept = rows(again.stdout)
    assert len(kept) == len(found)
    without = [{name: value for name, value in one.items() if name != "remote"} for one in found]
    assert sorted(map(json.dumps, kept)) == sorted(map(json.dumps, without)), "all but the other end's address"


class Over:
    """A watch whose time is over before it has heard anything."""

    elapsed_s = 0.0

    def __init__(self) -> None:
        self.kept: list[Sighting] = []
        self.counts: Counter[str] = Counter()
        self.keep = self.kept.extend

    def over(self) -> bool:
        return True


def test_packets_before_the_end_are_reported() -> None:
    """The kernel hands a block over up to 100 ms late; a watch that ends meanwhile waits for it."""
    ring = Ring("lo", lambda _: compile_filter("tcp", snap=128))
    with ring:
        (port,) = chat()
        watch = Over()
        post = InterfaceListener(ring, Gathering(1000, trips=True), Surroundings(), cast(ContextWatch, watch), None)
        post.listen(1.0)
    assert [one.bytes_out for one in watch.kept if one.local_port == port] == [20_000]


class Late:
    """Endings that the kernel reports only to a process that waits."""

    lost = 0

    def __init__(self, sockets: list[Socket]) -> None:
        self.sockets = sockets

    def heard(self, timeout_s: float) -> list[Socket]:
        found, self.sockets = (self.sockets, []) if timeout_s > 0 else ([], self.sockets)
        return found


def test_connections_that_ended_before_the_end_are_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as server:
            server.sendall(bytes(20_000))
            ended = [one for one in established() if one.local_port == port]
    watch = Over()
    SocketPoller(cast(ContextWatch, watch), Surroundings(), frozenset([port])).follow(cast(Endings, Late(ended)), 10.0)
    assert [one.local_port for one in watch.kept] == [port]


@pytest.mark.parametrize("command", [("live", "-i", "lo", "--window", "0.2"), ("socket", "--follow")])
def test_kill_9_leaves_the_database_whole(tmp_path: Path, command: tuple[str, ...]) -> None:
    """What was printed had been stored before; the file is intact and the next watch goes on in it."""
    with running(tmp_path, *command, "-f", "jsonl") as process:
        assert process.stdout is not None
        ports = set(chat(20))
        time.sleep(6 if command[0] == "live" else 0)
        chat(1)
        printed = list[dict[str, Any]]()
        # other programs of this host have connections too
        while len(ports & {one["local"]["port"] for one in printed}) < 10:
            printed.append(json.loads(process.stdout.readline()))
        process.kill()
        process.wait()
    with sqlite3.connect(tmp_path / "c.db") as base:
        assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        stored = base.execute("SELECT at_ns, local_port, bytes_out FROM context").fetchall()
    assert len(ports & {port for _, port, _ in stored}) >= 10
    assert {(round(one["at"], 6), one["local"]["port"]) for one in printed} <= {
        (round(at / 1e9, 6), port) for at, port, _ in stored
    }
    listed = run_fingerprint(tmp_path, "contexts")
    assert listed.returncode == 0 and "unfinished" in listed.stdout
    assert run_fingerprint(tmp_path, "socket", "--for", "0.1").returncode in (0, NOTHING)


def test_live_prints_connections_as_pcap_does(tmp_path: Path) -> None:
    for form in ("jsonl", "csv"):
        with running(tmp_path / form, "live", "-i", "lo", "--connections", "-f", form) as process:
            (port,) = chat()
            out, _ = ended(process)
        if form == "jsonl":
            one, last = (found for found in rows(out) if found.get("server", {}).get("port", port) == port)
            assert one["schema"] == "configtron.connection/1" and one["file"] == "lo" and one["ended"] == "fin"
            assert one["server"]["bytes"] == 20_000 and one["handshake"]["rtt"] > 0 and last["schema"] == WATCH
        else:
            table = [row for row in csv.DictReader(io.StringIO(out)) if row["server_port"] == str(port)]
            assert [row["file"] for row in table] == ["lo"]


def test_filters_ports_and_time(tmp_path: Path) -> None:
    began = time.monotonic()
    done = run_fingerprint(tmp_path, "live", "-i", "lo", "--filter", "port 1", "--for", "0.5")
    assert done.returncode == NOTHING and time.monotonic() - began >= 0.5 and done.stdout == ""
    with running(tmp_path / "other", "socket", "--follow", "--port", "1", "-f", "csv") as process:
        chat()
        out, _ = ended(process)
    assert out.count("\n") == 1 and out.startswith("source,at,local,"), "a header, and nothing under it"


def test_files_name_network_and_device(tmp_path: Path) -> None:
    (tmp_path / "a.mmdb").write_bytes(mmdb.database({"127.0.0.0/8": {"asn": "AS64500", "country": "DE"}}))
    log = tmp_path / "access.log"
    log.write_text("")
    files = ("--mmdb", str(tmp_path / "a.mmdb"), "--access-log", str(log))
    with running(tmp_path, "socket", "--follow", "-f", "jsonl", *files) as process:
        log.write_text('127.0.0.1 - - [x] "GET / HTTP/1.1" 200 5 "-" "Mozilla/5.0 (iPhone) Mobile"\n')
        with open_connection():
            out, _ = ended(process)
    # another program's connection may have been seen before the log had a line
    context = next(one["context"] for one in rows(out) if one["context"].get("device"))
    assert (context["asn"], context["region"], context["device"]) == (64500, "DE", "phone")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("live -i absent", "absent: no such interface here; there are: lo"),
        ("live -i lo --filter", "as for tcpdump"), ("live -i lo --connections", "name -f jsonl or -f csv"),
        ("live -i lo --access-log no.log", "no.log"), ("live -i lo --for nan", "not a finite number"),
        ("live -i lo --for 1 --window inf", "not a finite number"),
        ("socket --for 1 --every nan", "not a finite number"),
        ("socket --mmdb cat.mmdb", "cat.mmdb: not a MaxMind-format database"), ("socket -o no/o", "No such file"),
        ("contexts", "no database here"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    tmp_path: Path, given: str, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cat.mmdb").write_bytes(b"a picture of a cat")
    command = ["--db", "c.db", "fingerprint", *given.split(), *(["prt 80"] if given.endswith("--filter") else [])]
    assert run(command) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and err.strip().splitlines()[-1].count(text) == 1 and not Path("c.db").exists()


def test_a_watch_that_is_none_is_named(tmp_path: Path) -> None:
    chat()
    assert run_fingerprint(tmp_path, "socket", "--for", "0.1").returncode in (0, NOTHING)
    for name, text in (("7", "watch 7: not in"), ("x", "'x' is no watch; give a number, or last")):
        done = run_fingerprint(tmp_path, "contexts", name)
        assert done.returncode == USAGE and text in done.stderr


def test_without_the_privilege(tmp_path: Path) -> None:
    """live says what it needs; socket needs none."""
    # Still the files' owner: a checkout in /root is unreadable for other users.
    powerless = ["setpriv", "--inh-caps", "-all", "--bounding-set", "-all"]

    def ran(*rest: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*powerless, *words(tmp_path, *rest)], capture_output=True, text=True, check=False)

    done = ran("live", "-i", "lo")
    assert done.returncode == PRIVILEGE and done.stderr.count("\n") == 1 and "CAP_NET_RAW" in done.stderr
    with open_connection():
        done = ran("socket", "-f", "jsonl")
    assert done.returncode == 0 and len(rows(done.stdout)) >= 3, done.stderr


def test_an_interface_that_goes_away_keeps_what_was_seen(tmp_path: Path) -> None:
    # A name that another run on this machine does not have.
    name = f"ctg{os.getpid()}"
    ip("link", "add", name, "type", "veth", "peer", "name", f"{name}x")
    try:
        ip("link", "set", name, "up")
        with running(tmp_path, "live", "-i", name, "-f", "jsonl") as process:
            ip("link", "del", name)
            out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
    assert process.returncode == PRIVILEGE and f"{name}: the interface is gone" in err and "Traceback" not in err
    assert rows(out)[-1]["schema"] == WATCH
    assert "failed" in run_fingerprint(tmp_path, "contexts").stdout


def test_a_watch_that_saw_nothing_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        done = run_fingerprint(tmp_path, "socket", "--port", str(unused.getsockname()[1]))
    assert done.returncode == NOTHING and done.stderr == "sockets: 0 connections reported; 0 dropped\n"
    for name in ("1", "last"):
        done = run_fingerprint(tmp_path, "contexts", name)
        assert (done.returncode, done.stdout, done.stderr) == (NOTHING, "", "configtron: watch 1: stored no context\n")


def test_the_list_of_watches_speaks_every_form(tmp_path: Path) -> None:
    run_fingerprint(tmp_path, "socket")
    (line,) = run_fingerprint(tmp_path, "contexts", "-f", "jsonl").stdout.splitlines()
    found = json.loads(line)
    assert list(found) == sorted(found) and found["watch"] == 1 and isinstance(found["contexts"], int)
    assert found.pop("schema") == "configtron.watches/1"
    (row,) = csv.DictReader(io.StringIO(run_fingerprint(tmp_path, "contexts", "-f", "csv").stdout))
    assert row == {name: str(value) for name, value in found.items()}
    head, message = run_fingerprint(tmp_path, "contexts").stdout.splitlines()
    assert head.split() == list(row) and message.split() == list(row.values())


@pytest.mark.parametrize("width", range(79, 160))
def test_a_narrow_terminal_has_whole_columns(width: int) -> None:
    """What says most stays; the sum of widths and gaps fits."""
    names = [TABLE[place][0] for place in shown(width)]
    assert {"client", "rtt [ms]", "min [ms]", "loss", "bandwidth [kbit/s]"} <= set(names)
    assert sum(TABLE[place][1] + 2 for place in shown(width)) - 2 <= width
    assert ("asn" in names) == (width >= 140)
