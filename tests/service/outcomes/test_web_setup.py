# SPDX-License-Identifier: MIT
"""What `learn serve --setup` writes into configurations of others, and takes back; the whole with real servers:
tests/service/learning/test_serve_local.py."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from configtron.model.errors import BadInput, Unwritten
from configtron.service.outcomes import marked_lines
from configtron.service.outcomes.marked_lines import MARK, add_to_haproxy, add_to_nginx, signed, without_marked
from configtron.service.outcomes.web_server_texts import BLOCKS
from configtron.service.outcomes.web_setup import nginx_files, replace_files, write
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
        f"    include /l; {MARK}", f"    add_header timing; {MARK} ", f"    include /l; {MARK}",
        f"    access_log log; {MARK} ", f"    include /l; {MARK} ",
    ]  # fmt: skip
    assert add_to_nginx(found, (80, 443), "/l", "access_log log;", "add_header timing;") == found
    assert without_marked(found) == SITE
    assert add_to_nginx(SITE, (81,), "/l", "", "") == SITE


def test_a_directive_that_a_server_includes_or_a_location_has_replaces_those_of_http() -> None:
    files = {"/etc/nginx/snippets/own.conf": "include snippets/more*;\n", "/etc/nginx/snippets/more": "add_header A b;"}
    site = "server {\n    include snippets/own.conf;\n    location = /a {\n        access_log off;\n    }\n}\n"
    found = add_to_nginx(site, (80,), "/l", "access_log log;", "add_header timing;", files)
    assert [line.strip() for line in found.splitlines() if MARK in line] == [
        f"include /l; {MARK}", f"add_header timing; {MARK}"
    ]  # fmt: skip
    assert without_marked(found) == site


def test_a_server_of_stream_is_no_site() -> None:
    """The file of a block `stream` looks like one of sites: nginx refused a location there, and with it the whole."""
    stream = "server {\n    listen 443;\n    proxy_pass 192.0.2.1:443;\n}\n"
    assert add_to_nginx(stream, (443,), "/l", "log;", "header;") == stream


def test_a_site_without_logs_is_named() -> None:
    for text, port, silent in (
        ("http { access_log off; server { listen 81; } }", 80, True),
        ("server { access_log off; }", 80, True), ("server { access_log off; }", 81, False),
        ("server { location = /favicon.ico { access_log off; } }", 80, False),
    ):  # fmt: skip
        assert marked_lines.is_silent(text, (port,)) == silent


def test_haproxy_without_indentation_of_several_ports_and_of_tcp_beside() -> None:
    """`bind :80,:8080` was no port 80; one frontend of TCP had the whole configuration refused."""
    web = "frontend web\nmode http\nbind :80,:8080\ndefault_backend pages\r\n"
    tcp = "defaults\n    mode tcp\nfrontend tls\n    bind [::]:443\n    # a\fb\n    default_backend pages\n"
    found = add_to_haproxy(tcp + web, (80, 443), ["first"], ["last"], ["backend configtron"])
    assert [line for line in found.split("\n") if MARK in line] == [
        f"    first {MARK}", f"    last {MARK}", f"backend configtron {MARK}"
    ]  # fmt: skip
    assert found.startswith(tcp) and without_marked(found) == tcp + web


def test_haproxy_by_named_defaults() -> None:
    """The mode is that of the defaults named, not the last ones'; haproxy refused a backend that named none."""
    text = "defaults A\n mode tcp\ndefaults B from A\n mode http\nfrontend b from B\n bind :80\n"
    text += "frontend a from A\n bind :443\ndefaults\n timeout client 1s\nfrontend c\n bind :80\n"
    found = add_to_haproxy(text, (80, 443), ["first"], [], ["backend configtron"])
    first, backend = f"    first {MARK}", f"backend configtron from B {MARK}"
    assert found == text.replace("from B\n bind", f"from B\n{first}\n bind") + f"{backend}\n"


def test_each_frontend_of_the_ports_gets_the_lines() -> None:
    found = add_to_haproxy(PROXY + "\n", (80, 443), ["first"], ["last"], ["backend configtron"])
    added = [(at, line) for at, line in enumerate(found.splitlines()) if MARK in line]
    assert added == [(5, f"    first {MARK}"), (8, f"    last {MARK}"), (15, f"backend configtron {MARK}")]
    assert add_to_haproxy(found, (80, 443), ["first"], ["last"], ["backend configtron"]) == found
    assert without_marked(found) == PROXY + "\n"
    assert add_to_haproxy(PROXY + "\n", (82,), ["first"], ["last"], ["backend"]) == PROXY + "\n"


def test_a_file_that_a_human_changed_is_known() -> None:
    text = signed("a\nb\n")
    found = [marked_lines.is_unchanged(one) for one in (text, text + "c\n", "a\nb\n", text + "\udcfc")]
    assert found == [True, False, False, False], "the last has a byte that is no UTF-8"


def test_a_disk_that_is_full_leaves_the_file_whole(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.write_text("server {}")
    site.chmod(0o640)
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, whole[1]))
    try:
        with pytest.raises(Unwritten):
            write(site, "x" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, whole)
    assert site.read_text() == "server {}" and list(tmp_path.iterdir()) == [site]
    write(site, "server { }")
    assert (site.read_text(), site.stat().st_mode & 0o777) == ("server { }", 0o640)


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
    nginx.write_text("#!/bin/sh\necho 'AH00526: Syntax error on line 1 of q.conf:\\nInvalid command' >&2; exit 1\n")
    with pytest.raises(BadInput, match="Syntax error on line 1 of q.conf: Invalid command$"):
        nginx_files()
    nginx.write_text("#!/bin/sh\nprintf '# configuration file /etc/a b\\377:\\n'\n")
    assert nginx_files() == [Path("/etc/a b\udcff")], "a name that is no UTF-8"
    nginx.write_text("#!/bin/sh\n")
    done = replace_files({kept: "after", new: "after", gone: None}, "nginx")
    assert done == [f"wrote {kept}", f"wrote {new}", f"removed {gone}", "tested: nginx -t"]
    assert (kept.read_text(), gone.exists(), new.read_text()) == ("after", False, "after")
