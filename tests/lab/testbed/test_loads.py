# SPDX-License-Identifier: MIT
"""The page-load client's program and its lines; loads over a network are in test_page_loads.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from configtron.lab.testbed import loads
from configtron.model.errors import BadInput
from tests.support.waiting import PATIENCE_S

LINE = (
    '{"page":"p","http":"h2","seed":1,"failed":"","plt_ms":3.5,"elapsed_ms":3.5,"connect_ms":1,"ttfb_ms":2,'
    '"index_ms":3,"bytes":10,"connections":1,"times":[[0.0,2.0,3.5]]}'
)


def test_a_line_is_a_load() -> None:
    load = loads.Load.from_json(LINE)
    assert (load.plt_ms, load.times) == (3.5, ((0.0, 2.0, 3.5),))


@pytest.mark.parametrize("text", ["", "{}", LINE.replace("seed", "sead"), LINE.replace("[[", "[").replace("]]", "]")])
def test_what_is_no_load_is_reported(text: str) -> None:
    with pytest.raises(BadInput):
        loads.Load.from_json(text)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """The file of one page, on an address that no server has."""
    if not all(header.exists() for header in loads.HEADERS):
        pytest.skip("needs libnghttp2-dev and libssl-dev")
    (path := tmp_path / "plan").write_text(
        "page p\norigin a.example 127.77.0.9\nobject html 0 -1 0 0 0 5 0 1 100 /p/index.html\n"
    )
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none h2 1 1\n", "no page none"), ("p h3 1 1\n", "without sense"), ("p\n", "without sense"),
        ("p h2 1 1 first nowhere\n", "without sense"),
    ],
)  # fmt: skip
def test_the_client_refuses_nonsense(plan: Path, words: str, message: str) -> None:
    done = subprocess.run([loads.program(), plan], input=words, capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr and not done.stdout


def test_no_server_is_a_named_failure(plan: Path) -> None:
    done = subprocess.run(
        [loads.program(), plan], input="p h2 7 1\n", capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0 and loads.Load.from_json(done.stdout).failed == "refused"


def test_an_address_that_is_not_here_is_a_named_failure(plan: Path) -> None:
    words = "p h2 7 1 first 192.0.2.77\np h2 7 1 first 127.0.0.5\n"
    done = subprocess.run([loads.program(), plan], input=words, capture_output=True, text=True, timeout=PATIENCE_S)
    away, here = map(loads.Load.from_json, done.stdout.splitlines())
    assert (away.failed, here.failed) == ("unreachable", "refused") and len(here.ports) == 1 and here.token == ""
