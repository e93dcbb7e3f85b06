# SPDX-License-Identifier: MIT
"""The command line as people type it, run in this process."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.cli.manual import contexts
from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.lab.internet import truth
from configtron.lab.internet.draw import draw
from configtron.lab.uml import user_mode_linux as uml
from configtron.linux import xdg
from configtron.model.choices import BACKENDS, PROFILES, TESTS
from configtron.model.errors import CONDITION, DONE, INTERRUPTED, NOTHING, PARTIAL, USAGE, BadInput, Refused
from configtron.model.records import Result
from configtron.probe import PROBES
from configtron.probe.profiles import CLEAR, SECURE
from configtron.report.rendering import render
from configtron.service import campaign
from configtron.service.campaign.inputs import blocklist_of, targets_of, vantages_of
from configtron.service.campaign.run_config import options_of, run_config
from configtron.service.campaign.run_options import ProbeOptions
from tests.support import ROOT
from tests.support.sample_results import VANTAGES
from tests.support.sample_results import run as sample_run

Spoken = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ProbeOptions]:
    """What the campaign was asked to do, instead of doing it."""
    seen: list[ProbeOptions] = []

    def remember(options: ProbeOptions, db: Path, **_: object) -> campaign.RunResult:
        seen.append(options)
        return campaign.RunResult(1, "done", db)

    monkeypatch.setattr(campaign, "run", remember)
    monkeypatch.setattr(campaign, "write_run", lambda *_, **__: campaign.WrittenRun((), PARTIAL))
    return seen


def changed(result: Result, wanted: int) -> Result:
    """The same with another window where it was 10."""
    seen = tuple(replace(o, value=wanted) if o.value == 10 else o for o in result.observations)
    return result._replace(observations=seen)


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A database with two runs; in the second one a site has changed."""
    path = tmp_path / "x.db"
    with Store(path) as store:
        for wanted in (10, 30):
            number = store.begin_run(run_config(ProbeOptions(seed=7), tuple(VANTAGES.values())))
            store.record(number, [changed(result, wanted) for result in sample_run()])
            store.finish_run(number, "done")
    return str(path)


def test_probe_run_is_meant_when_no_command_is_named(asked: list[ProbeOptions]) -> None:
    assert run(["probe", "alexa-top1k", "--seed", "3"]) == PARTIAL
    assert run(["probe", "-n", "4", "a.example", "-6"]) == PARTIAL
    assert run(["probe", "run", "--", "regions"]) == PARTIAL
    assert [o.words for o in asked] == [("alexa-top1k",), ("a.example",), ("regions",)]
    assert (asked[0].seed, asked[1].max_targets, asked[1].versions) == (3, 4, (6,))


def test_the_lab_is_not_slowed_down(asked: list[ProbeOptions]) -> None:
    run(["probe", "a.example"])
    run(["probe", "a.example", "--lab"])
    run(["probe", "a.example", "--lab", "--per-host-rate", "3"])
    assert [o.host_rate_per_s for o in asked] == [2.0, 0.0, 3.0]
    assert [o.rate_per_s for o in asked] == [100.0, 0.0, 0.0]


def test_impairments_are_in_percent(asked: list[ProbeOptions]) -> None:
    assert run(["probe", "a.example", "--lab", "--lab-loss", "5", "--lab-reorder", "50"]) == PARTIAL
    assert [(o.lab_loss, o.lab_reorder) for o in asked] == [(5.0, 50.0)]
    with pytest.raises(BadInput, match="0 to 50"):
        ProbeOptions(lab=True, lab_loss=51)
    with pytest.raises(BadInput, match="belong to --lab"):
        ProbeOptions(lab_loss=5)


def test_errors_and_ctrl_c_have_their_codes(monkeypatch: pytest.MonkeyPatch, capsys: Spoken) -> None:
    for error, code in ((Refused("no"), Refused.code), (KeyboardInterrupt(), INTERRUPTED)):

        def fail(*_: object, error: BaseException = error, **__: object) -> int:
            raise error

        monkeypatch.setattr(campaign, "run", fail)
        assert run(["probe", "a.example"]) == code
    assert capsys.readouterr().err.splitlines() == ["configtron: no", "configtron: interrupted"]


def test_options_are_set_by_a_file_and_the_environment(
    asked: list[ProbeOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    """By the names that people write, also where the parameter in the code has another name, as --format has."""
    file, capture = tmp_path / "c.toml", str(ROOT / "fixtures" / "icw" / "10" / "trace.pcapng.gz")
    probe = 'per-host-rate = 1\nseed = 9\nopt-out-file = ["/etc/opt-out"]'
    file.write_text(f'[probe.run]\n{probe}\n[fingerprint.pcap]\nformat = "csv"\n')
    monkeypatch.setenv("CONFIGTRON_PROBE_RUN_RATE", "5")
    run(["--config", str(file), "probe", "a.example", "--seed", "2"])
    (options,) = asked
    assert (options.host_rate_per_s, options.seed, options.rate_per_s) == (1.0, 2, 5.0)
    assert options.opt_out_files == (Path("/etc/opt-out"),)
    for form, start in (("", "file,frame,"), ("jsonl", "{")):
        if form:
            monkeypatch.setenv("CONFIGTRON_FINGERPRINT_PCAP_FORMAT", form)
        assert run(["-q", "--config", str(file), "fingerprint", "pcap", capture]) == DONE
        assert capsys.readouterr().out.startswith(start)


def test_every_command_and_option_has_help() -> None:
    for ctx in contexts():
        assert ctx.command.help and ctx.command.short_help, ctx.command_path
        for param in ctx.command.params:
            assert getattr(param, "help", "") or param.param_type_name == "argument", f"{ctx.command_path} {param.name}"


def test_command_files_are_short() -> None:
    """A command parses, calls one function of the service and prints: decisions and rendering are elsewhere."""
    files = {file: len(file.read_text().splitlines()) for file in (ROOT / "configtron" / "cli").rglob("*.py")}
    assert [file.name for file, lines in files.items() if lines > 120] == []


def test_choices_of_the_help_are_those_of_the_tables() -> None:
    assert tuple(CLEAR) == PROFILES and set(SECURE) == set(PROFILES)
    assert tuple(backend.name for backend in uml.BACKENDS) == BACKENDS
    assert set().union(*TESTS.values()) <= set(PROBES)


def test_regions(capsys: Spoken, tmp_path: Path) -> None:
    (tmp_path / "v.toml").write_text('[[vantage]]\nname = "eu"\nregion = "Europe"\nnetns = "v-eu"\n')
    assert run(["probe", "regions", "--vantages", str(tmp_path / "v.toml")]) == DONE
    assert capsys.readouterr().out == "eu\tEurope\tnamespace v-eu\n"


def test_show_lists_runs_and_renders_one(db: str, capsys: Spoken) -> None:
    def show(*words: str, code: int = DONE) -> tuple[str, str]:
        assert run(["--db", db, "probe", "show", *words]) == code
        return capsys.readouterr()

    assert [line.split()[0] for line in show()[0].splitlines()] == ["run", "1", "2"]
    text, _ = show("1")
    assert "a.example: na 10, eu 4" in text and ">= 3 L" in text
    assert "na.pcapng: 12" in show("last", "--target", "a.example", "--knob", "icw", "--evidence")[0]
    assert "leave one of them out" in show("last", "-f", "flat", "--evidence", code=USAGE)[1]
    fields = "host,vantage,icw,icw_grade,icw_reason\n"
    assert show("last", "-f", "csv", "--fields", "icw,icw")[0].startswith(fields)
    none = ("", "configtron: run 1: nothing kept of absent.example\n")
    assert show("1", "--target", "absent.example", code=NOTHING) == none
    rows = [json.loads(line) for line in show("-f", "jsonl")[0].splitlines()]
    assert [(row["run"], row["status"]) for row in rows] == [(1, "done"), (2, "done")]
    head, *lines = show("-f", "csv")[0].splitlines()
    assert head == "run,begun,status,connections"
    assert lines == [",".join(str(row[name]) for name in head.split(",")) for row in rows]


def test_a_run_without_targets_has_no_empty_tables(tmp_path: Path, capsys: Spoken) -> None:
    with Store(tmp_path / "x.db") as store:
        store.begin_run(run_config(ProbeOptions(), tuple(VANTAGES.values())))
    assert run(["--db", str(tmp_path / "x.db"), "probe", "show", "1"]) == NOTHING
    assert capsys.readouterr() == ("", "configtron: run 1: nothing kept\n")
    render([], VANTAGES, "table", sys.stdout)
    assert capsys.readouterr().out == "No targets yet.\n"


@pytest.mark.parametrize("words", [["show", "1", "-f", "jsonl"], ["export", "last"], ["export", "1", "-f", "results"]])
def test_stdout_is_data_alone(db: str, words: list[str], capsys: Spoken) -> None:
    assert run(["--db", db, "probe", *words]) == DONE
    out, err = capsys.readouterr()
    assert out and err == ""
    for line in out.splitlines():
        json.loads(line)


def test_diff_reports_the_changes(db: str, capsys: Spoken) -> None:
    assert run(["--db", db, "probe", "diff", "1", "2"]) == DONE
    out, err = capsys.readouterr()
    assert out == "a.example\tna\ticw\t10 -> 30\n"
    assert err == "5 same, 1 differs, 2 undetermined\n"
    assert run(["--db", db, "probe", "diff", "1", "last", "--exit-code", "-f", "jsonl"]) == CONDITION
    assert json.loads(capsys.readouterr().out)["after"]["value"] == 30
    assert run(["--db", db, "probe", "diff", "1", "1", "--exit-code"]) == DONE
    capsys.readouterr()
    assert run(["--db", db, "probe", "diff", "1", "2", "-f", "csv"]) == DONE
    header, row = capsys.readouterr().out.splitlines()
    assert header == "host,vantage,knob,before,before_grade,after,after_grade"
    assert row.startswith("a.example,na,icw,10,") and ",30," in row


def test_a_lab_run_without_a_value_is_not_scored(db: str, capsys: Spoken) -> None:
    assert run(["--db", db, "probe", "validate"]) == USAGE
    assert "holds no lab run" in capsys.readouterr().err
    with Store(Path(db)) as store:
        number = store.begin_run(run_config(ProbeOptions(lab=True), tuple(VANTAGES.values())))
        home = campaign.run_folder(store, number)
    home.mkdir(parents=True)
    (home / "truth.json").write_text(truth.to_json(draw(1, ["a.example"])))
    assert run(["--db", db, "probe", "validate"]) == NOTHING
    out, err = capsys.readouterr()
    assert out == "" and f"run {number} has no value that can be scored" in err


def test_options_make_targets_vantages_and_a_blocklist(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("b.example\n")
    (tmp_path / "t").write_text("b.example\nc.example:81\n")
    options = ProbeOptions(
        words=("@alexa-top1k", "a.example"), input_files=(tmp_path / "t",), blocklist_files=(tmp_path / "b",), path="/x"
    )
    found = list(targets_of(options))
    assert len(found) == 1003 and {t.path for t in found} == {"/x"}
    assert blocklist_of(options).host("www.b.example") and blocklist_of(options).address("10.0.0.1")
    assert blocklist_of(ProbeOptions(lab=True)).address("10.0.0.1") == ""
    first = targets_of(ProbeOptions(words=("alexa-top1k",), lab=True, sites=3))
    assert {t.host for t in first} == {"google.com", "youtube.com", "facebook.com"}
    (here,) = vantages_of(ProbeOptions(interface="eth1", source_ip="2001:db8::1"))
    assert (here.interface, here.source_address6) == ("eth1", "2001:db8::1")


def test_a_runs_configuration_can_be_read_back(tmp_path: Path) -> None:
    options = ProbeOptions(
        ("a",), (tmp_path,), save_pcap=tmp_path, tests=("icw",), versions=(4, 6), max_targets=3, lab=True
    )
    assert options_of(run_config(options, (), truth="/x")) == options


def test_places_follow_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert xdg.default_db() == Path("/data/configtron/configtron.db")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/x")
    assert xdg.default_db() == Path("/home/x/.local/share/configtron/configtron.db")
