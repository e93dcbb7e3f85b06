# SPDX-License-Identifier: MIT
"""Provoke the choice of a TLS version: a ClientHello that offers none above `most`. Read in
`fingerprint/tls_versions.py`.

The handshake is not finished: the ServerHello names the version, and a RST follows it.
"""

from __future__ import annotations

from configtron.fingerprint.tls_versions import answer_of
from configtron.model.nouns import Message, Session, Target
from configtron.probe.client_hello import client_hello
from configtron.probe.script import OPEN_UNTIL_S, Open, Read, StreamScript, Write

# A ServerHello needs one round trip and a signature; a lost copy comes again within 3 s, the longest timer in use.
PATIENCE_S = 6.0
# No ServerHello is longer than one record (RFC 8446 5.1); some alerts may go before it.
ANSWER_LIMIT_BYTES = 32768


def tls_versions(target: Target, agent: str, *, most: str = "1.3") -> StreamScript:
    """Send one ClientHello and wait for the server's choice.

    most    the highest version on offer: "1.3", "1.2", "1.1" or "1.0"; all below it are offered too
    """
    session = yield Open(tls=False)
    assert isinstance(session, Session)
    if session.error:
        return session.error
    yield Write(client_hello(target.host, most))
    got = b""
    while len(got) < ANSWER_LIMIT_BYTES and not answer_of(got).final:
        message = yield Read(OPEN_UNTIL_S + PATIENCE_S)
        if message is None:
            return "no-data"
        assert isinstance(message, Message)
        if not message.data:
            return "done" if got else "closed"
        got += message.data
    return "done"
