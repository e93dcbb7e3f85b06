# SPDX-License-Identifier: MIT
"""Listeners of this host that select clients (`--listen`): a local port, or one local address with a port.

Written as on a command line: `443`, `192.0.2.1:443`, `[2001:db8::1]:443`; several in one text with commas between. A
port alone is that port of every address, of IPv4 and IPv6. Drivers compare the local end of a connection as the
server's socket has it, after any address translation on this host.

Rules for this file: equal choices are equal texts; a text that is no listener raises `BadInput`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from configtron.model.errors import BadInput

PORT_MOST = 65535
PORT_DIGITS = len(str(PORT_MOST))
# As many as the BPF program's table holds (tune/drivers/bpf/clients.h).
LISTENERS_MOST = 256
# The next step that a driver without this selector names.
BY_EBPF_ALONE = "leave --listen out, or use the driver ebpf"


class ListenAddress(NamedTuple):
    """A local port, and the local address; "" is every address of this host."""

    port: int
    address: str = ""

    @property
    def text(self) -> str:
        """Return the listener as an operator types it."""
        if not self.address:
            return str(self.port)
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def listeners_text(words: Iterable[str]) -> str:
    """Return listeners in the form of `Place`: each once, sorted, commas between; "" for none. Errors: `BadInput`."""
    found = sorted({_listener(word.strip()) for given in words for word in given.split(",")})
    if len(found) > LISTENERS_MOST:
        raise BadInput(f"--listen: {len(found)} listeners; at most {LISTENERS_MOST} are possible")
    return ",".join(listener.text for listener in found)


def listeners_of(text: str) -> tuple[ListenAddress, ...]:
    """Return the listeners that a place names. Errors: `BadInput`."""
    return tuple(_listener(word) for word in text.split(",")) if text else ()


def _listener(word: str) -> ListenAddress:
    address, _, port = word.rpartition(":")
    if not port.isascii() or not port.isdecimal() or len(port) > PORT_DIGITS or not 1 <= int(port) <= PORT_MOST:
        raise BadInput(f"--listen {word!r}: no port from 1 to {PORT_MOST}; write e.g. 443 or 192.0.2.1:443")
    if not address:
        if word.startswith(":"):
            raise BadInput(f"--listen {word!r}: write the port alone: {port}")
        return ListenAddress(int(port))
    bare = address.removeprefix("[").removesuffix("]")
    if (":" in bare) != (address == f"[{bare}]"):
        raise BadInput(f"--listen {word!r}: write IPv6 addresses, and only those, in brackets: [2001:db8::1]:{port}")
    try:
        parsed = ip_address(bare)
    except ValueError as error:
        raise BadInput(f"--listen {word!r}: {error}; write e.g. 443 or 192.0.2.1:443") from error
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id:
            raise BadInput(f"--listen {word!r}: an address with a zone cannot be matched; write the port alone: {port}")
        parsed = parsed.ipv4_mapped or parsed
    if parsed.is_unspecified:
        raise BadInput(f"--listen {word!r}: for every address write the port alone: {port}")
    return ListenAddress(int(port), str(parsed))
