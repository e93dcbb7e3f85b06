# SPDX-License-Identifier: MIT
"""A user's packet template, written as Scapy expressions, becomes the parameter of the probe `craft`.

One packet a line, as Scapy writes it: `TCP(flags="S", options=[("MSS", 1460)])`, `IP(tos=3)/TCP(flags="PA", seq=1,
ack=1)/b"GET / HTTP/1.0\\r\\n\\r\\n"`. `wait SECONDS` sets how long to listen after each packet from there on; `#`
begins a comment. Sequence and acknowledgement numbers are relative: 0 is the SYN, 1 the first byte.

Scapy builds the bytes and nothing more: addresses, ports, checksums, rate and blocklist stay the prober's, so a
template reaches only hosts that the run may reach. A line is parsed and never evaluated as Python: calls of TCP, IP and
IPv6 with literals as fields, bytes or text, `bytes * number`, and `/` between them. So a template of any origin runs no
code.
"""

from __future__ import annotations

import ast
from typing import Any

from configtron.model.errors import BadInput
from configtron.probe.craft import segment_of

# The fields that a template may set; the prober sets the rest.
TCP_FIELDS = {"flags", "seq", "ack", "window", "options"}
IP_FIELDS = {"tos", "tc"}
# More packets, or a longer silence, than a probe of one host should need.
MOST_PACKETS, MOST_WAIT_S = 64, 60.0
# No payload is longer than an IPv4 packet.
MOST_BYTES = 65535


def read_template(text: str, name: str) -> str:
    """Return the `packets` of `probe/craft.py`. Errors: `BadInput` with the file's name and the line's number;
    `ModuleNotFoundError` where Scapy is absent.
    """
    scapy = _scapy()
    words = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        where = f"{name}:{number}"
        words.append(_wait(line, where) if line.split()[0] == "wait" else _packet(line, where, scapy))
    count = sum(not word.startswith("wait:") for word in words)
    if not 1 <= count <= MOST_PACKETS:
        raise BadInput(f"{name}: {count} packets; a template has 1 to {MOST_PACKETS}")
    return " ".join(words)


def _scapy() -> dict[str, Any]:
    import logging

    # Scapy warns of routes and interfaces that a template does not use.
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
    from scapy.layers.inet import IP, TCP
    from scapy.layers.inet6 import IPv6

    return {"IP": IP, "IPv6": IPv6, "TCP": TCP}


def _wait(line: str, where: str) -> str:
    try:
        seconds = float(line.split(maxsplit=1)[1])
    except (IndexError, ValueError):
        seconds = -1.0
    if not 0 < seconds <= MOST_WAIT_S:
        raise BadInput(f"{where}: wait takes seconds, above 0 and at most {MOST_WAIT_S:g}")
    return f"wait:{seconds:g}"


def _packet(line: str, where: str, scapy: dict[str, Any]) -> str:
    try:
        packet = _built(ast.parse(line, mode="eval").body, scapy)
    except Exception as error:  # Scapy raises any error of a field's value, the parser any of its depth
        raise BadInput(f"{where}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    tcp, ip = scapy["TCP"], (scapy["IP"], scapy["IPv6"])
    if not hasattr(packet, "haslayer") or not packet.haslayer(tcp):
        raise BadInput(f"{where}: no TCP packet; write it as TCP(flags='S')")
    tos = 0
    for layer in (packet.getlayer(n) for n in range(len(packet.layers()))):
        allowed = IP_FIELDS if isinstance(layer, ip) else TCP_FIELDS if isinstance(layer, tcp) else None
        given = {name for name, value in layer.fields.items() if value != layer.default_fields.get(name)}
        if allowed is not None and (other := given - allowed):
            raise BadInput(f"{where}: {', '.join(sorted(other))}: the prober sets this; a template sets "
                           f"{', '.join(sorted(allowed))}")  # fmt: skip
        tos = layer.fields.get("tos", layer.fields.get("tc", tos)) if isinstance(layer, ip) else tos
    try:
        header = bytes(packet[tcp])
        segment_of(header)
    except Exception as error:  # Scapy raises whatever a field's value meets
        raise BadInput(f"{where}: cannot be built: {' '.join(str(error).split())}") from error
    return f"{tos:x}:{header.hex()}"


def _built(node: ast.expr, scapy: dict[str, Any]) -> Any:
    """Return the packet, or its payload, that an expression describes. Errors: `SyntaxError` for any other expression,
    `NameError` for a call of anything but TCP, IP and IPv6.
    """
    match node:
        case ast.BinOp(left, ast.Div(), right):
            return _built(left, scapy) / _built(right, scapy)
        case ast.BinOp(ast.Constant(bytes() | str() as part), ast.Mult(), ast.Constant(int(times))):
            if len(part) * times > MOST_BYTES:
                raise ValueError(f"a payload has at most {MOST_BYTES} bytes")
            return part * times
        case ast.Constant(bytes() | str() as payload):
            return payload
        case ast.Call(ast.Name(name)) if name not in scapy:
            raise NameError(f"{name}: a template calls {', '.join(scapy)}")
        case ast.Call(ast.Name(name), [], fields):
            # A list or tuple elsewhere would make several packets of one.
            return scapy[name](**{_field(one): _literal(one.value, one.arg == "options") for one in fields})
    raise SyntaxError(f"{ast.unparse(node)[:60]}: write TCP(field=literal), IP(...), IPv6(...), a payload, and /")


def _field(one: ast.keyword) -> str:
    if one.arg is None:
        raise SyntaxError("**: write each field by its name")
    return one.arg


def _literal(node: ast.expr, nested: bool) -> Any:
    if not nested and not isinstance(node, ast.Constant):
        raise SyntaxError(f"{ast.unparse(node)[:60]}: a field is one number or text")
    return ast.literal_eval(node)
