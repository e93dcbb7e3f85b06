# SPDX-License-Identifier: MIT
"""`learn import` of what a real Chromium sent: beacons of boomerang and web-vitals by every way that they take, in the
logs that nginx wrote of them, and the archives that chrome-har made of the browser's events."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.model.errors import DONE, NOTHING
from tests.cli.learn.test_import_logs import reported
from tests.support.children import child
from tests.support.headless import HeadlessPage
from tests.support.learn_command import Typed
from tests.support.loopback import free_endpoint
from tests.support.waiting import until

LIBRARIES = ("boomerangjs@1.815.1", "web-vitals@6.2.3", "chrome-har@1.3.1")
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0 Safari/537.36"
NGINX = """
user root; daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1; events {{ }}
http {{
    log_format bodies escape=json '{{"time":"$time_iso8601","remote_addr":"$remote_addr","uri":"$request_uri",'
        '"http_user_agent":"$http_user_agent","http_referer":"$http_referer","request_body":"$request_body"}}';
    log_format plain '$remote_addr - - [$time_local] "$request" 200 0 "$http_referer" "$http_user_agent"'
        ' "$request_body"';
    types {{ text/html html; text/javascript js; }}
    server {{
        listen {host}; root {folder}; access_log off;
        location = /kept.html {{ expires 1h; }}
        location = /broken.html {{ return 503 "<p>no</p>"; }}
        location = /sink {{ return 204; }}
        location /to/ {{
            rewrite ^ /sink break; proxy_pass http://{host};
            access_log {folder}/bodies.jsonl bodies; access_log {folder}/plain.log plain;
        }}
    }}
}}
"""
PAGE = """<!doctype html><title>page</title><p>text</p>
<script src="/node_modules/boomerangjs/boomerang.js"></script>
<script src="/node_modules/boomerangjs/plugins/rt.js"></script>
<script src="/node_modules/web-vitals/dist/web-vitals.iife.js"></script>
<script>
BOOMR.init({beacon_url: "/to/boomerang", beacon_type: "%s", beacon_disable_sendbeacon: %s});
const queue = [], add = one => queue.push(one);
webVitals.onCLS(add); webVitals.onLCP(add); webVitals.onTTFB(add);
addEventListener("visibilitychange", () => navigator.sendBeacon("/to/vitals", JSON.stringify(queue)));
</script>"""
UNPAINTED = 'window.webVitals && performance.getEntriesByType("paint").length < 2'
ARCHIVES = """const {harFromMessages} = require("chrome-har");
for (const one of JSON.parse(require("fs").readFileSync(0))) console.log(JSON.stringify(harFromMessages(one)))"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a site that logs the bodies of its beacons."""
    if missing := [program for program in ("npm", "node", "nginx") if shutil.which(program) is None]:
        pytest.skip(f"no {', '.join(missing)}")
    words = ["npm", "install", "--prefix", tmp_path, "--ignore-scripts", "--no-audit", *LIBRARIES]
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=120)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip(f"npm brings no {', '.join(LIBRARIES)}")
    host = free_endpoint().removeprefix("tcp://")
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, host=host))
    for name, how in (("get", ("GET", "true")), ("post", ("POST", "true")), ("auto", ("AUTO", "false"))):
        (tmp_path / f"{name}.html").write_text(PAGE % how)
    (tmp_path / "kept.html").write_text("<!doctype html><title>kept</title>")
    with child(["nginx", "-c", str(tmp_path / "nginx.conf")], signal.SIGTERM):
        yield f"http://{host}"


@pytest.mark.slow
def test_what_chromium_sent_is_imported(typed: Typed, tmp_path: Path, site: str) -> None:
    """A load of each page, though boomerang sends again when the page is left; of archives those of a good page."""
    names, visits, log = ("get", "post", "auto", "kept", "broken", "kept"), [], tmp_path / "plain.log"
    with HeadlessPage("about:blank", 800, tmp_path, AGENT) as chromium:
        for url in (*(f"{site}/{name}.html" for name in names), "data:text/html,hi", "http://127.0.0.1:1/"):
            chromium.events.clear()
            chromium.visit(url)
            until(lambda: not chromium.value(UNPAINTED))
            visits.append([one for one in chromium.events if "method" in one])
        until(lambda: log.read_text().count("/to/vitals") == 3)
    for source in ("bodies.jsonl", "plain.log"):
        for kind in ("boomerang", "web-vitals"):
            code, _, err = typed("learn", "import", "--from", kind, source)
            loads = [(row["site"].partition("/")[2], row["prefix"]) for row in reported(tmp_path)[-3:]]
            assert (code, loads) == (DONE, [(f"{name}.html", "127.0.0.0/24") for name in names[:3]]), err
    assert all(1 < row["plt_ms"] < 20_000 for row in reported(tmp_path))
    made = subprocess.run(["node", "-e", ARCHIVES], input=json.dumps(visits), text=True, stdout=subprocess.PIPE,
                          cwd=tmp_path, check=True).stdout.splitlines()  # fmt: skip
    for name, text in zip(names, made, strict=False):
        (tmp_path / "har").write_text(text)
        code, _, err = typed("learn", "import", "har")
        good = name != "broken" and json.loads(text)["log"]["pages"]
        assert (code, "a page answered by 503" in err) == (DONE if good else NOTHING, name == "broken")
        assert not good or reported(tmp_path)[-1]["site"].endswith(f"/{name}.html")
