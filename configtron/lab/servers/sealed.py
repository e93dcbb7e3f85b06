# SPDX-License-Identifier: MIT
"""TLS between two memory buffers, for servers that end handshakes badly.

asyncio's own layer closes a connection whose handshake fails before the alert that says why is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable

VERSIONS = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}
# Level 0 lets OpenSSL 3 speak TLS 1.0 and 1.1 (their signatures use SHA-1).
CIPHERS = "DEFAULT:@SECLEVEL=0"
# A record's plaintext (RFC 8446 section 5.1).
RECORD_BYTES = 16384


def context(row: dict[str, str | int | list[str]], chain: str, key: str) -> ssl.SSLContext:
    """A TLS context: versions from `minimum` to `maximum`, `alpn`; `alert` (RFC 8446 section 6) ends every hello."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(chain, key)
    tls.set_ciphers(CIPHERS)
    tls.minimum_version, tls.maximum_version = VERSIONS[str(row["minimum"])], VERSIONS[str(row["maximum"])]
    if row["alpn"]:
        assert isinstance(row["alpn"], list)
        tls.set_alpn_protocols(row["alpn"])
    if alert := row["alert"]:
        tls.sni_callback = lambda *_: int(str(alert))
    return tls


class TlsProtocol(asyncio.Protocol):
    """TLS on a connection; `speak` gives the protocol within it for what ALPN chose."""

    def __init__(self, context: ssl.SSLContext, speak: Callable[[str | None], asyncio.Protocol]) -> None:
        self.speak = speak
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.inner: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, problem: Exception | None) -> None:
        if self.inner is not None:
            self.inner.connection_lost(problem)

    def data_received(self, data: bytes) -> None:
        self.incoming.write(data)
        try:
            if self.inner is None:
                self.tls.do_handshake()
                self.flush()
                self.inner = self.speak(self.tls.selected_alpn_protocol())
                self.inner.connection_made(Sealed(self))
            while part := self.tls.read(RECORD_BYTES):
                self.inner.data_received(part)
            self.transport.close()
        except ssl.SSLWantReadError:
            self.flush()
        except ssl.SSLError:
            # the alert that says so, then the end
            self.flush()
            self.transport.close()

    def flush(self) -> None:
        """Hand the sealed records to the connection."""
        self.transport.write(self.outgoing.read())


class Sealed(asyncio.Transport):
    """What an HTTP protocol writes to when TLS is between it and the connection."""

    def __init__(self, tls: TlsProtocol) -> None:
        super().__init__()
        self._tls = tls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._tls.transport.is_closing():
            self._tls.tls.write(data)
            self._tls.flush()

    def close(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            # sends the closure alert; the client's own is not waited for (RFC 8446 section 6.1)
            self._tls.tls.unwrap()
        self._tls.flush()
        self._tls.transport.close()

    def abort(self) -> None:
        self._tls.transport.abort()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._tls.transport.get_extra_info(name, default)
