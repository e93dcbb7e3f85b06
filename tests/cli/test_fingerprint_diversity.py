# SPDX-License-Identifier: MIT
"""`configtron fingerprint diversity` as people type it, run in this process on a tiny campaign."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.fingerprint.diversity import RegionDifference
from configtron.model.errors import DONE, NOTHING, USAGE
from configtron.report.page.words import anchor
from configtron.report.target_results import found_in
from configtron.service.campaign.run_config import run_config
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.runs import run_folder
from configtron.service.capture.proofs import proofs_of
from tests.report.page.test_markup import HOSTILE
from tests.support import tiny_run as tiny
from tests.support.headless import HeadlessPage, looked_at

Spoken = pytest.CaptureFixture[str]
VOID = {"meta", "br"}
# Elements and attributes that fetch or run something.
ACTIVE_TAGS = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"}
ACTIVE = re.compile(r"^(on|src|srcset|action|data$|formaction|xlink)", re.I)


class Page(HTMLParser):
    """A page as its elements: what is open closes in order, what points within it arrives."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.active = (list[str]() for _ in range(4))
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [tag] if tag not in VOID else []
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.active += [f"{tag} {name}" for name, _ in attrs if ACTIVE.match(name)]
        self.active += [tag] if tag in ACTIVE_TAGS else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def campaign(home: Path, vantages: tuple[str, ...] = ("na", "eu", "as"), readings: str = "", keep: bool = True) -> str:
    """A database with that run, its packets beside it."""
    there = tuple(vantage for vantage in tiny.VANTAGES if vantage.name in vantages)
    with Store(home / "x.db") as store:
        number = store.begin_run(run_config(ProbeOptions(), there))
        folder = run_folder(store, number)
        folder.mkdir(parents=True, exist_ok=True)
        made = tiny.results(folder, *([readings] * 2 if readings else []))
        store.record(number, [one for one in made if one.vantage in vantages] if keep else [])
        store.finish_run(number, "done")
    return str(home / "x.db")


Compared = Callable[..., str]


@pytest.fixture
def compared(tmp_path: Path, capsys: Spoken) -> Compared:
    """Compare the regions of that run; what is printed."""

    def run_command(*words: str, db: str = "") -> str:
        assert run(["--db", db or campaign(tmp_path), "fingerprint", "diversity", "last", *words]) == DONE
        return capsys.readouterr().out

    return run_command


@pytest.mark.parametrize("name", ["as", "Asia", "asia"])
def test_another_baseline(compared: Compared, name: str) -> None:
    line = json.loads(compared("--knob", "icw", "-f", "jsonl", "--baseline", name))
    assert (line["baseline"], line["known"], line["differing"]) == ("as", 4, 2)


def test_a_page_stands_alone(tmp_path: Path, compared: Compared) -> None:
    db, out = campaign(tmp_path), tmp_path / "page.html"
    assert compared("-o", str(out), db=db) == ""
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == [] and page.active == []
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links) and len(page.links) >= 6
    assert len(page.ids) == len(set(page.ids))
    for part in ("Initial congestion window", "66.7 %", "e.example", "10 segments, 1000 bytes",
                 "4 segments, 400 bytes", "na.pcapng, frames 4–13", "One CDN1 of 2 sites differ",
                 "na 10 → as 4, eu 4", "The packets behind the examples"):  # fmt: skip
        assert part in page.text
    assert not re.search(r"https?:|url\(|@import", text)
    assert compared("-f", "html", db=db) == text
    for line in map(json.loads, compared("-f", "jsonl", db=db).splitlines()):
        assert f"{100 * line['share']:.1f} %{100 * line['low']:.1f}–{100 * line['high']:.1f} %" in page.text
        assert f"{line['differing']} of {line['compared']}" in page.text


@pytest.mark.parametrize("width", [390, 1400])
def test_a_telephone_shows_it(tmp_path: Path, compared: Compared, width: int) -> None:
    compared("-o", str(tmp_path / "page.html"))
    with HeadlessPage(tmp_path / "page.html", width) as page:
        assert looked_at(page, width) == []
        heads = "[...document.querySelectorAll('h2 + .card tbody > tr > th > code')].map(e => e.textContent).join()"
        assert page.value(heads) == "icw,synack_rto", "what differs most stands first"


def test_hostile_fields_and_certificates_stay_text(tmp_path: Path, compared: Compared) -> None:
    text = compared("-f", "html", db=campaign(tmp_path, readings=HOSTILE))
    page = Page(text)
    assert not [one for one in page.ids if re.search(r"[^\w.-]", one)]
    assert page.active == [] and page.open == [] and page.text.count("<script>alert(1)") >= 3
    assert not [one for one in ("<script", "\x1b", "\u202e") if one in text]


@pytest.mark.parametrize("harm", ["gone", "torn", "foreign"])
def test_missing_packets_are_reported(tmp_path: Path, harm: str, compared: Compared) -> None:
    db = campaign(tmp_path)
    for file in tmp_path.rglob("na.pcapng"):
        file.write_bytes(file.read_bytes()[:200] if harm == "torn" else b"not a capture " * 100)
        if harm == "gone":
            file.unlink()
    page = Page(compared("-f", "html", db=db))
    assert "No packets to show: na.pcapng" in page.text and "4 segments, 400 bytes" in page.text


def test_the_packets_shown_are_of_a_reading_that_says_the_verdict(tmp_path: Path) -> None:
    """Two runs of three found 4; the first, some of whose segments were lost, found 3."""
    folder = tmp_path / "run"
    folder.mkdir()
    results = tiny.results(folder)
    lost = [replace(o, value=3) if o.knob == "icw" else o for o in results[0].observations]
    third = results[1]._replace(trace_id=results[1].trace_id[:-1] + "3")
    assert (results[0].site, results[0].vantage) == ("a.example", "as")
    found = list(found_in([results[0]._replace(observations=tuple(lost)), results[1], third, *results[2:]]))
    difference = RegionDifference("icw", "a.example", "as", 10, 4)
    assert anchor(RegionDifference("icw", "a:80/ä", "as", 10, 4)) == "proof.icw.a_80__.as"
    here, there = proofs_of([difference], "na", found, folder)[difference]
    assert there.reading is not None and there.reading.trace_id == "as/a.example/icw.2" and there.reading.value == 4
    assert there.trace is not None and there.trace.id == "as/a.example/icw.2"
    assert here.trace is not None and here.where == "na.pcapng, frames 4–13"


def test_one_region_is_reported_and_not_compared(tmp_path: Path, capsys: Spoken) -> None:
    db = campaign(tmp_path, ("na",))
    for form in ("table", "jsonl", "csv", "html"):
        assert run(["--db", db, "fingerprint", "diversity", "1", "-f", form]) == DONE
        out, err = capsys.readouterr()
        assert out and len(err.splitlines()) == 1
        words = f"`configtron --db {db} probe"
        assert err.startswith(f"run 1: seen from na alone, so there is nothing to compare with; {words}")
    assert Page(out).open == [] and "nothing to compare with" in Page(out).text


def test_an_empty_run_is_one_line(tmp_path: Path, capsys: Spoken) -> None:
    db = campaign(tmp_path, keep=False)
    assert run(["--db", db, "fingerprint", "diversity", "1", "-f", "html"]) == NOTHING
    out, err = capsys.readouterr()
    assert out == "" and err == f"run 1: done, no verdict to compare; see `configtron --db {db} probe show 1`\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["7"], "run 7: not in"),
        (["cat"], "is no run"),
        (["1", "--baseline", "Mars"], "--baseline takes one of na (North America), eu (Europe), as (Asia)"),
        (["1", "--knob", "cat"], "'cat'; known are"),
        (["1", "-o", "/nowhere/page.html"], "/nowhere/page.html: No such file"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: list[str], complaint: str, capsys: Spoken) -> None:
    assert run(["--db", campaign(tmp_path), "fingerprint", "diversity", *words]) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and complaint in err.splitlines()[-1] and "Traceback" not in err
