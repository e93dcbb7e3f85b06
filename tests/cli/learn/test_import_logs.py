# SPDX-License-Identifier: MIT
"""`learn import` of other programs' files: logs that real servers wrote (logs/), beacons, archives; what each measures,
who the client was and which configuration it had, and that what the log does not show is not guessed."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from configtron.db.outcomes import Outcomes
from configtron.db.tuning import Tuning
from configtron.intake.imports.accesslog import Parser
from configtron.intake.imports.inforce import InForce
from configtron.intake.imports.kinds import Wanted, imported
from configtron.intake.imports.reading import LINE_BYTES, Reading, numbered
from configtron.model.errors import DONE, NOTHING, PARTIAL, USAGE, BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.service.learning.importing import BATCH, _epoch_ns
from configtron.tune.journal import KEPT, LEASED, UNDOING, UNDONE, WRITING, Transaction
from tests.support import ROOT
from tests.support.learn_command import Typed, shown
from tests.support.mmdb import database

LOGS = Path(__file__).parent / "logs"
AGENT = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605 Version/17.5 Mobile/15E148 Safari/604.1"
SECOND = 10**9


def reported(tmp_path: Path) -> list[dict[str, Any]]:
    """Every outcome as the view has it."""
    with sqlite3.connect(tmp_path / "l.db") as base:
        base.row_factory = sqlite3.Row
        return [dict(row) for row in base.execute("SELECT * FROM told_outcome ORDER BY id")]


def line(path: str, begin_s: float, took_s: float, *, address: str = "192.0.2.7", referer: str = "-",
         fields: str = "", agent: str = AGENT) -> str:  # fmt: skip
    """A line as nginx writes it by the documented format."""
    return (
        f'{address} - - [22/Nov/2026:16:16:24 +0000] "GET {path} HTTP/1.1" 200 10 "{referer}" "{agent}"'
        f" request_time={took_s:.3f} msec={begin_s + took_s:.3f} host=shop.example {fields}\n"
    )


def view(begin_s: float, took_s: float, **more: str) -> str:
    """A page and an object of it, whose answer ends so long after the page's request."""
    page = line("/a?x=1", begin_s, 0.01, **more)
    return page + line("/o.css", begin_s + took_s - 0.01, 0.01, referer="https://shop.example/a?x=1", **more)


def said(typed: Typed, text: str | bytes, *words: object, code: int = DONE, name: str = "x") -> str:
    """What the import of a file of this text says on standard error."""
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    found, _, err = typed("learn", "import", *words, name)
    assert found == code, err
    return err


def test_nginx_page_views(typed: Typed, tmp_path: Path) -> None:
    """From the page's request to the end of its last object's answer; no address is kept anywhere in the file."""
    assert typed("learn", "import", LOGS / "nginx.txt")[0] == DONE
    found = reported(tmp_path)
    assert sorted(row["plt_ms"] for row in found) == [52, 55, 56, 57]
    by_six = next(row for row in found if row["prefix"] == "::/48")
    assert by_six["measured_at"] == 1795364185123 * 10**6 and by_six["device"] == "computer"
    assert by_six["rtt_ms"] == 0.036 and json.loads(by_six["more"]) == {"browser": "firefox", "jitter_ms": 0.021}
    (log,) = typed("learn", "status", "-f", "jsonl")[1].splitlines()
    assert json.loads(log)["metric"] == "page"
    with Outcomes(tmp_path / "l.db") as store:
        assert set(store.prefixes()) == {"127.0.0.0/24", "::/48"}
    said(typed, view(1e9, 1.5))
    assert b"192.0.2.7" not in b"".join(path.read_bytes() for path in tmp_path.glob("l.db*"))


def test_apache_dates_the_beginning_and_nginx_the_end(typed: Typed, tmp_path: Path) -> None:
    assert typed("learn", "import", LOGS / "apache.txt")[0] == DONE
    assert [row["plt_ms"] for row in reported(tmp_path)] == [63.183]
    assert typed("learn", "import", "--metric", "request", "--from", "apache-us", LOGS / "apache-us.txt")[0] == DONE
    rows = reported(tmp_path)[1:]
    assert [row["plt_ms"] for row in rows] == [0.229, 0.097, 0.183]
    assert rows[0]["measured_at"] == 1795364185 * SECOND + 229_000 and rows[0]["site"] == "localhost/"


def test_haproxy_page_views_and_zone(typed: Typed, tmp_path: Path) -> None:
    """Its dates have no zone; without captured headers requests of an address still make views."""
    assert typed("learn", "import", LOGS / "haproxy.txt")[0] == DONE
    assert typed("learn", "import", "--timezone", "Europe/Berlin", LOGS / "haproxy.txt")[0] == DONE
    found = reported(tmp_path)
    assert [row["plt_ms"] for row in found] == [64, 52] * 2
    assert found[0]["measured_at"] - found[2]["measured_at"] == 3600 * SECOND
    assert found[0]["site"] == "127.0.0.1/" and found[1]["device"] == ""


@pytest.mark.parametrize(
    ("name", "says"),
    [("apache-us", "229 is microseconds (--from apache-us), milliseconds (apache-ms)"), ("apache-s", "(apache-s)"),
     ("nginx-timed", "dated to the second, or not by which end it is"),
     ("nginx-combined", "how long the request took is not in it")],
)  # fmt: skip
def test_what_a_log_does_not_say_is_not_guessed(typed: Typed, tmp_path: Path, name: str, says: str) -> None:
    code, _, err = typed("learn", "import", LOGS / f"{name}.txt")
    assert code == USAGE and says in err
    with Outcomes(tmp_path / "l.db") as store:
        assert store.logs() == []


def test_zones_of_dates(typed: Typed, tmp_path: Path) -> None:
    text = '192.0.2.1 - - [22/Nov/2026:{}:16:24 {}] "GET / HTTP/1.1" 200 1 "-" "x11" 0.250\n'
    dated = text.format(16, "+0000") + text.format(22, "+0530").replace(":16:24", ":46:24", 1)
    said(typed, dated + text.format("08", "-0800"), "--metric", "request")
    assert {row["measured_at"] // SECOND % 86400 for row in reported(tmp_path)} == {58584, 62184}


def test_a_whole_second_among_milliseconds_is_one(typed: Typed, tmp_path: Path) -> None:
    """Of JSON, whose numbers programs write anew; a line of text was cut there."""
    request = {"ip": "192.0.2.7", "method": "GET", "status": 200, "request_time": 0.01}
    forms = ({"msec": at, "path": path} for at, path in ((1795802400.01, "/a"), (1795802401, "/o.css")))
    said(typed, "\n".join(json.dumps(request | form) for form in forms))
    cut = view(1795802400, 1.0).replace("401.000", "401")
    assert "dated to the second" in said(typed, cut, code=USAGE)
    assert [row["plt_ms"] for row in reported(tmp_path)] == [1000]


def test_page_views_of_one_client(typed: Typed, tmp_path: Path) -> None:
    """A child of a style sheet counts, an answer that ended before its page too; a late one, another's, a single
    request and a program's do not, nor does what the page asks for again and again; an older file may follow."""
    text = "".join([
        line("/o.js", 100.1, 0.05, referer="https://shop.example/a"), line("/a", 100, 0.5),
        line("/s.css", 100.2, 0.4, referer="https://shop.example/a"),
        line("/f.woff2", 101, 0.25, referer="https://shop.example/s.css"),
        line("/poll.json", 119, 0.25, referer="https://shop.example/a"),
        line("/o.png", 100.3, 9, referer="https://elsewhere.example/b"),
        line("/alone", 200, 0.1), view(300, 0.75, agent="curl/8"), view(400, 0.75, address="198.51.100.1"),
        *(line(f"/ping.json?_={n}", n, 0.1, address="198.51.100.1", referer="https://shop.example/a?x=1")
          for n in range(402, 460, 5)),
        view(90, 1.25, address="198.51.100.2"), view(95, 1.5, address="198.51.100.3"),
    ])  # fmt: skip
    err = said(typed, text)
    assert sorted(row["plt_ms"] for row in reported(tmp_path)) == [750, 1250, 1250, 1500]
    for part in ("1 not taken: page views of one request", "2 not taken: by a program",
                 "12 not taken: objects of no page"):  # fmt: skip
        assert part in err


def test_bad_lines_cost_themselves(typed: Typed, tmp_path: Path) -> None:
    """A torn first line, bytes that are no text, and one without end; packed as well, and one that is cut."""
    good = "".join(view(100.0 * n, 1.0) for n in range(1, 60))
    text = b"rest of a line\n" + good.encode() + b"\xff\n" + b"x" * (1 << 21) + b"\n" + view(9000, 1).encode()
    err = said(typed, gzip.compress(text), code=PARTIAL)
    assert len(reported(tmp_path)) == 60
    for part in ("x, line 1: no line of an access log", "x, line 120: no line of an access log",
                 "line 121: longer than 1048576 bytes", "3 of 123 lines are bad"):  # fmt: skip
        assert part in err
    assert "line 1:" in said(typed, gzip.compress(text), "--strict", code=USAGE)
    for program in filter(shutil.which, ("gzip", "bzip2", "xz", "zstd", "lz4")):
        packed = subprocess.run([program, "-c"], input=good.encode(), stdout=subprocess.PIPE, check=True).stdout
        assert "59 outcomes" in said(typed, packed), program
        assert "the file is torn here" in said(typed, packed[:-2], code=PARTIAL)
    assert "line 1: the file is torn" in said(typed, gzip.compress(good.encode())[:40], code=USAGE)
    assert len([*numbered([b"x" * LINE_BYTES], Reading("x"))]) == 1


def beacon(**more: object) -> str:
    return json.dumps({"t_done": 1500, "u": "https://shop.example/cart?id=7", "rt.end": 1700000001500,
                       "ip": "192.0.2.9", "user_agent": AGENT, **more}) + "\n"  # fmt: skip


def test_boomerang(typed: Typed, tmp_path: Path) -> None:
    """As JSON and in an access log's query strings: only whole pages."""
    spa = {"http.initiator": "spa_hard"}
    others = ({"http.initiator": "spa"}, {"vis.st": "hidden"}, {"nt_nav_type": 2}, {"t_done": ""}, {"t_done": "soon"})
    text = beacon(bw=250000, lat="80", pid="a", **spa) + "".join(beacon(**one) for one in others) + beacon(pid="a")
    assert "x, line 6: load time: 'soon' is no number" in said(typed, text, code=PARTIAL)
    assert typed("learn", "import", "--from", "boomerang", LOGS / "nginx.txt")[0] == DONE
    first, second = reported(tmp_path)
    assert (first["plt_ms"], first["measured_at"], first["bandwidth_kbps"], first["rtt_ms"]) == (
        1500, 1700000001500 * 10**6, 2000, 80)  # fmt: skip
    assert (first["site"], first["prefix"], first["device"]) == ("shop.example/cart", "192.0.2.0/24", "phone")
    assert (second["plt_ms"], second["site"], second["prefix"]) == (1234, "shop.example/cart", "127.0.0.0/24")
    assert second["measured_at"] == 1795363200123 * 10**6


FORM = "t_done=1834&u=https%3A%2F%2Fshop.example%2F&rt.start=navigation&rt.tstart=1795687200000&rt.end=1795687201834"


@pytest.mark.parametrize(("text", "prefix"), [
    (FORM, ""), (f"data={FORM}&sb=1", ""), (f"data={quote(FORM)}", ""),
    (json.dumps({"remote_addr": "203.0.113.7", "time": "2026-11-26", "request_body": FORM}), "203.0.113.0/24"),
    (json.dumps({"request": {"remote_addr": "203.0.113.7"}, "body": f"ip=192.0.2.1&{FORM}"}), "203.0.113.0/24"),
    (json.dumps({"request": {"client_ip": "203.0.113.7", "uri": f"/beacon?{FORM}"}, "ts": 1.5}), "203.0.113.0/24"),
    (json.dumps([{"t_done": 1834, "u": "https://shop.example/", "rt.end": 1795687201834}, {"rt.quit": ""}]), ""),
    (f'192.0.2.7 - - [26/Nov/2026:10:00:01 +0000] "POST /b HTTP/1.1" 204 0 "-" "x11" "{FORM}"', "192.0.2.0/24"),
])  # fmt: skip
def test_boomerang_bodies(typed: Typed, tmp_path: Path, text: str, prefix: str) -> None:
    """In whatever holds them; the server's fields know the client better than the beacon."""
    for how in ((), ("--from", "boomerang")):
        err = said(typed, text + "\n", *how)
        assert ("left before it had loaded" in err) == ("rt.quit" in text)
    first, second = reported(tmp_path)
    assert {**first, "id": 0, "log": 0} == {**second, "id": 0, "log": 0}
    assert (first["plt_ms"], first["measured_at"], first["site"], first["prefix"]) == (
        1834, 1795687201834 * 10**6, "shop.example/", prefix)  # fmt: skip


BIG = {"profile": "initcwnd=30", "propensity": 0.5}
SERVERS = {"remote_addr": "203.0.113.7", **BIG}


@pytest.mark.parametrize(("text", "big"), [
    (json.dumps({"t_done": 9, **BIG}), False), (f"profile=initcwnd%3D30&{FORM}", False),
    (json.dumps({"t_done": 9, "ip": "192.0.2.1", **BIG}), False), (json.dumps({**BIG, "beacon": {"t_done": 9}}), False),
    (json.dumps({"remote_addr": "203.0.113.7", "body": json.dumps({"ip": "192.0.2.1", **BIG, "x": {"t_done": 9}})}),
     False),
    (json.dumps({**SERVERS, "body": FORM}), True), (json.dumps({**SERVERS, "beacon": {"t_done": 9}}), True),
    (json.dumps({**SERVERS, "body": f"profile=initcwnd%3D40&ip=192.0.2.1&{FORM}"}), True),
    (f'203.0.113.7 - - [26/Nov/2026:10:00:01 +0000] "POST /b HTTP/1.1" 204 0 "-" "x11" "profile=initcwnd=40&{FORM}"'
     " profile=initcwnd=30 propensity=0.5", True),
])  # fmt: skip
def test_a_visitor_does_not_name_its_own_arm(typed: Typed, tmp_path: Path, text: str, big: bool) -> None:
    """The server's fields beside a beacon's body do; what the body says of it is not believed, and that is said."""
    named = not big or "initcwnd%3D40" in text or "initcwnd=40" in text
    assert ("1 outcome of beacons that name their profile" in said(typed, text + "\n")) == named
    (row,) = reported(tmp_path)
    assert (row["settings"], row["propensity"]) == (('{"initcwnd":30}', 0.5) if big else ("{}", None))
    assert row["prefix"] != "192.0.2.0/24" or "203.0.113.7" not in text


LCP = {"name": "LCP", "value": 1834.2, "id": "v5-1795687201834-1234567890123", "navigationType": "navigate"}
BATCH_OF = [{**LCP, "value": 900}, {"name": "CLS", "value": 0.01, "id": "v5-2"}, LCP]


@pytest.mark.parametrize("text", [
    json.dumps(BATCH_OF), "\n".join(map(json.dumps, BATCH_OF)), json.dumps({"body": json.dumps(BATCH_OF)}),
    "name,value,id,navigationType\nCLS,0.1,v5-2,\nLCP,1834.2,v5-1795687201834-1234567890123,navigate",
    "192.0.2.7 - - [26/Nov/2026:10:00:01 +0000] \"POST /b HTTP/1.1\" 204 0 \"-\" \"x11\" \""
    + json.dumps(BATCH_OF).replace('"', r"\x22") + '"',
])  # fmt: skip
def test_web_vitals_batches(typed: Typed, tmp_path: Path, text: str) -> None:
    """One outcome of a page; its date is the page's clock in the id, where the server's is not known."""
    assert "1 not taken: CLS, not the metric lcp" in said(typed, text + "\n")
    (row,) = reported(tmp_path)
    assert row["plt_ms"] == 1834.2 and row["measured_at"] // 10**10 == 179568720


def test_beacons_without_a_date_get_the_files(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(json.dumps(LCP | {"id": "a"}))
    os.utime(tmp_path / "x", (1.7e9, 1.7e9))
    assert "1 outcome without a date: the file's last change" in typed("learn", "import", "x")[2]
    assert reported(tmp_path)[0]["measured_at"] == 1.7e18
    deployed(tmp_path, 1000, None, WRITING, Rules({}, {}))
    assert "1 not taken: configuration changed meanwhile" in typed("learn", "import", "x")[2]


def test_web_vitals(typed: Typed, tmp_path: Path) -> None:
    """The last value of each id, of one metric; back/forward cache is no load."""
    rows: list[dict[str, object]] = [
        {"name": "LCP", "value": 900.5, "id": "v1"}, {"name": "LCP", "value": 1200.5, "id": "v1"},
        {"name": "LCP", "value": 5, "id": "v2", "navigationType": "back-forward-cache"},
        {"name": "LCP", "value": 6, "id": "v5", "navigation_type": "prerender"},
        {"name": "FCP", "value": 300, "id": "v3", "navigationType": "reload"},
        {"name": "CLS", "value": 0.1, "id": "v4"},
    ]  # fmt: skip
    text = "".join(json.dumps(row | {"ip": "2001:db8:1:2::5"}) + "\n" for row in rows)
    said(typed, text)
    said(typed, text, "--metric", "fcp")
    prefix = "2001:db8:1::/48"
    assert [(row["plt_ms"], row["prefix"]) for row in reported(tmp_path)] == [(1200.5, prefix), (300, prefix)]
    bad = "".join(json.dumps(rows[0] | {"id": n, "value": v}) + "\n" for n, v in enumerate((900, -5, 800)))
    assert "x, line 2: load time is -5" in said(typed, bad, code=PARTIAL)
    assert "web-vitals measures lcp, fcp, ttfb, inp" in said(typed, text, "--metric", "cls", code=USAGE)


def test_http_archive(typed: Typed, tmp_path: Path) -> None:
    pages = [{"id": "p", "startedDateTime": "2023-11-14T22:13:20.000Z", "pageTimings": {"onLoad": 1500.25}},
             {"id": "q", "startedDateTime": "2023-11-14T22:13:20.000Z", "pageTimings": {"onLoad": None}}]  # fmt: skip
    asked = {"url": "https://shop.example/cart?id=1", "headers": [{"name": "User-Agent", "value": AGENT}]}
    log = {"log": {"pages": pages, "entries": [{"pageref": "p", "request": asked, "response": {"status": 200}}]}}
    twice = json.dumps({"log": {**log["log"], "pages": pages[:1] * 2}})
    assert "2 not taken: a page whose id another page" in said(typed, twice, code=NOTHING)
    for pages in ({"pages": []}, {}):
        assert "without pages shows no page load" in said(
            typed, json.dumps({"log": pages | {"entries": []}}), code=NOTHING
        )
    for text in (json.dumps(log), json.dumps(log, indent=1)):
        said(typed, text, "--client-prefix", "192.0.2.0/24")
    first, second = reported(tmp_path)
    assert {**first, "id": 0, "log": 0} == {**second, "id": 0, "log": 0} and first["plt_ms"] == 1500.25
    assert first["measured_at"] == 1700000001500250000 and first["site"] == "shop.example/cart"
    assert first["device"] == "phone" and first["prefix"] == "192.0.2.0/24"


@pytest.mark.parametrize(("why", "more"), [
    ("a page answered by 503", {"response": {"status": 503}}),
    ("a page that failed (net::ERR_CONNECTION_REFUSED)",
     {"response": {"status": 0, "_error": "net::ERR_CONNECTION_REFUSED"}}),
    *(("a page that failed (no answer)", {"response": {"status": status}}) for status in (0, -1)),
    *((f"no page of a network ({url.partition(':')[0]}:)", {"request": {"url": url}}) for url in
      ("data:text/html,hi", "about:blank", "file:///tmp/a.html", "chrome-error://chromewebdata/")),
    *(("a page from a cache or a service worker", more) for more in (
        {"cache": {"beforeRequest": {"hitCount": 0}}}, {"_fromCache": "disk"}, {"_fetchType": "Memory Cache"},
        {"response": {"status": 200, "fromDiskCache": True}}, {"response": {"status": 304, "_transferSize": 0}},
        {"response": {"status": 200, "headersSize": 0}}, {"_wasFulfilled": True}, {"cache": {"afterRequest": {"a": 1}}},
        {"response": {"status": 200, "_fetchedViaServiceWorker": True}})),
    ("a page whose first entry is no document (script)", {"_resourceType": "script"}),
    ("a page that was prerendered (Sec-Purpose)", {"request": {"url": "https://shop.example/", "headers": [
        {"name": "Sec-Purpose", "value": "prefetch;prerender"}]}}),
    *((f"a page that failed (result {result})", {"_result": result}) for result in (99997, 404)),
    ("", {"_result": 99999}), ("", {"cache": {"afterRequest": {}}}),
    ("", {"_resourceType": "document", "first": "ping"}),
    ("a page of several documents", {"_resourceType": "document", "_frameref": "f"}),
    ("a page without an entry of its document", {"pageref": "other"}), ("", {}), ("", {"response": {"status": 304}}),
    ("", {"cache": {"beforeRequest": None}, "_fetchType": "Network Load", "_resourceType": "Document"}),
])  # fmt: skip
def test_archived_pages_that_no_network_brought(typed: Typed, tmp_path: Path, why: str, more: dict[str, Any]) -> None:
    """The page's own document decides, after its redirects, wherever it stands among the entries."""
    page = {"id": "p", "startedDateTime": "2026-01-02T03:04:05.678Z", "title": "x", "pageTimings": {"onLoad": 40},
            "_result": more.get("_result")}  # fmt: skip
    entries = [{"pageref": "p", "startedDateTime": at, "request": {"url": "https://shop.example/"},
                "response": {"status": status}} for at, status in ((2, 200), (1, 301))]  # fmt: skip
    entries[0] |= more
    entries += [{**entries[0], "startedDateTime": 3}] * ("_frameref" in more)
    entries += [{**entries[0], "startedDateTime": 0, "_resourceType": more["first"]}] if "first" in more else []
    (tmp_path / "x").write_text(json.dumps({"log": {"pages": [page], "entries": entries}}))
    code, _, err = typed("learn", "import", "x")
    assert (f"1 not taken: {why}\n" in err, code) == ((True, NOTHING) if why else (False, DONE))


def test_metrics_are_not_mixed(typed: Typed) -> None:
    known = {"plt_ms": 100, "context": {"rtt_ms": 50, "loss": 0, "bandwidth_kbps": 5000, "site": "a"}}
    loads = (json.dumps(known) + "\n") * 30
    said(typed, sighting(1, "192.0.2.0/24", rtt_ms=50, loss=0, bandwidth_kbps=5000))
    said(typed, loads)
    shown(typed, "learn", "run", "--policy", "mab_nc", "--name", "mine")
    said(typed, "".join(view(100.0 * n, 1.0) for n in range(1, 30)))
    both = "the logs measured different things (plt, page)"
    for words, says in (
        (("run", "--name", "other"), both),
        (("evaluate", "--policy", "default"), both),
        (("run", "--policy", "mine"), both),
        (("run", "--policy", "mine", "--metric", "page"), "mine learned from plt, not page"),
        (("run", "--name", "x", "--metric", "lcp"), ""),
    ):
        code, _, err = typed("learn", *words)
        assert code == USAGE and says in err
    said(typed, loads)
    assert shown(typed, "learn", "run", "--policy", "mine", "--metric", "plt")[0]["learned_now"] == 30
    views = shown(typed, "learn", "run", "--policy", "mab_nc", "--name", "views", "--metric", "page")
    assert views[0]["learned"] == 29 and typed("learn", "status")[0] == DONE


def sighting(at_s: float, prefix: str, **context: object) -> str:
    return json.dumps({
        "schema": "configtron.context/1", "source": "live", "at": at_s, "local": {"port": 80}, "way": "out",
        "ended": "fin", "bytes_out": 9000, "bytes_in": 100, "bounded": True, "unknown": {"jitter_ms": "no-sample"},
        "context": {"prefix": prefix, **context},
    }) + "\n"  # fmt: skip


CONTEXTS = (
    sighting(1000, "192.0.2.0/24", rtt_ms=50, loss=0.01, bandwidth_kbps=5000, asn=64500, region="DE")
    + sighting(1100, "192.0.2.0/24", rtt_ms=60)
    + sighting(1200.5, "192.0.2.0/24", rtt_ms=999, loss=0.5, bandwidth_kbps=1)
    + '{"schema": "configtron.watch/1", "watch": 1}\n'
)


def test_contexts_are_kept_and_joined(typed: Typed, tmp_path: Path) -> None:
    """The latest value of each feature before the load began; what the load's own connection showed is none."""
    assert "3 contexts are kept" in said(typed, CONTEXTS)
    assert "0 contexts are kept; 3 were kept already" in said(typed, CONTEXTS)
    err = said(typed, view(900, 1.0) + view(1200, 1.0) + view(1300, 1, address="198.51.100.3") + view(5500, 1.0))
    for part in ("1 of 4 outcomes got their network from contexts (age 100 s at the median", "100 s at most)",
                 "1 no context before the load", "1 only older contexts", "1 no context of the prefix"):  # fmt: skip
        assert part in err
    by_begin = {round(row["measured_at"] / SECOND): row for row in reported(tmp_path)}
    row = by_begin[1201]
    assert (row["rtt_ms"], row["loss"], row["bandwidth_kbps"]) == (60, 0.01, 5000)
    assert json.loads(row["more"]) == {"asn": 64500, "region": "DE", "browser": "safari"}
    assert by_begin[901]["rtt_ms"] is by_begin[5501]["rtt_ms"] is by_begin[1301]["rtt_ms"] is None


def test_what_a_path_shows_under_load_reaches_outcomes(typed: Typed, tmp_path: Path) -> None:
    """Each characteristic that capture fills, by the latest context that has it; one that none has is absent, not 0."""
    path = {"queue_ms": 180.5, "loss_run": 4.0, "window_bytes": 65536.0, "delivery_share": 0.25, "ack_gap_ms": 11.5}
    first, second = {"rtt_ms": 50, **path}, {"rtt_ms": 60, "queue_ms": 20.0}
    said(typed, sighting(1000, "192.0.2.0/24", **first) + sighting(1100, "192.0.2.0/24", **second))
    said(typed, view(1200, 1.0))
    (row,) = reported(tmp_path)
    assert json.loads(row["more"]) == path | {"queue_ms": 20.0, "browser": "safari"}


def test_contexts_of_a_file_a_watch_or_none(typed: Typed, tmp_path: Path) -> None:
    """An outcome's own features stay; a longer prefix is within a shorter one."""
    (tmp_path / "c").write_text(CONTEXTS)
    own = json.dumps({"plt_ms": 5, "measured_at": 1150 * SECOND, "context": {"prefix": "192.0.2.64/26", "rtt_ms": 7}})
    for which in ("c", "none", "all", "last"):
        if which == "all":
            said(typed, CONTEXTS)
        said(typed, own, "--source", "sim", "--contexts", which)
    assert [(row["rtt_ms"], row["loss"]) for row in reported(tmp_path)] == [(7, 0.01), (7, None), (7, 0.01), (7, 0.01)]
    said(typed, own, "--contexts", "7", code=USAGE)
    said(typed, own, "--source", "sim", "--window", "100")
    assert reported(tmp_path)[-1]["loss"] is None
    assert "x, line 1: loss is 7" in said(typed, sighting(1, "192.0.2.0/24", loss=7), code=USAGE)
    said(typed, '{"schema": "configtron.watch/1"}\n', code=NOTHING)


def deployed(
    tmp_path: Path, at_s: float, act: Transaction | None, status: str, rules: Rules | None = None
) -> Transaction:
    """An act's step at that time, as the journal keeps it."""
    clock = datetime.fromtimestamp(at_s, UTC)
    with Tuning(tmp_path / "l.db", clock=lambda: clock) as book:
        if act is None:
            assert rules is not None
            act = book.begin(Transaction("route", Place(), "", "boot", "begun", "{}", rules))
        act = replace(act, status=status) if status != UNDONE else act.closed(UNDONE, "")
        book.put(act)
    return act


def test_the_configuration_is_what_was_in_force(typed: Typed, tmp_path: Path) -> None:
    """By the journal of `configtron tune`: prefix by prefix, from when to when; half written or changed is unknown."""
    rules = Rules({"big": Profile("big", (("initcwnd", 30),))}, {"192.0.2.0/24": "big"})
    act = deployed(tmp_path, 1000, None, WRITING, rules)
    for at_s, status in ((1010, LEASED), (1020, KEPT), (2000, UNDOING), (2001, UNDONE)):
        act = deployed(tmp_path, at_s, act, status)
    before, later = (990, 1005, 1009.5, 1500), (1999.5, 3000)
    text = "".join(view(at, 1.0) for at in before) + view(1500, 1, address="198.51.100.1")
    err = said(typed, text + "".join(view(at, 1.0) for at in later), "--propensity", "0.25")
    assert "3 not taken: configuration changed meanwhile" in err
    found = {(round(row["measured_at"] / SECOND) - 1, row["prefix"][:3]): row for row in reported(tmp_path)}
    assert {key: row["settings"] for key, row in found.items()} == {
        (990, "192"): "{}", (1500, "192"): '{"initcwnd":30}', (3000, "192"): "{}", (1500, "198"): "{}",
    }  # fmt: skip
    assert {row["propensity"] for row in found.values()} == {0.25}
    assert found[1500, "192"]["arm"] == "static" and found[990, "192"]["arm"] == "default"


def test_a_restart_leaves_no_end_to_trust(typed: Typed, tmp_path: Path) -> None:
    rules = Rules({"big": Profile("big", (("initcwnd", 30),))}, {"192.0.2.0/24": "big"})
    act = deployed(tmp_path, 1000, None, WRITING, rules)
    act = deployed(tmp_path, 1001, act, KEPT)
    deployed(tmp_path, 5000, act, UNDONE)
    assert "1 not taken: configuration changed meanwhile" in said(typed, view(1500, 1.0) + view(6000, 1.0))
    assert [row["settings"] for row in reported(tmp_path)] == ["{}"]


SHOWN = [row.split("\t") for row in (LOGS / "shown.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(("kind", "shown", "logged"), SHOWN)
def test_a_line_shows_client_site_and_time(kind: str, shown: str, logged: str) -> None:
    """Of every way in which programs write them; what is not shown is refused, not guessed."""
    try:
        found = Parser(kind, lambda _: 0.0, _epoch_ns).hit(logged)
    except BadInput as error:
        found = str(error)
    if not isinstance(found, str):
        assert abs(found.begin_s - 1795802400) < 0.6
        found = f"{found.address} {found.host} {found.path} {round((found.end_s - found.begin_s) * 1e3, 3):g}"
    assert shown in found


def test_an_unknown_file_is_refused_with_what_each_format_wants(typed: Typed) -> None:
    err = said(typed, "Jan 1 host kernel: [1.0] eth0 up\n", code=USAGE)
    for part in ("x, line 1: 'Jan 1 host kernel", "outcomes: plt_ms is not in the header", "json: not JSON", "envoy: ",
                 "access-log: the request in quotes is expected at character 26"):  # fmt: skip
        assert part in err
    other = said(typed, view(100, 1.0), "--from", "haproxy", code=USAGE)
    assert "x, line 1: no line of HAProxy's HTTP log: client:port is expected at character 1" in other


def test_beacons_without_an_id_stay_apart(monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    """Also where more of them wait than fit."""
    monkeypatch.setattr("configtron.intake.imports.beacons.WAITING", 2)
    beacons = [json.dumps({"name": ("LCP", "CLS")[n % 7 % 2], "value": 9, "ip": "192.0.2.7", "ts": 1795687200 + n})
               for n in range(300)]  # fmt: skip
    assert "log 1: 171 outcomes" in said(typed, "\n".join(beacons), "--from", "web-vitals")


def test_a_log_of_private_clients_is_a_proxys(typed: Typed) -> None:
    proxys, either = "this is the log of a server behind a proxy", "come from 192.0.2.7: one client, or a proxy"
    assert f"all 2 requests come from 10.0.0.1: {proxys}" in said(typed, view(100, 1.0, address="10.0.0.1"))
    assert proxys not in said(typed, view(100, 1.0) + view(100, 1.0, address="10.0.0.1"))
    assert either in said(typed, "".join(view(100.0 * n, 1.0) for n in range(10)))


def test_what_a_line_or_an_option_says_goes_first(typed: Typed, tmp_path: Path) -> None:
    assert typed("tune", "profile", "set", "big", "initcwnd=30")[0] == DONE
    names = ("big", "initcwnd=20", "default")
    named = [view(100.0 * n, 1.0, fields=f"profile={name} propensity=0.5") for n, name in enumerate(names, 1)]
    err = said(typed, "".join(named) + view(900, 1.0, fields="profile=huge"), code=PARTIAL)
    assert "no profile is called 'huge'" in err
    said(typed, view(100, 1.0), "--profile", "initcwnd=16,tcp_congestion_control=bbr")
    assert [row["settings"] for row in reported(tmp_path)][-1] == '{"initcwnd":16,"tcp_congestion_control":"bbr"}'
    assert {"{}", '{"initcwnd":20}', '{"initcwnd":30}'} <= {row["settings"] for row in reported(tmp_path)}
    said(typed, view(100, 1.0), "--profile", "cwnd", code=USAGE)


def test_a_slow_load_is_not_left_out_for_being_slow(typed: Typed, tmp_path: Path) -> None:
    """A server logs the end of a page that waits in its send buffer for seconds: the object after it still counts."""
    said(typed, view(100, 8.0) + view(103, 1.5, address="192.0.2.8"))
    assert sorted(row["plt_ms"] for row in reported(tmp_path)) == [1500, 8000]


@pytest.mark.slow
def test_a_kill_leaves_whole_batches(typed: Typed, tmp_path: Path) -> None:
    """Outcomes that an import has kept when it is killed are whole transactions, and readable."""
    command = [sys.executable, "-m", "configtron", "--db", str(tmp_path / "l.db"), "learn", "import", "-"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    assert child.stdin is not None
    child.stdin.write(b'{"plt_ms": 5}\n' * (2 * BATCH + 7))
    child.stdin.flush()
    with Outcomes(tmp_path / "l.db") as store:
        while store.count() < 2 * BATCH:
            assert child.poll() is None
            time.sleep(0.02)
        child.kill()
        child.wait()
        assert store.count() == 2 * BATCH and [log.outcomes for log in store.logs()] == [2 * BATCH]


@pytest.mark.slow
def test_memory_does_not_grow_with_a_log() -> None:
    """Four times the lines, the same peak; of 250 clients who come again."""
    peaks = []
    for views in (2_000, 8_000):
        reading = Reading("x")
        wanted = Wanted("live", "page", InForce([]), {}, lambda _: 0.0, lambda _: 0)
        texts = (view(100 + 0.5 * n, 1.0, address=f"10.{n % 250}.3.7") for n in range(views))
        raw = (line.encode() for text in texts for line in text.splitlines())
        tracemalloc.start()
        found = sum(1 for _ in imported("access-log", numbered(raw, reading), reading, wanted))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found == views and not reading.bad
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nginx", "haproxy", "boomerang", "web-vitals", "har", "contexts"])
def test_nonsense_is_refused_in_a_line(typed: Typed, tmp_path: Path, kind: str) -> None:
    chance = random.Random(3)
    pieces = (b'{"log":', b"[22/Nov/2026:16:16:24 +0000]", b'"GET / HTTP/1.1"', b"1.2.3.4", b" - ", b"\xff",
              b'{"name":', b'"LCP"', b"t_done=", b"1e999", b"}", b"0.1", b'"', b"\x00", b"200 10", b"\n",
              b":80 ")  # fmt: skip
    for _ in range(300):
        (tmp_path / "x").write_bytes(b"".join(chance.choice(pieces) for _ in range(300)))
        code, _, err = typed("learn", "import", "--from", kind, "x")
        assert code in (USAGE, NOTHING, PARTIAL, DONE) and "configtron: " in err or code != USAGE


def test_networks_and_countries_of_addresses(typed: Typed, tmp_path: Path) -> None:
    about = {"asn": 64500, "country": {"iso_code": "DE"}}
    (tmp_path / "p.mmdb").write_bytes(database({"192.0.2.0/24": about}))
    said(typed, view(100, 1.0) + view(200, 1.0, address="198.51.100.1"), "--mmdb", "p.mmdb")
    first, second = (json.loads(row["more"]) for row in reported(tmp_path))
    assert first == {"asn": 64500, "region": "DE", "browser": "safari"} and second == {"browser": "safari"}


def test_logged_hosts_distinguish_pages(typed: Typed, tmp_path: Path) -> None:
    """An object that another site shows is none of this site's page of the same path; views beyond the eighth end."""
    foreign = line("/o.png", 100.4, 0.1, referer="https://elsewhere.example/a")
    own = line("/o.css", 100.9, 0.1, referer="https://SHOP.example:443/a")
    many = "".join(line(f"/p{n}", 200 + n / 10, 0.01) + line(f"/o{n}.css", 200.05 + n / 10, 0.01,
                   referer=f"https://shop.example/p{n}") for n in range(20))  # fmt: skip
    assert "1 not taken: objects of no page" in said(typed, line("/a", 100, 0.1) + foreign + own + many)
    assert [row["plt_ms"] for row in reported(tmp_path)] == [1000] + [60] * 20
