# SPDX-License-Identifier: MIT
"""The netlink client: bytes that are cut off, answers, refusals with the kernel's own words, one dump."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.linux import rtnetlink
from configtron.linux.netlink import HEADER, SOCK_DIAG, Netlink, NetlinkError, attribute, attributes, messages
from configtron.linux.proc import LISTENING, tcp_lines
from configtron.linux.sock_diag import CONGESTION, INFO, Destroyed, Diag, extensions


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_read(data: bytes, at: int) -> None:
    for kind, _, _, body in messages(data):
        assert kind >= 0 and len(body) <= len(data)
    assert all(len(value) <= len(data) for value in attributes(data, at).values())


@given(st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=40), max_size=5))
def test_attributes_come_back(values: dict[int, bytes]) -> None:
    packed = b"".join(attribute(kind, value) for kind, value in values.items())
    assert attributes(packed) == values and len(packed) % 4 == 0
    assert attributes(packed + b"\x0c\0\1\0abcd") == values, "one that is cut off is none"


def test_a_message_that_is_cut_off_is_none() -> None:
    whole = HEADER.pack(20, 24, 2, 7, 0) + b"abcd"
    assert list(messages(whole + whole[:-1])) == [(24, 2, 7, b"abcd")]


def test_the_kernel_lists_and_answers() -> None:
    with Netlink() as net:
        assert (socket.inet_aton("127.0.0.1"), 254) in list(rtnetlink.addresses(net, 4))
        local = rtnetlink.RTMSG.pack(socket.AF_INET, 32, 0, 0, 0, 0, 0, 0, 0)
        found = net.ask(rtnetlink.GET_ROUTE, local + attribute(rtnetlink.DST, socket.inet_aton("127.0.0.1")))
        assert found is not None and found.kind == rtnetlink.NEW_ROUTE and found.body[7] == 2, "RTN_LOCAL"


def test_a_refusal_has_the_kernels_words() -> None:
    odd = rtnetlink.RTMSG.pack(socket.AF_INET, 8, 0, 0, 0, 0, 0, 0, 0) + attribute(rtnetlink.DST, bytes(4))
    with Netlink() as net, pytest.raises(NetlinkError, match="rtm_dst_len|header") as error:
        net.ask(rtnetlink.GET_ROUTE, odd)
    assert error.value.number == errno.EINVAL


def test_an_unknown_protocol_closes_its_socket() -> None:
    with pytest.raises(OSError):
        Netlink(protocol=31)
    with pytest.raises(OSError):
        Netlink(protocol=SOCK_DIAG, groups=(10_000,))


def test_connections_are_listed_looked_up_and_reported_as_they_end() -> None:
    destroyed, diag = Destroyed(), Diag()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert (LISTENING, port) in {(line.state, line.port) for line in tcp_lines()}
        client = socket.create_connection(("127.0.0.1", port))
        ends = (client.getsockname(), client.getpeername())
        local, remote = ((socket.inet_aton(address), number) for address, number in ends)
        found = diag.look_up(extensions(INFO, CONGESTION), local, remote)
        assert found is not None and (found.local, found.local_port) == local
        assert found.attributes[CONGESTION].rstrip(b"\0").decode() and struct.unpack_from("=B", found.attributes[INFO])
        assert local in {(one.local, one.local_port) for one in diag.connections(extensions(INFO))}
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        # By then a reset socket has lost its address.
        ended = {one.local_port for _ in range(20) for one in destroyed.read(0.1)}
        assert local[1] in ended and diag.look_up(extensions(INFO), local, remote) is None
    diag.close()
    destroyed.close()
