# SPDX-License-Identifier: MIT
"""The odd server itself, over a loopback connection: what it does is what real clients see."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from configtron.lab.internet import misbehaving
from configtron.lab.internet.certificates import issue
from configtron.lab.servers import odd, sealed
from tests.support.waiting import PATIENCE_S

# TLS 1.0 is what some of these speak.
pytestmark = pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
PAGE = b"a page of the laboratory\n" * 4000
PAIRS = ((3, 100), (4, 65536))
GET = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
# HEADERS on stream 1 with the static table's GET, https and path (RFC 7541, appendix A).
H2_GET = bytes([0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x87, 0x84])
SETTINGS, GOAWAY, WINDOW_UPDATE = 4, 7, 8
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    made = issue(1, "Tester", ["a.example"])
    (folder / "a.pem").write_text(made.chain)
    (folder / "a.key").write_text(made.key)
    (folder / "page").write_bytes(PAGE)
    return folder


def site(folder: Path, impairment: str, version: str = "h2") -> odd.MisbehavingSite:
    row = misbehaving.row(impairment, misbehaving.named(impairment)[0].http_version or version, PAIRS, 983041)
    row |= {"page": str(folder / "page"), "chain": str(folder / "a.pem"), "key": str(folder / "a.key")}
    (folder / "odd.json").write_text(json.dumps({"sites": [row], "by_address": {"127.0.0.1": 0}}))
    return odd.load(folder / "odd.json")["127.0.0.1"]


def client(versions: tuple[str, str] = ("1.0", "1.3"), alpn: tuple[str, ...] = ("h2", "http/1.1")) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.set_ciphers("ALL:@SECLEVEL=0")
    tls.minimum_version, tls.maximum_version = sealed.VERSIONS[versions[0]], sealed.VERSIONS[versions[1]]
    tls.set_alpn_protocols(list(alpn))
    return tls


def asked(there: odd.MisbehavingSite, port: int, talk: Talk, tls: ssl.SSLContext | None = None) -> bytes:
    """One connection to that port of the server, and what the conversation gave."""

    async def both() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            name = "a.example" if tls else None
            coming = asyncio.ensure_future(
                asyncio.open_connection(*listener.getsockname(), ssl=tls, server_hostname=name)
            )
            listener.setblocking(False)
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            serving = asyncio.ensure_future(odd.serve(accepted, port, there))
            try:
                reader, writer = await coming
                heard = await talk(reader, writer)
            finally:
                await serving
            writer.transport.abort()
            return heard

    return asyncio.run(asyncio.wait_for(both(), PATIENCE_S))


async def everything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(GET)
    return await reader.read(-1)


def frames_after(words: bytes, count: int) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(words)
        got = b""
        for _ in range(count):
            head = await reader.readexactly(9)
            got += head + await reader.readexactly(int.from_bytes(head[:3], "big"))
        return got

    return talk


def kinds(data: bytes) -> list[int]:
    found = []
    while data:
        found.append(data[3])
        data = data[9 + int.from_bytes(data[:3], "big") :]
    return found


def test_a_well_behaved_server_serves_its_page(folder: Path) -> None:
    assert asked(site(folder, ""), 80, everything).split(b"\r\n\r\n", 1)[1] == PAGE
    assert asked(site(folder, ""), 443, everything, client(alpn=("http/1.1",))).split(b"\r\n\r\n", 1)[1] == PAGE


def test_a_kept_connection_is_answered_again(folder: Path) -> None:
    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET.replace(b"Connection: close\r\n", b"") + GET)
        return await reader.read(-1)

    assert asked(site(folder, ""), 80, twice).count(PAGE) == 2


@pytest.mark.parametrize("impairment", ["reset-accept", "reset-request", "reset-body:100"])
def test_resets_are_resets(folder: Path, impairment: str) -> None:
    with pytest.raises(ConnectionError):
        asked(site(folder, impairment), 80, everything)


def test_a_pause_comes_back_to_the_answer(folder: Path) -> None:
    assert asked(site(folder, "think-body:0.03"), 80, everything).split(b"\r\n\r\n", 1)[1] == PAGE


def test_the_fit_knows_the_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = []

    def seen(transport: asyncio.Transport) -> int:
        rooms.append(measured(transport))
        return rooms[-1]

    measured = odd.room
    monkeypatch.setattr(odd, "room", seen)
    assert len(asked(site(folder, "fit-and-one"), 80, everything)) == rooms[0] + 1
    # at least Linux's ten segments, however large loopback's are
    assert rooms[0] >= 10 * 536


async def a_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    return await reader.readline()


def test_other_languages(folder: Path) -> None:
    assert asked(site(folder, "mail"), 80, a_line).startswith(b"220 ")
    assert asked(site(folder, "no-http"), 80, everything).startswith(b"500 5.5.1")
    assert asked(site(folder, "tls-not"), 443, everything).split(b"\r\n\r\n", 1)[1] == PAGE
    with pytest.raises(ssl.SSLError, match="WRONG_VERSION|wrong version"):
        asked(site(folder, "tls-not"), 443, everything, client())


@pytest.mark.parametrize(
    ("impairment", "alert"),
    [
        ("tls-failure", "HANDSHAKE_FAILURE"), ("tls-internal", "INTERNAL_ERROR"),
        ("tls-name", "UNRECOGNIZED_NAME"), ("tls-protocol", "no application protocol"),
    ],
)  # fmt: skip
def test_alerts_are_alerts(folder: Path, impairment: str, alert: str) -> None:
    with pytest.raises(ssl.SSLError, match=alert):
        asked(site(folder, impairment), 443, everything, client())


def test_versions_are_those_it_has(folder: Path) -> None:
    async def version(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        made = writer.get_extra_info("ssl_object")
        return f"{made.version()} {made.selected_alpn_protocol()}".encode()

    assert asked(site(folder, "tls-1.0"), 443, version, client()) == b"TLSv1 http/1.1"
    assert asked(site(folder, "tls-1.2"), 443, version, client()) == b"TLSv1.2 h2"
    assert asked(site(folder, "tls-1.3"), 443, version, client()) == b"TLSv1.3 h2"
    assert asked(site(folder, "tls-no-alpn"), 443, version, client()) == b"TLSv1.3 None"
    with pytest.raises(ssl.SSLError, match="VERSION"):
        asked(site(folder, "tls-1.3"), 443, version, client(("1.0", "1.2")))


@pytest.mark.parametrize(
    ("impairment", "wanted"),
    [
        ("", [SETTINGS, WINDOW_UPDATE, SETTINGS]), ("h2-later", [SETTINGS, WINDOW_UPDATE, SETTINGS, SETTINGS]),
        ("h2-goaway:11", [SETTINGS, WINDOW_UPDATE, GOAWAY]),
        ("h2-goaway-asked:0", [SETTINGS, WINDOW_UPDATE, SETTINGS, GOAWAY]), ("h2-goaway-first:13", [GOAWAY]),
        ("h2-update-first", [WINDOW_UPDATE, SETTINGS]), ("h2-no-settings", [SETTINGS]),
    ],
)  # fmt: skip
def test_frames_come_in_the_order_of_the_row(folder: Path, impairment: str, wanted: list[int]) -> None:
    heard = asked(site(folder, impairment), 443, frames_after(PREFACE + H2_GET, len(wanted)), client())
    assert kinds(heard) == wanted
    if impairment == "h2-no-settings":
        assert heard[4] == 1, "only the acknowledgement of ours"
    if "goaway" in impairment:
        assert heard[-4:] == int(impairment.split(":")[1]).to_bytes(4, "big")


@pytest.mark.parametrize("impairment", ["h2-grease", "h2-twice", "h2-push", "h2-empty"])
def test_settings_are_on_the_wire_as_the_truth_says(folder: Path, impairment: str) -> None:
    heard = asked(site(folder, impairment), 443, frames_after(PREFACE, 1), client())
    wanted = b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in misbehaving.settings(impairment, PAIRS))
    assert heard[9:] == wanted and heard[3] == SETTINGS


def test_http1_words_where_http2_was_agreed(folder: Path) -> None:
    assert asked(site(folder, "h2-http1"), 443, frames_after(PREFACE, 0), client()) == b""
    assert asked(site(folder, "h2-http1"), 443, everything, client()).startswith(b"HTTP/1.1 400")
