# SPDX-License-Identifier: MIT
import gc
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db import schema as module
from configtron.db.rows import CONTEXT_COLUMNS, context_row
from configtron.db.store import Store
from configtron.fingerprint.features import LOADED, Sighting
from configtron.model.errors import BadInput, Unwritten
from configtron.model.nouns import Context, Observation, Target
from configtron.model.records import Result

ROOT = Path(__file__).parents[2]
ICW = Observation("icw", 10, unit="segments", method="flight", grade="C", trace_id="na/a/icw.1", evidence=(3, 4))
NONE = Observation("data_rto", reason="no-retransmission", trace_id="na/a/icw.1")
TUPLE = Observation("h2_settings", ((1, 4096), (3, 100)), grade="B", details=(("a", 0.5),), trials=(ICW,))


def result(trace_id: str = "na/a/icw.1", *observations: Observation, host: str = "a") -> Result:
    target = Target(host, "192.0.2.1", 443, "/x", "Example", "tag")
    return Result(
        trace_id, trace_id.split("/")[0], target, "icw", (("mss", 64),), 17, "done", ("drops",),
        "na.pcapng", 5, 9, 2, 3, observations,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "new" / "configtron.db")


def test_results_come_back_as_they_were(store: Store) -> None:
    run = store.begin_run('{"seed":1}')
    kept = [result("na/a/icw.1", ICW, NONE, TUPLE), result("eu/a/icw.1")]
    assert store.record(run, kept) == 2
    assert list(store.results(run)) == sorted(kept, key=lambda r: r.vantage)
    assert store.done(run) == {"na/a/icw.1": (ICW, NONE, TUPLE), "eu/a/icw.1": ()}


def test_a_reader_may_stop_half_way(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = store.begin_run("{}")
    store.record(run, [result(f"na/a/icw.{n}", ICW) for n in range(3)])
    reader = store.results(run)
    next(reader)
    store.close()
    del reader
    gc.collect()
    assert capsys.readouterr().err == ""


def test_what_arrives_twice_is_kept_once_and_a_batch_whole_or_not_at_all(store: Store) -> None:
    run, other, third = (store.begin_run("{}") for _ in range(3))
    store.record(run, [result("na/a/icw.1", ICW)])
    assert store.record(run, [result("na/a/icw.1", NONE)]) == 0
    assert store.record(other, [result("na/a/icw.1", NONE)]) == 1
    assert store.done(run) == {"na/a/icw.1": (ICW,)}
    with pytest.raises(ValueError):
        store.record(third, [result("na/a/icw.1"), result("na/a/icw.2", Observation("x", float("nan"), grade="C"))])
    assert store.done(third) == {}


def test_runs_list_their_state(store: Store) -> None:
    run = store.begin_run('{"seed":1}')
    store.record(run, [result()])
    store.finish_run(run, "partial")
    (found,) = store.runs()
    assert (found.id, found.status, found.config, found.traces) == (run, "partial", '{"seed":1}', 1)
    assert store.resume_run(run).status == "partial"
    assert store.run(run).status == "running"
    with pytest.raises(BadInput, match="run 7"):
        store.run(7)


def refused(path: Path, *words: str, read_only: bool = False) -> None:
    with pytest.raises(BadInput) as caught:
        Store(path, read_only=read_only)
    (line,) = str(caught.value).splitlines()
    assert [word for word in (str(path), *words) if word not in line] == []


def test_files_that_are_no_store_of_this_version_are_refused(tmp_path: Path, store: Store) -> None:
    database = sqlite3.connect(store.path)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("PRAGMA user_version").fetchone() == (module.VERSION,)
    database.execute(f"PRAGMA user_version = {module.VERSION + 1}")
    refused(store.path, "newer configtron")
    (tmp_path / "text").write_text("not a database, but long enough to look at" * 40)
    refused(tmp_path / "text", "not a database")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE cat (id)").connection.commit()
    refused(tmp_path / "other", "another program")
    refused(tmp_path / "absent", "no database here", read_only=True)
    refused(tmp_path, "--db")


def test_views_read_the_verdict_off_the_votes(store: Store) -> None:
    run = store.begin_run("{}")
    for n, (value, grade, taint) in enumerate(
        [(10, "C", ()), (10, "C", ()), (4, "C", ()), (30, "L", ()), (4, "C", ("drops",)), (4, "C", ("drops",))]
    ):
        reading = Observation("icw", value, unit="segments", grade=grade)
        store.record(run, [result(f"na/a/icw.{n}", reading)._replace(tainted=taint)])
    store.record(run, [result("na/b/icw.0", Observation("icw", reason="too-short"), host="b")])
    database = sqlite3.connect(store.path)
    verdicts = database.execute("SELECT site, value, agreeing, exact, disagreeing FROM verdict").fetchall()
    assert verdicts == [("a", "10", 2, 3, 1)]
    assert database.execute("SELECT knob, reason, sites FROM failure").fetchall() == [("icw", "too-short", 1)]


def test_a_damaged_file_is_one_clear_line(store: Store) -> None:
    run = store.begin_run("{}")
    store.record(run, [result(f"na/a/icw.{n}", ICW) for n in range(500)])
    store.close()
    with store.path.open("r+b") as file:
        for page in range(2, store.path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(BadInput, match="damaged"):
        list(Store(store.path).results(run))


def test_read_only_reads_and_does_not_write(store: Store) -> None:
    run = store.begin_run("{}")
    reader = Store(store.path, read_only=True)
    assert reader.run(run).id == run
    with pytest.raises(BadInput, match="cannot be written"):
        reader.begin_run("{}")


def test_migrations_run_in_order_each_whole(tmp_path: Path) -> None:
    (tmp_path / "0001_first.sql").write_text("CREATE TABLE cat (name TEXT);\nINSERT INTO cat VALUES ('a;b');\n")
    (tmp_path / "0002_second.sql").write_text("ALTER TABLE cat ADD COLUMN age INTEGER;\n-- the end\n")
    (tmp_path / "0003_broken.sql").write_text("CREATE TABLE dog (name TEXT);\nINSERT INTO absent VALUES (1);\n")
    database = sqlite3.connect(":memory:", isolation_level=None)
    module.migrate(database, tmp_path, 2)
    assert database.execute("SELECT name, age FROM cat").fetchall() == [("a;b", None)]
    with pytest.raises(sqlite3.OperationalError):
        module.migrate(database, tmp_path, 3)
    assert database.execute("PRAGMA user_version").fetchone() == (2,)
    assert database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'dog'").fetchone() == (0,)
    files = sorted(path.name[:4] for path in (module.HERE / "migrations").glob("*.sql"))
    assert files == [f"{number:04}" for number in range(2, module.VERSION + 1)], "every version has its own"


SEEN = Sighting(
    "live", 1_700_000_000_123_456_789, "192.0.2.1", 443, "203.0.113.9", 40_000, "out", "fin", 1.25, 9000, 100, True,
    Context(8000.5, 40.25, None, "", "203.0.113.0/24", 64500, "DE", "phone", 39.5, 0.25, 7000.0, 12.5, None,
            65536.0, 0.25, 3.5, 3.0), (("loss", "drops"), ("loss_run", "drops")),
)  # fmt: skip


def test_contexts_of_before_have_none_of_the_later_columns(tmp_path: Path) -> None:
    """NULL, not 0, and no reason: nothing was asked."""
    database = first_version(tmp_path / "old.db")
    text = (module.HERE / "migrations" / "0002_contexts.sql").read_text()
    database.executescript(f"{text} PRAGMA user_version = 2;")
    columns = [name for name in CONTEXT_COLUMNS if name not in LOADED]
    row = dict(zip(CONTEXT_COLUMNS, context_row(SEEN), strict=True))
    database.execute("INSERT INTO watch (id, begun_at, version, source, config) VALUES (1, '', '', 'live', '{}')")
    places = ", ".join("?" * (len(columns) + 1))
    database.execute(f"INSERT INTO context (watch, {', '.join(columns)}) VALUES ({places})",
                     (1, *(row[name] for name in columns))).connection.commit()  # fmt: skip
    with Store(tmp_path / "old.db") as grown:
        (kept,) = grown.contexts(grown.watches()[0])
    assert [getattr(kept.context, name) for name in LOADED] == [None] * len(LOADED)
    assert kept.context.jitter_ms == SEEN.context.jitter_ms


def test_contexts_come_back_without_the_other_end(store: Store) -> None:
    watch = store.begin_watch("live", '{"interface":"eth0"}')
    store.record_contexts(watch, [replace(SEEN, at_ns=7), SEEN])
    (running,) = store.watches()
    assert (running.status, running.contexts, running.source) == ("running", 2, "live")
    store.finish_watch(watch, "done", '{"dropped":0}')
    (found,) = store.watches()
    assert (found.status, found.counts) == ("done", '{"dropped":0}') and found.finished_at
    kept = replace(SEEN, remote="", remote_port=0)
    assert list(store.contexts(found)) == [replace(kept, at_ns=7), kept]
    assert b"203.0.113.9" not in store.path.read_bytes()
    with pytest.raises(BadInput, match="CHECK"):
        store.record_contexts(store.begin_watch("socket", "{}"), [SEEN, replace(SEEN, way="sideways")])
    assert [one.contexts for one in store.watches()] == [2, 0], "all or none"


def first_version(path: Path) -> sqlite3.Connection:
    """A database of version 1 with a run: schema.sql without what the migrations add."""
    added = "".join(path.read_text() for path in sorted((module.HERE / "migrations").glob("*.sql")))
    old = (module.HERE / "schema.sql").read_text()
    every = list(module.statements(added))
    gone = [one.split()[-1].rstrip(";") for one in every if "DROP" in one]
    every = [one for one in every if not any(name in one for name in gone)]
    for statement in [one for one in every if "ALTER" in one]:
        text = f", {statement.partition('ADD COLUMN ')[2].strip().rstrip(';')}"
        assert text in old
        old = old.replace(text, "")
    for statement in [one for one in every if "ALTER" not in one]:
        if ("INSERT" in statement or "DELETE" in statement) and "CREATE" not in statement:
            continue  # rows for what an older version kept: a new database has none
        text = statement[statement.index("CREATE") :]
        assert text in old
        old = old.replace(text, "")
    database = sqlite3.connect(path)
    database.executescript(old.replace(f"user_version = {module.VERSION}", "user_version = 1"))
    database.execute("INSERT INTO run (begun_at, version, config) VALUES ('', '', '{}')").connection.commit()
    return database


@pytest.mark.parametrize("read_only", [False, True])
def test_an_older_database_becomes_what_a_new_one_is(tmp_path: Path, store: Store, read_only: bool) -> None:
    """Brought up to date it has the tables of a new one; a reader of old runs need not know of it."""
    tables = "SELECT name, sql FROM sqlite_master WHERE sql > '' ORDER BY name"
    fresh = sqlite3.connect(store.path).execute(tables).fetchall()
    database = first_version(tmp_path / "old.db")
    with Store(tmp_path / "old.db", read_only=read_only) as grown:
        assert len(grown.runs()) == 1 and grown.watches() == ()
    assert database.execute(tables).fetchall() == fresh
    assert database.execute("PRAGMA user_version").fetchone() == (module.VERSION,)


def test_an_older_database_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_version(tmp_path / "old.db").close()

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(module, "migrate", fail)
    refused(tmp_path / "old.db", "older schema (1)", "copy the file", read_only=True)
    (tmp_path / "empty.db").touch()
    refused(tmp_path / "empty.db", "empty file", read_only=True)


@pytest.mark.parametrize("seed", range(4))
def test_kill_9_in_a_migration_leaves_the_old_or_the_new(tmp_path: Path, seed: int) -> None:
    first_version(tmp_path / "old.db").close()
    program = (
        "import os, signal, sys; from pathlib import Path; from configtron.db import schema, store\n"
        "whole = schema.statements\n"
        "def cut(script):\n"
        "    for number, statement in enumerate(whole(script)):\n"
        f"        if number == {seed}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        yield statement\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "schema.statements = cut; store.Store(Path(sys.argv[1]))"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "old.db"], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    with sqlite3.connect(tmp_path / "old.db") as base:
        assert base.execute("PRAGMA user_version").fetchone() == (1,)
        assert base.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('watch', 'context')").fetchone() == (0,)
    with Store(tmp_path / "old.db") as grown:
        assert len(grown.runs()) == 1 and grown.watches() == ()


def test_a_full_disk_is_reported_as_one(store: Store) -> None:
    """SQLite says so in two ways; where it cannot even map its index, with words that name no cause."""
    for complaint in ("disk I/O error", "database or disk is full"):
        with pytest.raises(Unwritten, match="space") as caught, store._clear():
            raise sqlite3.OperationalError(complaint)
        assert str(store.path) in str(caught.value)
