# SPDX-License-Identifier: MIT
"""The laboratory's name server: each region's clients get that region's addresses.

Usage: names.py ZONES.json, {"views": {own address: {name: [address, ...]}}}. The address that was asked decides the
view. Answers A and AAAA for a site and for www.SITE; other types are empty, other names do not exist.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

TTL_S = 60
PORT = 53
# <asm-generic/socket.h>; root may pass the system's limit
SO_RCVBUFFORCE = 33
# Holds the queries of every site at once.
RECEIVE_BUFFER_BYTES = 4 << 20


def answer(wire: bytes, view: dict[str, list[str]]) -> bytes | None:
    """Return the answer to one query, or None when it is not one."""
    try:
        query = dns.message.from_wire(wire)
    except dns.exception.DNSException:
        return None
    if not query.question:
        return None
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA | dns.flags.RA
    question = query.question[0]
    name = question.name.to_text(omit_final_dot=True).lower()
    addresses = view.get(name) or view.get(name.removeprefix("www."))
    if addresses is None:
        response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire()
    for kind, address in ((dns.rdatatype.AAAA if ":" in a else dns.rdatatype.A, a) for a in addresses):
        if question.rdtype == kind:
            response.answer.append(dns.rrset.from_text(question.name, TTL_S, "IN", kind.name, address))
    return response.to_wire()


def main() -> None:
    views = json.loads(Path(sys.argv[1]).read_text())["views"]
    listeners: dict[str, socket.socket] = {}
    selector = selectors.DefaultSelector()
    for own in views:
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        listener.bind((own, PORT))
        listeners[own] = listener
        selector.register(listener, selectors.EVENT_READ, own)
    while True:
        for ready, _ in selector.select():
            asked = listeners[ready.data]
            wire, client = asked.recvfrom(4096)
            if (reply := answer(wire, views[ready.data])) is not None:
                asked.sendto(reply, client)


if __name__ == "__main__":
    main()
