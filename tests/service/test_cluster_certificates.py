# SPDX-License-Identifier: MIT
"""`probe --cluster` with certificates that cannot be used: one line, exit code 2, and nothing is stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.model.errors import USAGE
from configtron.service.campaign import ProbeOptions
from configtron.service.campaign.layout import layout_of
from configtron.service.campaign.run_config import run_config
from configtron.service.campaign.runs import run_folder
from tests.support.cluster_regions import write_certificate

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
TLS = "distributed.comm.tls"
# No program listens there; it is not reached before the certificates are read.
ADDRESS = "tls://127.0.0.1:1"
FAULTS = {
    "ca-file": ("absent.pem", "absent.pem: No such file or directory"),
    "client.cert": ("cert", "cert: Is a directory"),
    "client.key": ("other/key.pem", "key values mismatch"),
}


@pytest.fixture(params=FAULTS)
def why(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Dask's configuration with one fault in it; the reason that the line has to have."""
    for folder in ("files", "files/other", "files/cert"):
        (tmp_path / folder).mkdir()
    folder = tmp_path / "files"
    write_certificate(folder)
    write_certificate(folder / "other")
    files = {"ca-file": "cert.pem", "client.cert": "cert.pem", "client.key": "key.pem"}
    files[request.param], reason = FAULTS[request.param]
    with dask.config.set({f"{TLS}.{name}": str(folder / file) for name, file in files.items()}):
        yield reason


def refused(capsys: pytest.CaptureFixture[str], db: Path, *words: str) -> str:
    """Run a command of `probe run` that is refused, and return its only line."""
    assert run(["--db", str(db), "-q", "probe", "run", *words, "-o", str(db.parent / "out")]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_nothing_is_stored(why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.iterdir())
    line = refused(capsys, tmp_path / "x.db", "127.0.0.1", "--cluster", ADDRESS)
    assert line.startswith(f"configtron: --cluster {ADDRESS}: the certificates cannot be used (") and why in line
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("words", [(), ("--cluster", ADDRESS)])
def test_a_run_to_be_resumed_stays_as_it_was(
    why: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, options = tmp_path / "x.db", ProbeOptions(words=("127.0.0.1",), cluster=ADDRESS)
    with Store(db) as store, layout_of(options, tmp_path) as layout:
        number = store.begin_run(run_config(options, layout.vantages))
        layout.save(run_folder(store, number))
        store.finish_run(number, "interrupted")
    assert why in refused(capsys, db, "--resume", str(number), *words)
    with sqlite3.connect(db) as connection:
        assert connection.execute("SELECT status FROM run").fetchall() == [("interrupted",)]
