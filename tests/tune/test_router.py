# SPDX-License-Identifier: MIT
"""A real nginx, HAProxy and Apache lead two prefixes to two real pools; maps are checked, taken in, and taken back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.db.tuning import Tuning
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune import router
from configtron.tune.pools import map_text, pool_of, routing
from tests.support.tune.fronts import MAX_CONCURRENT_STREAMS, STREAMS, curl, missing, running, settings, tls
from tests.support.tune.two_hosts import CLIENTS, CLIENTS6, Hosts, two_hosts
from tests.support.waiting import until

POOLS = [pool_of("old:http_version=http/1.1"), pool_of(f"new:http_version=h2,h2_max_concurrent_streams={STREAMS}")]
PROFILES = {"modern": Profile("modern", (("http_version", "h2"),))}
NO_CLIENTS = routing(Rules(PROFILES), POOLS)
SECOND = routing(Rules(PROFILES, {"10.2.0.0/16": "modern", "fd02::/32": "modern"}), POOLS)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


def eventually(read: Callable[[], object], expected: object) -> None:
    """A reload is asked for, and done a moment later."""
    until(lambda: read() == expected, read)


@pytest.mark.root
@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_connections_are_led_by_prefix(hosts: Hosts, tmp_path: Path, name: str) -> None:
    if why := missing(name):
        pytest.skip(why)
    file = tmp_path / "pools.map"
    file.write_text(map_text(name, NO_CLIENTS))
    with running(hosts, name, tmp_path, map=str(file)) as front, inside(hosts.server):
        server = router.server(name, config=str(front), pid_file=str(front.parent / "haproxy.pid"))
        assert {curl(hosts, client) for client in (*CLIENTS, *CLIENTS6)} == {"old HTTP/1.1 1.1"}
        with tls(hosts, CLIENTS[1]) as kept:
            assert router.publish(server, file, map_text(name, SECOND))
            eventually(lambda: curl(hosts, CLIENTS[1]), "new HTTP/2.0 2")
            kept.sendall(b"GET / HTTP/1.1\r\nHost: front\r\nConnection: close\r\n\r\n")
            assert b"old HTTP/1.1" in b"".join(iter(lambda: kept.recv(4096), b"")), "a reload drops no connection"
        # a worker of before the reload may still take a connection that was queued
        led = ["old HTTP/1.1 1.1", "new HTTP/2.0 2", "old HTTP/1.1 1.1"] * 2
        eventually(lambda: [curl(hosts, client) for client in (*CLIENTS, *CLIENTS6)], led)
        assert settings(hosts, CLIENTS[1])[MAX_CONCURRENT_STREAMS] == STREAMS and settings(hosts, CLIENTS[0]) == {}
        assert not router.publish(server, file, map_text(name, SECOND)), "the same again is nothing to do"
        with pytest.raises(Refused, match="finds fault.*old map is back"):
            router.publish(server, file, "10.2.0.0/99 new;\n10.2.0.0/99\n")
        assert file.read_text() == map_text(name, SECOND)
        router.rollback(server, file)
        eventually(lambda: curl(hosts, CLIENTS[1]), "old HTTP/1.1 1.1")
        assert file.read_text() == map_text(name, NO_CLIENTS)


@pytest.mark.root
def test_requests_are_led_by_prefix_behind_apache(hosts: Hosts, tmp_path: Path) -> None:
    if why := missing("apache"):
        pytest.skip(why)
    file = tmp_path / "pools.map"
    file.write_text(map_text("apache", NO_CLIENTS))
    with running(hosts, "apache", tmp_path, map=str(file), python=sys.executable) as front, inside(hosts.server):
        # apache2ctl would read the environment of the host's own Apache
        server = router.server("apache", check=f"apache2 -t -f {front}", reload=f"apache2 -k graceful -f {front}")
        assert curl(hosts, CLIENTS[1], "http") == "old HTTP/1.1 1.1"
        router.publish(server, file, map_text("apache", SECOND))
        for clients in (CLIENTS, CLIENTS6):
            # the client speaks Apache's HTTP, the pool is asked in its own
            eventually(lambda clients=clients: curl(hosts, clients[1], "http"), "new HTTP/2.0 1.1")  # type: ignore[misc]
            assert curl(hosts, clients[0], "http") == "old HTTP/1.1 1.1"
        with pytest.raises(Refused, match="line 1: .* is not PREFIX POOL.*old map is back"):
            router.publish(server, file, "10.2.0.0/99 new\n")
        router.rollback(server, file)
        eventually(lambda: curl(hosts, CLIENTS[1], "http"), "old HTTP/1.1 1.1")


def test_the_old_map_is_back_where_the_server_says_no(tmp_path: Path) -> None:
    file = tmp_path / "pools.map"
    with pytest.raises(BadInput, match="no server is called 'cat'"):
        router.server("cat")
    says_yes, says_no = (router.server("nginx", check=check, reload="true") for check in ("true", "false"))
    for check, reload, stated in (
        ("sh -c 'echo no >&2; exit 1'", "true", "finds fault.*: no;"),
        ("true", "false", "does not reload: exit code 1"),
    ):
        with pytest.raises(Refused, match=stated):
            router.publish(router.server("nginx", check=check, reload=reload), file, "new\n")
        assert not file.exists(), "there was none before"
    file.write_text("old\n")
    file.chmod(0o640)
    with pytest.raises(Refused):
        router.publish(says_no, file, "new\n")
    assert file.read_text() == "old\n"
    assert router.publish(says_yes, file, "new\n")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new\n", 0o640)
    for content in ("old\n", "new\n"):
        router.rollback(says_yes, file)
        assert file.read_text() == content
    assert {path.name for path in tmp_path.iterdir()} == {"pools.map", "pools.map.old"}


@pytest.fixture
def db(tmp_path: Path) -> str:
    path = tmp_path / "x.db"
    with Tuning(path) as book:
        book.set_profiles(PROFILES.values())
        book.set_prefixes({"10.2.0.0/16": "modern"})
    return str(path)


def test_the_command(db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--db", db, "tune", "router", "nginx", "--pool", "old:http_version=http/1.1"]
    new = ["--pool", "new:http_version=h2", "--map", str(tmp_path / "m"), "--check", "true", "--reload", "true"]
    assert run([*words, *new, "-n"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["default old;", "10.2.0.0/16 new;"]
    assert not (tmp_path / "m").exists()
    assert run([*words, *new, "-f", "csv"]) == 0
    assert capsys.readouterr() == (
        "pool,prefixes,default\nnew,1,false\nold,0,true\n", f"{tmp_path / 'm'}: in force\n",
    )  # fmt: skip
    assert (tmp_path / "m").read_text().splitlines()[1:] == ["default old;", "10.2.0.0/16 new;"]
    assert run([*words, *new]) == 0 and "nothing done" in capsys.readouterr().err
    assert run(words) == 2 and "which map?" in capsys.readouterr().err
    assert run([*words, *new, "--rollback"]) == 2 and "no map before" in capsys.readouterr().err


NEW = ["--pool", "new:http_version=h2"]


@pytest.mark.parametrize(
    ("name", "how", "code", "words"),
    [
        ("nginx", [*NEW, "--check", "absent-program"], 5, "absent-program is not here; run: apt-get install nginx"),
        ("haproxy", [*NEW, "--check", "true", "--pid-file", "/nowhere/haproxy.pid"], 5, "no running haproxy"),
        ("nginx", [*NEW, "--check", "false"], 6, "the old map is back"),
        ("nginx", [*NEW, "--check", "true", "--reload", "false"], 6, "does not reload"),
        ("nginx", [*NEW, "--check", '"'], 2, "is no command"),
        ("nginx", [*NEW, "--map", "/nowhere/m", "--check", "true", "--reload", "true"], 2, "/nowhere"),
        ("nginx", [*NEW, "--check", "true", "--rollback"], 2, "there is no map before this one"),
        ("nginx", [], 2, "no pool serves http_version=h2"),
        ("cat", NEW, 2, "'cat'"),
    ],
)
def test_exit_codes_are_those_of_the_help(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, how: list[str], code: int, words: str
) -> None:
    pools = ["--pool", "old:http_version=http/1.1", "--map", str(tmp_path / "m")]
    assert run(["--db", db, "tune", "router", name, *pools, *how]) == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_a_driver_is_not_asked_for_what_a_pool_decides(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Tuning(Path(db)) as book:
        book.set_profiles([Profile("modern", (("http_version", "h2"), ("initcwnd", 20)))])
    assert run(["--db", db, "-q", "tune", "--driver", "memory", "plan", "-f", "csv"]) == 0
    printed = capsys.readouterr().out
    assert "initcwnd" in printed and "http_version" not in printed


@pytest.mark.parametrize("name", router.SERVERS)
def test_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "router", name, "--example", "--map", "/etc/x.map", "--pool", "fast"]) == 0
    shown = capsys.readouterr().out
    assert "/etc/x.map" in shown and "fast" in shown and "{" + "map" not in shown
