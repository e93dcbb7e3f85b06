# SPDX-License-Identifier: MIT
"""TLS for `stream.py`: OpenSSL between two memory buffers.

We measure, we do not trust: the client accepts any certificate, and old servers may answer with the versions and
ciphers that they have (TLS 1.0 at least). Session secrets are collected, so that any reader can decrypt the saved
capture.
"""

from __future__ import annotations

import os
import ssl
from ipaddress import ip_address

from configtron.model.nouns import Session
from configtron.probe.wire.stream import EngineFailed

# Security level 0 takes small keys and SHA-1; we look at servers, we do not confide in them.
CIPHERS = "ALL:@SECLEVEL=0"
# Servers without RFC 5746 still exist (SSL_OP_LEGACY_SERVER_CONNECT; absent from Python 3.11's ssl module).
LEGACY_SERVER_CONNECT = 0x4
# Names of OpenSSL's errors that are not alerts but have a plain meaning.
PLAIN_REASONS = {
    "WRONG_VERSION_NUMBER": "tls:not-tls",
    "HTTP_REQUEST": "tls:not-tls",
    "UNSUPPORTED_PROTOCOL": "tls:version",
}
# Alerts that Python's ssl module has no name for (RFC 7301 section 3.2, RFC 8446 section 6), and where in a record one
# stands: its type, then version (2), length (2) and level.
NAMELESS_ALERTS = {109: "missing-extension", 116: "certificate-required", 120: "no-application-protocol"}
ALERT, ALERT_AT = 21, 6


class Trust:
    """Makes engines: `Trust()(host, alpn)`. One per thread; `close` it."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        # OpenSSL appends each secret as a line; a file in memory that only this thread writes shows whose it was.
        self._secrets = os.memfd_create("keylog")

    def __call__(self, host: str, alpn: tuple[str, ...]) -> OpenSsl:
        """Return an engine for one connection."""
        if alpn not in self._contexts:
            self._contexts[alpn] = self._context(alpn)
        return OpenSsl(self._contexts[alpn], host, self._secrets)

    def close(self) -> None:
        """Forget the secrets."""
        os.close(self._secrets)

    def _context(self, alpn: tuple[str, ...]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers(CIPHERS)
        context.options |= LEGACY_SERVER_CONNECT
        context.keylog_filename = f"/proc/self/fd/{self._secrets}"
        # Python heads the file with a comment; it is no secret.
        os.ftruncate(self._secrets, 0)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


class OpenSsl:
    """One connection's TLS."""

    def __init__(self, context: ssl.SSLContext, host: str, secrets: int) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=_name(host))
        except ValueError:
            raise EngineFailed("tls:bad-server-name") from None
        self._secrets = secrets
        self._keylog = ""
        self._done = False
        self._alert = -1

    def shake(self) -> bool:
        """Go on with the handshake."""
        try:
            self._tls.do_handshake()
            self._done = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, OSError) as problem:
            raise EngineFailed(reason(problem, self._alert)) from None
        finally:
            self._collect()
        return self._done

    def feed(self, data: bytes) -> None:
        """Records from the wire."""
        if data[:1] == bytes([ALERT]) and len(data) > ALERT_AT:
            self._alert = data[ALERT_AT]
        self._incoming.write(data)

    def drain(self) -> bytes:
        """Return records for the wire."""
        return self._outgoing.read()

    def write(self, data: bytes) -> None:
        """Plaintext to send."""
        try:
            self._tls.write(data)
        except (ssl.SSLError, OSError) as problem:
            raise EngineFailed(reason(problem)) from None

    def read(self) -> tuple[bytes, bool]:
        """Return plaintext that came, and whether the peer closed."""
        parts: list[bytes] = []
        try:
            while part := self._tls.read(65536):
                parts.append(part)
            return b"".join(parts), not parts
        except ssl.SSLWantReadError:
            return b"".join(parts), False
        except (ssl.SSLError, OSError) as problem:
            if parts:
                return b"".join(parts), False
            raise EngineFailed(reason(problem)) from None

    def session(self, error: str = "") -> Session:
        """Return the negotiated session, as far as the handshake got."""
        version = self._tls.version() or "" if self._done else ""
        certificate = self._tls.getpeercert(binary_form=True) or b"" if self._done else b""
        alpn = self._tls.selected_alpn_protocol() or ""
        return Session(version, alpn, certificate, error, self._keylog)

    def _collect(self) -> None:
        size = os.fstat(self._secrets).st_size
        if size:
            self._keylog += os.pread(self._secrets, size, 0).decode("ascii")
            os.ftruncate(self._secrets, 0)


def reason(problem: OSError, alert: int = -1) -> str:
    """Return an OpenSSL error as a short named reason; `alert`: the number of one that came in clear."""
    name = getattr(problem, "reason", None) or "unknown"
    if name == "unknown" and alert in NAMELESS_ALERTS:
        return f"tls:alert-{NAMELESS_ALERTS[alert]}"
    if name in PLAIN_REASONS:
        return PLAIN_REASONS[name]
    for prefix in ("SSLV3_ALERT_", "TLSV1_ALERT_", "TLSV13_ALERT_", "TLSV1_"):
        if name.startswith(prefix):
            return "tls:alert-" + name.removeprefix(prefix).lower().replace("_", "-")
    return "tls:error-" + name.lower().replace("_", "-")


def _name(host: str) -> str | None:
    """Return the name for SNI: none for an address (RFC 6066 section 3)."""
    try:
        ip_address(host)
    except ValueError:
        return host
    return None
