# SPDX-License-Identifier: MIT
"""TLS decrypted by tshark, with a key log: ALPN and HTTP/2 frames, byte for byte.

tshark decrypts and puts records together; frames are written down again as they were on the wire, so that the same
reader reads them (`fingerprint/h2_settings.py`) as it reads those of our own probes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from configtron.fingerprint.passive.columns import Endpoint
from configtron.fingerprint.passive.traces import DecryptedMessage
from configtron.model.errors import BadInput, Missing

SETTINGS, GOAWAY, WINDOW_UPDATE = 4, 7, 8
# ALPN answers and the HTTP/2 frames that are about the connection, not about pages. QUIC has TLS too, and our evidence
# holds plaintext beside the packets; neither is a segment.
FILTER = f"tcp && (tls.handshake.extensions_alpn_str || http2.type in {{{SETTINGS},{GOAWAY},{WINDOW_UPDATE}}})"
SERVER_HELLO, ENCRYPTED_EXTENSIONS = "2", "8"
Key = tuple[Endpoint, Endpoint]


def opened_by(path: str, keylog: Path | None) -> dict[Key, list[DecryptedMessage]]:
    """Return the messages that a key decrypts, by (client, server). Without `keylog`: by the secrets in a pcapng."""
    # Few captures are opened.
    import shutil
    import subprocess

    if shutil.which("tshark") is None:
        raise Missing("TLS can only be opened by tshark: apt-get install tshark")
    # Without it a segment that was overtaken or repeated ends the decryption.
    order = ["-o", "tcp.reassemble_out_of_order:TRUE"]
    keys = ["-o", f"tls.keylog_file:{keylog.absolute()}"] if keylog is not None else []
    form = ["-T", "json", "--no-duplicate-keys", "-J", "frame ip ipv6 tcp tls http2"]
    words = ["tshark", "-n", "-r", path, "-2", *order, *keys, "-Y", FILTER, *form]
    done = subprocess.run(words, capture_output=True, check=False)
    try:
        packets = json.loads(done.stdout or b"[]")
    except ValueError:
        packets = None
    # For a cut file tshark exits with code 2, after it has read the whole packets.
    if not isinstance(packets, list) or (done.returncode and not packets):
        raise BadInput(f"{path}: tshark: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
    found: dict[Key, list[DecryptedMessage]] = defaultdict(list)
    for packet in packets:
        for key, message in _decrypted(packet["_source"]["layers"]):
            found[key].append(message)
    return found


def _decrypted(layers: dict[str, Any]) -> Iterator[tuple[Key, DecryptedMessage]]:
    frame = int(_one(layers["frame"])["frame.number"])
    tcp = _one(layers["tcp"])
    outer, name = (_one(layers["ip"]), "ip") if "ip" in layers else (_one(layers["ipv6"]), "ipv6")
    source = Endpoint(ip_address(outer[f"{name}.src"]).packed, int(tcp["tcp.srcport"]))
    destination = Endpoint(ip_address(outer[f"{name}.dst"]).packed, int(tcp["tcp.dstport"]))
    for node in _all(layers.get("tls")):
        for kind, alpn in _answers(node):
            if kind in (SERVER_HELLO, ENCRYPTED_EXTENSIONS):
                yield (destination, source), DecryptedMessage(frame, "in", alpn, b"")
    for node in _all(layers.get("http2")):
        for stream in _all(node.get("http2.stream") if isinstance(node, dict) else None):
            data = frame_of(stream)
            if data:
                # tshark does not name the client here; the caller knows it.
                yield (destination, source), DecryptedMessage(frame, "in", "", data)


def _answers(node: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """Yield (handshake type, ALPN) anywhere below. kind: the type of the handshake message that holds the node."""
    if isinstance(node, dict):
        stated = node.get("tls.handshake.type")
        kind = stated if isinstance(stated, str) else kind
        yield from ((kind, str(alpn)) for alpn in _all(node.get("tls.handshake.extensions_alpn_str")))
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _answers(part, kind)


def frame_of(stream: Any) -> bytes:
    """An HTTP/2 frame as it was on the wire, of those kinds that `FILTER` asks for; b"" of another."""
    if not isinstance(stream, dict) or "http2.type" not in stream:
        return b""
    kind, flags = int(stream["http2.type"]), int(stream.get("http2.flags", "0"), 16)
    if kind == SETTINGS:
        body = b"".join(_setting(one) for one in _all(stream.get("http2.settings")))
    elif kind == WINDOW_UPDATE:
        body = int(stream.get("http2.window_update.window_size_increment", "0")).to_bytes(4, "big")
    elif kind == GOAWAY:
        last, error = (int(str(stream.get(f"http2.goaway.{name}", "0")), 0) for name in ("last_stream_id", "error"))
        body = last.to_bytes(4, "big") + error.to_bytes(4, "big")
    else:
        return b""
    identifier = int(str(stream.get("http2.streamid", "0")), 0)
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + identifier.to_bytes(4, "big") + body


def _setting(one: Any) -> bytes:
    if not isinstance(one, dict) or "http2.settings.id" not in one:
        return b""
    identifier = int(str(one["http2.settings.id"]), 0)
    values = [value for key, value in one.items() if key.startswith("http2.settings.") and key != "http2.settings.id"]
    value = int(str(values[0]), 0) if values else 0
    return identifier.to_bytes(2, "big") + value.to_bytes(4, "big")


def _all(node: Any) -> Sequence[Any]:
    return () if node is None else node if isinstance(node, list) else [node]


def _one(node: Any) -> Any:
    """Of nested IP headers, the outermost."""
    return node[0] if isinstance(node, list) else node
