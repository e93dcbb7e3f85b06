# SPDX-License-Identifier: MIT
"""Bad input gets one line and its exit code before anything is sent or kept; never a traceback."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.lab.uml.enclosure import cannot_enclose
from configtron.model.errors import DONE, REFUSED, UNWRITTEN, USAGE, BadInput
from configtron.probe.blocklist import Blocklist
from configtron.service.campaign.layout import SHARDS, load_layout
from configtron.service.campaign.runs import is_locked, locked

Spoken = pytest.CaptureFixture[str]
# The lab is looked for first.
NEEDS_LAB = pytest.mark.skipif(bool(cannot_enclose()), reason=cannot_enclose())


pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    "words",
    [
        ("--path", "/x\r\nX-Evil: 1"),
        ("--path", "/a b"),
        ("--path", "x"),
        ("--contact", "a\nb"),
        ("--rate", "inf"),
        ("--rate", "nan"),
        ("--lab", "--lab-loss", "nan"),
        ("--lab", "--lab-reorder", "nan"),
        ("--max-runtime", "nan"),
        ("--per-host-rate", "inf"),
        ("--source-ip", "999.1.1.1"),
        ("--fail-on", "nonsense=3"),
        ("--fail-on", "icw<5%"),
        ("-o", "/nonexistent/x"),
        ("--metadata-file", "/nonexistent/x"),
        ("--save-pcap", "/proc/nope"),
        ("--sites", "3"),
        pytest.param(("--lab", "--sites", "1"), marks=NEEDS_LAB),
        ("--resume", "1"),  # not beside a target
    ],
)
def test_refused_before_anything_happens(home: Path, words: tuple[str, ...], capsys: Spoken) -> None:
    assert run(["probe", "127.0.0.1", *words]) == USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err and printed.err.strip()
    path = home / "XDG_DATA_HOME" / "configtron" / "configtron.db"
    if path.exists():
        with Store(path, read_only=True) as store:
            assert store.runs() == ()


def test_a_full_disk_is_one_line(home: Path, capsys: Spoken) -> None:
    assert run(["probe", "export", "last", "-o", "/dev/full"]) == USAGE  # no database yet
    with Store(home / "x.db") as store:
        store.begin_run("{}")
    assert run(["--db", str(home / "x.db"), "probe", "show", "-o", "/dev/full"]) == UNWRITTEN
    assert capsys.readouterr().err.splitlines()[-1] == f"configtron: /dev/full: {os.strerror(28)}"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, with room for a database and little else."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)], check=True)
    try:
        with Store(folder / "x.db") as store:
            store.begin_run("{}")
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.root
def test_a_full_disk_has_its_own_code_in_the_database_too(full: Path, capsys: Spoken) -> None:
    with suppress(OSError), (full / "rest").open("wb") as rest:
        while True:
            rest.write(bytes(4096))
    words = ["--db", str(full / "x.db")]
    for command in (["probe", "127.0.0.1"], ["tune", "profile", "set", "fast", "tcp_slow_start_after_idle=0"]):
        assert run([*words, *command]) == UNWRITTEN
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("configtron:")]
        assert "space" in line.lower()


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("198.51.100.0/2x", "'2x' is no prefix length"),
        ("198.51.100.0/", "'' is no prefix length"),
        ("198.51.100.7/index.html", "a page of it is http://198.51.100.7/index.html"),
        ("2001:db8::/32x", "a page of it is http://[2001:db8::]/32x"),
        ("198.51.100.0/255.255.255.0", "no prefix length"),
        ("198.51.100.0/33", "not an address block"),
    ],
)
def test_a_malformed_block_is_no_page(word: str, what: str, capsys: Spoken) -> None:
    assert run(["probe", word, "--dry-run"]) == USAGE
    captured = capsys.readouterr()
    assert captured.out == "" and what in captured.err


@NEEDS_LAB
def test_more_sites_than_there_are(capsys: Spoken) -> None:
    assert run(["probe", "alexa-top1k", "--lab", "--backend", "netns", "--sites", "999999999", "--dry-run"]) == USAGE
    assert "the lists have 1000 names" in capsys.readouterr().err


def test_a_dry_run_writes_its_answer_and_nothing_else(home: Path, capsys: Spoken) -> None:
    answer, db = home / "answer.jsonl", home / "none.db"
    words = ["--db", str(db), "probe", "192.0.2.7", "a.example", "--dry-run", "-o", str(answer)]
    assert run(words) == DONE
    assert [json.loads(line)["host"] for line in answer.read_text().splitlines()]
    assert capsys.readouterr().out == "" and {path.name for path in home.iterdir()} == {answer.name}
    assert run(["--db", str(db), "probe", "--resume", "1", "--dry-run"]) == USAGE
    assert run(["--db", str(db), "probe", "192.0.2.7", "--dry-run", "-o", "/dev/full"]) == UNWRITTEN


def test_what_may_be_probed_is_named_where_it_is_missed(home: Path, capsys: Spoken) -> None:
    assert run(["probe", "127.0.0.1", "--allow", "my.example", "--dry-run"]) == USAGE
    capsys.readouterr()
    for words, blocked in (([], True), (["--allow", "127.0.0.1"], False), (["--allow", "127.0.0.0/8"], False)):
        assert run(["probe", "127.0.0.1", "--dry-run", *words]) == DONE
        assert ("blocked" in json.loads(capsys.readouterr().out)) == blocked


@pytest.mark.root
def test_the_flag_is_named_where_a_target_is_blocked(home: Path, capsys: Spoken) -> None:
    words = ["--db", str(home / "a.db"), "probe", "127.0.0.1"]
    assert run(words) == REFUSED
    assert "what is yours may be probed: --allow 127.0.0.1" in capsys.readouterr().err
    assert run([*words, "--allow", "127.0.0.1", "--profile", "quick"]) != REFUSED


@pytest.mark.parametrize("text", ["", "{", "[1]", '["{}"]'])
def test_damaged_shards_are_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / SHARDS).write_text(text)
    with pytest.raises(BadInput):
        load_layout(tmp_path, 1)


@pytest.mark.parametrize("host", ["2130706433", "127.1", "foo.1", "0x7f.1"])
def test_numbers_that_are_no_address_name_no_host(host: str) -> None:
    assert Blocklist().host(host)


@pytest.mark.root
def test_two_databases_in_one_folder_do_not_share_runs(home: Path, capsys: Spoken) -> None:
    for name, address in (("a", "127.0.0.1"), ("b", "127.0.0.3")):
        words = ["--db", str(home / f"{name}.db"), "-q", "probe", address, "-f", "csv"]
        assert run(words) == REFUSED
        assert {line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:]} == {address}


@pytest.mark.root
def test_packets_of_an_unknown_run_are_not_taken_over(home: Path, capsys: Spoken) -> None:
    words = ["--db", str(home / "a.db"), "-q", "probe", "127.0.0.1"]
    assert run(words) == REFUSED
    for left in home.glob("a.db*"):
        if left.is_file():
            left.unlink()
    assert run(words) == USAGE
    assert "does not know" in capsys.readouterr().err


@pytest.mark.root
def test_a_run_is_run_by_one_process(home: Path) -> None:
    words = ["--db", str(home / "a.db"), "-q", "probe"]
    assert run([*words, "127.0.0.1"]) == REFUSED
    folder = home / "a.db.runs" / "1"
    with locked(folder, 1):
        assert is_locked(folder)
        assert run([*words, "--resume", "1"]) == REFUSED
    assert not is_locked(folder)
    assert run([*words, "--resume", "last"]) == REFUSED  # blocked, as before


@pytest.mark.parametrize("command", ["probe run --dry-run 192.0.2.1", "replay study lessons --smoke", "learn measure"])
def test_an_empty_address_of_a_cluster_as_of_an_unset_variable_does_not_mean_this_host(
    command: str, tmp_path: Path, capsys: Spoken
) -> None:
    assert run(["--db", str(tmp_path / "x.db"), *command.split(), "--cluster", ""]) == USAGE
    assert capsys.readouterr() == ("", "configtron: --cluster is empty; name something, or leave it out\n")
    assert [*tmp_path.iterdir()] == []
