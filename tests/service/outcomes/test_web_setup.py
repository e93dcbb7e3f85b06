# SPDX-License-Identifier: MIT
"""What `learn serve --setup` writes into configurations of others, and takes back; the whole with real servers:
tests/service/learning/test_serve_local.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.model.errors import BadInput
from configtron.service.outcomes.marked_lines import (
    MARK,
    add_to_haproxy,
    add_to_nginx,
    is_unchanged,
    signed,
    without_marked,
)
from configtron.service.outcomes.web_server_texts import BLOCKS
from configtron.service.outcomes.web_setup import replace_files
from tests.support.real_servers import snippet

SITE = """# server { listen 80; }
upstream pool { server 192.0.2.1:80; }
server {
    listen 127.0.0.1:80 default_server;
    location ~ "^/x{2}" { add_header X "}"; }
}
server { listen 8080; }
server { listen unix:/run/a; listen [::]:443 ssl; access_log /a; location / { proxy_pass http://${pool}; } }
http { server { root /srv; } }
"""
PROXY = """defaults
    mode http

# The site.
frontend web
    bind :8080,:80
    default_backend pages

# Others.
frontend inside
    bind 127.0.0.1:81
backend pages
    server a 192.0.2.1:80"""


@pytest.mark.parametrize("server", BLOCKS)
def test_the_document_has_what_setup_writes(server: str) -> None:
    assert snippet(server) == BLOCKS[server]


def test_each_server_of_the_ports_gets_the_lines_that_it_needs() -> None:
    found = add_to_nginx(SITE, (80, 443), "/l", "access_log log;", "add_header timing;")
    assert [line for line in found.splitlines() if MARK in line] == [
        f"    include /l; {MARK}", f"    include /l; {MARK}", f"    access_log log; {MARK} ", f"    include /l; {MARK} "
    ]  # fmt: skip
    assert add_to_nginx(found, (80, 443), "/l", "access_log log;", "add_header timing;") == found
    assert without_marked(found) == SITE
    assert add_to_nginx(SITE, (81,), "/l", "", "") == SITE


def test_each_frontend_of_the_ports_gets_the_lines() -> None:
    found = add_to_haproxy(PROXY + "\n", (80, 443), ["first"], ["last"], ["backend configtron"])
    added = [(at, line) for at, line in enumerate(found.splitlines()) if MARK in line]
    assert added == [(5, f"    first {MARK}"), (8, f"    last {MARK}"), (15, f"backend configtron {MARK}")]
    assert add_to_haproxy(found, (80, 443), ["first"], ["last"], ["backend configtron"]) == found
    assert without_marked(found) == PROXY + "\n"
    assert add_to_haproxy(PROXY + "\n", (82,), ["first"], ["last"], ["backend"]) == PROXY + "\n"


def test_a_file_that_a_human_changed_is_known() -> None:
    text = signed("a\nb\n")
    assert is_unchanged(text) and not is_unchanged(text + "c\n") and not is_unchanged("a\nb\n")


def test_what_the_server_refuses_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, new, gone = (tmp_path / name for name in ("kept", "new", "gone"))
    kept.write_text("before")
    gone.write_text("before")
    nginx = tmp_path / "nginx"
    nginx.write_text("#!/bin/sh\necho 'nginx: [emerg] duplicate location' >&2; echo 'nginx: test failed' >&2; exit 1\n")
    nginx.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BadInput, match=r"nginx -t refuses .* nothing was changed: nginx: \[emerg\] duplicate location"):
        replace_files({kept: "after", new: "after", gone: None}, "nginx")
    assert (kept.read_text(), gone.read_text(), new.exists()) == ("before", "before", False)
    nginx.write_text("#!/bin/sh\n")
    done = replace_files({kept: "after", new: "after", gone: None}, "nginx")
    assert done == [f"wrote {kept}", f"wrote {new}", f"removed {gone}", "tested: nginx -t"]
    assert (kept.read_text(), gone.exists(), new.read_text()) == ("after", False, "after")
