# SPDX-License-Identifier: MIT
"""The server of arbitrary SETTINGS, over TLS on loopback, against h2's client: first frames, windows, errors."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl

import pytest
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded
from h2.settings import SettingCodes

from configtron.lab.internet.certificates import issue
from configtron.lab.servers import h2lib
from tests.support.waiting import PATIENCE_S

PAGE = b"a page of the laboratory\n" * 12_000
# Repeated, out of order, and one that RFC 9113 does not know: a library's dict could not send these.
SETTINGS = [[3, 100], [1, 4096], [3, 128], [51966, 7]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> h2lib.H2Site:
    folder = tmp_path_factory.mktemp("h2lib")
    made = issue(1, "Tester", ["a.example"])
    files = {"chain": made.chain.encode(), "key": made.key.encode(), "page": PAGE}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    row = {name: str(folder / name) for name in files}
    row |= {"http_version": "h2", "settings": SETTINGS, "window_update": 983041}
    (folder / "sites.json").write_text(json.dumps({"sites": [row], "by_address": {"127.0.0.1": 0}}))
    return h2lib.load(folder / "sites.json")["127.0.0.1"]


def conversation(site: h2lib.H2Site, client: H2Connection, stop: type[Event] | None) -> tuple[bytes, list[Event]]:
    """Send what the client has ready, answer what comes; all bytes heard and h2's events, until `stop` or the end."""

    async def talk() -> tuple[bytes, list[Event]]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            accepting = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(listener))
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            tls.set_alpn_protocols(["h2"])
            opening = asyncio.ensure_future(asyncio.open_connection(*listener.getsockname(), ssl=tls))
            await h2lib.serve((await accepting)[0], 443, site)
            reader, writer = await opening
            heard, events = b"", list[Event]()
            writer.write(client.data_to_send())
            while data := await asyncio.wait_for(reader.read(65536), PATIENCE_S):
                heard += data
                events += client.receive_data(data)
                for event in events:
                    if isinstance(event, DataReceived) and event.flow_controlled_length:
                        client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        event.flow_controlled_length = 0
                writer.write(client.data_to_send())
                if stop and any(isinstance(event, stop) for event in events):
                    break
            writer.close()
            return heard, events

    return asyncio.run(talk())


def asking(window: int) -> H2Connection:
    client = H2Connection()
    client.initiate_connection()
    client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
    head = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
    client.send_headers(1, head, end_stream=True)
    return client


@pytest.mark.parametrize("window", [1000, 65_535, 1_000_000])
def test_a_page_larger_than_the_window_arrives_whole(site: h2lib.H2Site, window: int) -> None:
    _, events = conversation(site, asking(window), StreamEnded)
    (answer,) = [event for event in events if isinstance(event, ResponseReceived)]
    assert dict(answer.headers)[b"content-length"] == str(len(PAGE)).encode()
    assert b"".join(event.data for event in events if isinstance(event, DataReceived)) == PAGE


def test_the_first_frames_are_the_sites_own_bytes(site: h2lib.H2Site) -> None:
    heard, _ = conversation(site, asking(65_535), StreamEnded)
    pairs = b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in SETTINGS)
    assert heard.startswith(len(pairs).to_bytes(3, "big") + b"\x04" + bytes(5) + pairs)
    assert heard.count(pairs) == 1


def test_a_protocol_error_is_answered_by_goaway_and_the_end(site: h2lib.H2Site) -> None:
    client = asking(65_535)
    # DATA on a stream that was never opened (RFC 9113 section 5.1).
    client._data_to_send += bytes([0, 0, 1, 0, 0, 0, 0, 0, 9, 0])
    heard, _ = conversation(site, client, None)
    at, kinds = 0, []
    while at + 9 <= len(heard):
        kinds.append(heard[at + 3])
        at += 9 + int.from_bytes(heard[at : at + 3], "big")
    assert kinds[-1] == 7
