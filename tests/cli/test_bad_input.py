# SPDX-License-Identifier: MIT
"""Bad input gets one line and its exit code before anything is sent or kept; never a traceback."""

import json
import os
import shlex
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
from tests.support import ROOT

Spoken = pytest.CaptureFixture[str]
# The lab is looked for first.
NEEDS_LAB = pytest.mark.skipif(bool(cannot_enclose()), reason=cannot_enclose())


pytestmark = pytest.mark.usefixtures("home")


# What is typed, and what the last line says.
MISTAKES = r"""
cat                                                | No such command
probe run                                          | no targets
prob                                               | Did you mean 'probe'?
probe shwo 1                                       | Did you mean 'show'?
probe shwo                                         | Did you mean 'show'?
tune aply                                          | Did you mean 'apply'?
--db '' tune status                                 | the name is empty
replay session                                     | Did you mean 'sessions'?
fingerprint pacp                                   | Did you mean 'pcap'?
replay xyz                                         | There is: packets, sessions, study.
probe lists -q                                     | before the verb: configtron -q VERB
probe lists cat                                    | bundled are alexa-top1k
probe regions --vantages /nowhere.toml             | /nowhere.toml: No such file
--config /nowhere.toml probe lists                 | /nowhere.toml: No such file
probe show cat                                     | is no run
probe show 1                                       | no database
probe show --knob icw                              | need a RUN
probe show -f flat                                 | need a RUN
probe show 1 --fields icv                          | 'icv'; known are
probe diff 1 2 --knob icv                          | 'icv'; known are
probe a.example --nonsense                         | --nonsense
probe a.example --tests icw,cat                    | 'cat'
probe a.example --sites 3                          | belong to --lab
probe a.example --resume 1                         | own targets
probe --resume 1 --profile quick                   | leave --profile out
probe --resume 1 -r 5                              | leave --rate out
probe a.example --paper-compat --profile quick     | profile of its own
probe a.example -f jsonl --fields icw              | columns of flat, csv and table
probe 127.0.0.1 --path "/x\r\nX-Evil: 1"           | plain ASCII without spaces
probe 127.0.0.1 --path "/a b"                      | plain ASCII without spaces
probe 127.0.0.1 --path x                           | a path begins with /
probe 127.0.0.1 --contact "a\nb"                   | plain ASCII without spaces
probe 127.0.0.1 --rate inf                         | inf is not a finite number
probe 127.0.0.1 --rate nan                         | nan
probe 127.0.0.1 --lab --lab-loss nan               | nan
probe 127.0.0.1 --lab --lab-reorder nan            | nan
probe 127.0.0.1 --max-runtime nan                  | nan
probe 127.0.0.1 --per-host-rate inf                | inf is not a finite number
probe 127.0.0.1 --source-ip 999.1.1.1              | 999.1.1.1
probe 127.0.0.1 --fail-on nonsense=3               | nonsense
probe 127.0.0.1 --fail-on icw<5%                   | icw<5%
probe 127.0.0.1 -o /nonexistent/x                  | /nonexistent/x
probe 127.0.0.1 --metadata-file /nonexistent/x     | /nonexistent/x
probe 127.0.0.1 --save-pcap /proc/nope             | /proc/nope
probe 127.0.0.1 --allow my.example --dry-run       | name addresses or blocks
probe 198.51.100.0/2x --dry-run                    | '2x' is no prefix length
probe 198.51.100.0/ --dry-run                      | '' is no prefix length
probe 198.51.100.7/index.html --dry-run            | a page of it is http://198.51.100.7/index.html
probe 2001:db8::/32x --dry-run                     | a page of it is http://[2001:db8::]/32x
probe 198.51.100.0/255.255.255.0 --dry-run         | no prefix length
probe 198.51.100.0/33 --dry-run                    | not an address block
probe run --dry-run 192.0.2.1 --cluster ""         | --cluster is empty; name something, or leave it out
replay study lessons --smoke --cluster ""          | --cluster is empty; name something, or leave it out
learn measure --cluster ""                         | --cluster is empty; name something, or leave it out
tune acknowledge zzz                               | 'zzz' is no advice's id
tune profile set x initcwnd=10 initcwnd=20         | one of them is there twice
replay packets . --junit none/x.xml                | none/x.xml
fingerprint contexts                               | fingerprint live` and `socket` make it
learn measure                                      | nothing to measure: name a study
learn measure --smoke --study hotcloud             | leave --study out
learn measure --resume 1 --smoke                   | --resume goes on
learn measure --resume 1 --seed 0                  | --resume goes on
learn measure --resume 4                           | measurement 4
learn measure --smoke --condition hotcloud:1       | no condition
learn measure --smoke --condition access:dsl --condition access:dsl | named twice
learn measure --smoke --site nowhere               | no site is called 'nowhere'
learn measure --smoke --looks 6,x                  | numbers of loads
learn measure --smoke --looks 6,6                  | must rise
learn measure --smoke --tensor /nowhere/x          | /nowhere/x
learn measure --smoke -o /nowhere/x                | /nowhere/x
learn measure --smoke --status-updates-file /nowhere/x | /nowhere/x
learn measure --study all                          | all
learn measure --smoke --seed -1                    | -1
replay study                                       | --list shows them
replay study cat                                   | 'cat'
replay study hotcloud --measurement 1              | no measurement; configtron learn measure makes one
replay study hotcloud --tensor /nowhere.npz        | /nowhere.npz: No such file
replay study hotcloud --tensor README.md           | no PLT-tensor
replay study hotcloud --tensor SMOKE --measurement 1 | leave --measurement out
replay study lessons --tensor SMOKE                | for studies of a tensor
replay study hotcloud --tensor SMOKE --html /nowhere/x.html | /nowhere/x.html: No such file
replay study hotcloud --tensor SMOKE -o /nowhere/x | /nowhere/x: No such file
replay study hotcloud knobs                        | print different tables
replay study knobs -j 2                            | leave --jobs out
replay study knobs --measurement 1                 | leave --measurement out
replay study lessons --seeds 2                     | leave --seeds out
replay study --list --smoke                        | leave --smoke out
replay study --resume 1 --smoke                    | leave --smoke out
"""


@pytest.mark.parametrize("row", MISTAKES.strip().splitlines())
def test_a_mistake_is_one_line_and_exit_code_2_before_anything_happens(
    home: Path, row: str, capsys: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    typed, says = (part.strip() for part in row.rsplit(" | ", 1))
    typed = typed.replace("SMOKE", "fixtures/tensor/smoke.npz")
    words = [word.encode().decode("unicode_escape") for word in shlex.split(typed.replace("\\", "\\\\"))]
    assert run(words) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and says in err.splitlines()[-1] and "Traceback" not in err
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


@NEEDS_LAB
def test_more_sites_than_there_are(capsys: Spoken) -> None:
    assert run(["probe", "127.0.0.1", "--lab", "--sites", "1"]) == USAGE
    capsys.readouterr()
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


def test_what_may_be_probed_is_named_where_it_is_missed(capsys: Spoken) -> None:
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
