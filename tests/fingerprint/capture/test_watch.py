# SPDX-License-Identifier: MIT
"""The ring and inet_diag against a real kernel: real connections in namespaces of our own."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from configtron.fingerprint.capture import diag
from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.ring import Ring, RingSize
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.features import AddressFacts, Sighting, of_socket, plain
from configtron.fingerprint.passive.columns import Frames
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.local import sighted
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Missing
from configtron.probe.wire.filter import DLT_ETHERNET, DLT_RAW, compile_filter
from configtron.probe.wire.namespaces import ip
from tests.support import capture_bytes as write
from tests.support.namespaces import throwaway

pytestmark = pytest.mark.root

SERVER, CLIENT = "198.18.240.1", "198.18.240.2"
SIZE = 400_000


@contextmanager
def joined(kind: str = "veth") -> Iterator[tuple[str, str]]:
    """Two namespaces joined by a link; the server's and the client's."""
    with throwaway("a") as server, throwaway("b") as client:
        ip("link", "add", "ct0", "netns", server, "type", kind, "peer", "name", "ct0", "netns", client)
        for netns, address in ((server, SERVER), (client, CLIENT)):
            ip("addr", "add", f"{address}/24", "dev", "ct0", netns=netns)
            ip("addr", "add", f"fd00:c0f1::{address[-1]}/64", "dev", "ct0", "nodad", netns=netns)
            ip("link", "set", "ct0", "up", netns=netns)
        yield server, client


def conversation(server: str, client: str, *, address: str = SERVER, size: int = SIZE) -> tuple[int, int]:
    """One download; (port, client's port)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(server):
        listener = socket.create_server((address, 0), family=family)

    def serve() -> None:
        with listener, listener.accept()[0] as peer:
            peer.recv(100)
            peer.sendall(bytes(size))

    thread = threading.Thread(target=serve)
    thread.start()
    port = listener.getsockname()[1]
    with inside(client), socket.create_connection((address, port)) as peer:
        mine = peer.getsockname()[1]
        peer.sendall(b"GET")
        while peer.recv(1 << 16):
            pass
    thread.join()
    return port, mine


def program(link: int) -> bytes:
    return compile_filter("tcp", link=DLT_ETHERNET if link == 1 else DLT_RAW, snap=128)


def heard(ring: Ring) -> list[tuple[int, bytes, int]]:
    """(at, bytes, length) of every frame, as copies."""
    found = []
    while frames := list(map(copied, ring.hear(0.5))):
        for part in frames:
            found += part
    return found


def copied(frames: Frames) -> list[tuple[int, bytes, int]]:
    rows = zip(frames.at.tolist(), frames.start.tolist(), frames.kept.tolist(), frames.length.tolist(), strict=True)
    return [(at, frames.data[start : start + kept].tobytes(), length) for at, start, kept, length in rows]


def reports_of(parts: list[Frames], gathering: Gathering) -> list[ConnectionReport]:
    found: list[ConnectionReport] = []
    for frames in parts:
        for batch in gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)):
            found += report_connections(batch, ["x"])
        for batch in gathering.lapse(int(frames.at[-1])):
            found += report_connections(batch, ["x"])
    for batch in gathering.finish():
        found += report_connections(batch, ["x"])
    return found


def contexts(found: list[ConnectionReport]) -> list[Sighting]:
    return [sighted(one, {SERVER, "fd00:c0f1::1"}, lambda _: AddressFacts()) for one in found]


def test_live_says_what_the_file_of_the_same_frames_says(tmp_path: Path) -> None:
    """Frames as the ring gives them, and the same written into a file: every number and verdict is equal."""
    with joined() as (server, client):
        with inside(server):
            ring = Ring("ct0", program)
        with ring:
            for n in range(5):
                conversation(server, client, address=SERVER if n % 2 else "fd00:c0f1::1")
            # A second Frames of each block: the ring's own copy is overwritten by the next.
            parts: list[Frames] = []
            while blocks := [block._replace(data=block.data.copy()) for block in ring.hear(0.5)]:
                parts += blocks
            assert ring.drops() == 0
    live = reports_of(parts, Gathering(100_000, trips=True))
    path = tmp_path / "same.pcap"
    path.write_bytes(write_snapped([frame for block in parts for frame in copied(block)]))
    gathering = Gathering(trips=True)
    with opened(str(path)) as source:
        filed = reports_of(list(read(source, gathering.counts, buffer=1 << 24)), gathering)
    assert len(live) == len(filed) == 5
    assert [one._replace(file=0) for one in live] == filed
    assert contexts(live) == contexts(filed)
    for one in contexts(live):
        assert one.way == "out" and one.bytes_out == SIZE and one.ended == "fin" and one.context.loss == 0
        assert one.context.rtt_ms and one.context.bandwidth_kbps and one.bounded
        assert one.remote in (CLIENT, "fd00:c0f1::2")


def write_snapped(frames: list[tuple[int, bytes, int]]) -> bytes:
    whole = write.pcap([(at, data) for at, data, _ in frames], nano=True, link=1)
    # The writer knows whole frames; the length on the wire is put in afterwards.
    out, at = bytearray(whole), 24
    for _, data, length in frames:
        out[at + 12 : at + 16] = length.to_bytes(4, "little")
        at += 16 + len(data)
    return bytes(out)


def test_the_kernel_cuts_filters_and_numbers(tmp_path: Path) -> None:
    with joined() as (server, client):
        with inside(server):
            ring = Ring("ct0", lambda _: compile_filter("tcp and dst port 9", snap=100))
            other = Ring("ct0", program)
        with ring, other:
            ip("netns", "exec", client, "true")
            conversation(server, client)
            assert heard(ring) == []
            frames = heard(other)
    assert frames and all(len(data) == min(length, 128) for _, data, length in frames)
    assert max(length for _, _, length in frames) > 1500, "the link offloads, and the wire's length is reported"
    assert [at for at, _, _ in frames] == sorted(at for at, _, _ in frames)


def test_more_than_the_ring_holds_is_counted() -> None:
    """Memory stays what it is; what found no room is in the counter, exactly."""
    with joined() as (server, client):
        with inside(server):
            small = Ring("ct0", program, RingSize(block_bytes=1 << 12, blocks=2, frame_bytes=1 << 10))
            large = Ring("ct0", program)
        with small, large:
            conversation(server, client, size=4_000_000)
            every = heard(large)
            got = heard(small)
            assert small.drops() > 0 and large.drops() == 0
            assert small.drops() == small.drops(), "the counter does not forget"
            assert len(got) + small.drops() == len(every)


def test_an_interface_without_ethernet(tmp_path: Path) -> None:
    """A tun device has no link header: frames are IP packets."""
    with throwaway("t") as netns:
        ip("tuntap", "add", "dev", "ct1", "mode", "tun", netns=netns)
        ip("addr", "add", "198.18.241.1/24", "dev", "ct1", netns=netns)
        with inside(netns):
            import fcntl
            import struct

            with open("/dev/net/tun", "r+b", buffering=0) as tun:
                fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH14x", b"ct1", 0x1001))
                ip("link", "set", "ct1", "up", netns=netns)
                with Ring("ct1", program) as ring:
                    packet = write.conversation()[0][1]
                    tun.write(packet)
                    (one,) = heard(ring)
    assert one[1] == packet[:128] and ring.link == 101


def test_wrong_interfaces_are_one_line() -> None:
    with joined() as (server, _), inside(server):
        ip("link", "set", "ct0", "down", netns=server)
        with pytest.raises(BadInput, match="down.*ip link set ct0 up"):
            Ring("ct0", program)
        with pytest.raises(BadInput, match="absent: no such interface here; there are: lo, ct0"):
            Ring("absent", program)


def test_an_interface_that_goes_away() -> None:
    with joined() as (server, _):
        with inside(server), Ring("ct0", program) as ring:
            ip("link", "set", "ct0", "down", netns=server)
            assert list(ring.hear(0.2)) == [], "it may come back"
            ip("link", "set", "ct0", "up", netns=server)
            ip("link", "del", "ct0", netns=server)
            with pytest.raises(Missing, match="ct0: the interface is gone"):
                for _ in range(5):
                    list(ring.hear(0.2))


def test_every_ending_is_reported_once() -> None:
    with joined() as (server, client):
        with inside(server), diag.Endings() as endings:
            ends = [conversation(server, client, address=a) for a in (SERVER, "fd00:c0f1::1", SERVER)]
            found = []
            for _ in range(20):
                found += endings.heard(0.1)
            assert endings.lost == 0
    assert sorted((one.local_port, one.remote_port) for one in found) == sorted(ends)
    for one in found:
        seen = of_socket(one, 0, AddressFacts())
        assert seen.ended == "closed" and seen.bytes_out == SIZE and seen.way == "out" and seen.context.rtt_ms


def test_a_socket_says_what_ss_says() -> None:
    """Twenty connections that stand, asked about twice at rest: numbers and rates as `ss -ti` prints them."""
    with joined() as (server, client):
        with inside(server):
            listener = socket.create_server((SERVER, 0))
        peers = []
        for n in range(20):
            with inside(client):
                peers.append(socket.create_connection(listener.getsockname()[:2]))
            peers.append(listener.accept()[0])
            peers[-1].sendall(bytes(1000 * n * n))
            got = 0
            while got < 1000 * n * n:
                got += len(peers[-2].recv(1 << 16))
        with inside(server):
            found = {one.remote_port: one for one in diag.established()}
        shown = subprocess.check_output(["ip", "netns", "exec", server, "ss", "-tinHO"], text=True).splitlines()
        for peer in (*peers, listener):
            peer.close()
    assert len(found) == len(shown) == 20
    for line in shown:
        info = found[int(line.split()[4].rsplit(":", 1)[1])].info
        rtt = re.search(r"\brtt:([\d.]+)/([\d.]+)", line)
        assert rtt and float(rtt[1]) == info.rtt_us / 1e3 and float(rtt[2]) == info.rttvar_us / 1e3
        for name, value in (("minrtt", (info.min_rtt_us or 0) / 1e3), ("bytes_sent", info.bytes_sent),
                            ("data_segs_out", info.data_segs_out)):  # fmt: skip
            reports_of = re.search(rf"\b{name}:([\d.]+)", line)
            assert float(reports_of[1] if reports_of else 0) == value, name
        assert ("app_limited" in line) == info.app_limited
        rate = re.search(r"delivery_rate (\d+)bps", line)
        assert rate is None or int(rate[1]) == info.delivery_rate * 8


def test_addresses() -> None:
    with joined() as (server, _), inside(server):
        found = {plain(address) for address in diag.addresses()}
    assert {SERVER, "fd00:c0f1::1", "127.0.0.1", "::1"} <= found and CLIENT not in found
    assert np.all([len(address) in (4, 16) for address in map(bytes, diag.addresses())])
