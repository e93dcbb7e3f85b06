# SPDX-License-Identifier: MIT
"""The pump against real kernels and a real nginx, in namespaces: counts, isolation, evidence, cleanliness."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from configtron.model.errors import BadInput, Missing
from configtron.model.nouns import ACK, RST, SYN, Target, Trace, Vantage
from configtron.probe import PROBES
from configtron.probe.play import Recorded, play
from configtron.probe.script import Script, StreamScript
from configtron.probe.wire.flow import Recording
from configtron.probe.wire.isolation import Isolation, sweep_tables
from configtron.probe.wire.namespaces import addresses, ip, owner
from configtron.probe.wire.pcap import EvidenceWriter, read_evidence
from configtron.probe.wire.pump import Pump
from tests.support.namespaces import own_namespace, sweep
from tests.support.recorded_messages import play_messages
from tests.support.servers import PAGE_BYTES, raised
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.root

PORTS = range(10000, 30000)


class Site(NamedTuple):
    """nginx, and where it is looked at from."""

    vantage: Vantage
    target: Target
    tls: Target
    netns: str
    device: str


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with raised(["nginx"]) as standing:
        target = standing.clear[0]
        netns = next(n for n in namespaces() if target.address in addresses(n))
        yield Site(standing.vantage, target, standing.tls[0], netns, addresses(netns)[target.address])


def namespaces() -> list[str]:
    """This process's own: another's may come and go meanwhile."""
    folder, mine = Path("/run/netns"), f"configtron-{owner()}-"
    return sorted(p.name for p in folder.iterdir() if p.name.startswith(mine)) if folder.is_dir() else []


def finish(pump: Pump, count: int) -> list[Recording]:
    done: list[Recording] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(done) < count and time.monotonic() < deadline:
        done += pump.poll(1.0)
    assert len(done) == count
    return sorted(done, key=lambda r: r.trace.id)


def icw_of(trace: Trace, mss: int) -> int:
    """Whole segments before the first one came again."""
    seen: list[int] = []
    for _, packet in trace.heard():
        if packet.segment.length:
            if packet.segment.seq in seen:
                break
            seen.append(packet.segment.seq)
            assert packet.segment.length == mss, "offloaded frames must be taken apart"
    return len(seen)


@pytest.mark.parametrize("mss", [64, 536, 1460])
@pytest.mark.parametrize("icw", [4, 10, 24])
def test_icw_is_counted_with_offloads_on(site: Site, icw: int, mss: int) -> None:
    source = site.vantage.source_address
    ip("route", "replace", f"{source}/32", "dev", site.device, "initcwnd", str(icw), netns=site.netns)
    try:
        with Pump([site.vantage], ports=PORTS, seed=1, agent="test") as pump:
            for number in range(5):
                pump.begin("host", f"{number}", site.target, "icw", (("mss", mss), ("wscale", 7)))
            recordings = finish(pump, 5)
        assert [icw_of(r.trace, mss) for r in recordings] == [icw] * 5
        assert [r.trace.tainted for r in recordings] == [()] * 5
        if mss > 64 and icw > 4:
            merged = [f for r in recordings for f in r.frames if f.gso_size]
            assert merged and all(f.gso_size == mss for f in merged), (
                "this path merges segments; else it proves nothing"
            )
    finally:
        ip("route", "del", f"{source}/32", "dev", site.device, netns=site.netns)


def test_icw_over_ipv6(site: Site) -> None:
    ours = site.vantage.source_address6
    theirs = next(a for a, d in addresses(site.netns).items() if a.startswith("fd00:") and d == site.device)
    with Pump([site.vantage], ports=PORTS, seed=1, agent="test") as pump:
        pump.begin("host", "six", Target("nginx.test", theirs, 81), "icw", ())
        (recording,) = finish(pump, 1)
    first, second = recording.trace.packets[:2]
    assert ours and (first.version, first.segment.flags) == (6, SYN)
    assert (second.version, second.segment.flags) == (6, RST | ACK), "nginx listens on IPv4 only: refused, over IPv6"


def test_the_kernel_keeps_quiet_and_we_say_farewell(site: Site) -> None:
    with Pump([site.vantage], ports=PORTS, seed=1, agent="test") as pump:
        pump.begin("host", "i", site.target, "icw", ())
        (recording,) = finish(pump, 1)
    assert not any(p.segment.flags & RST for _, p in recording.trace.heard())
    assert recording.trace.packets[-1].segment.flags == RST
    sockets = subprocess.run(["ss", "-tnH"], capture_output=True, text=True, check=True).stdout
    assert site.vantage.source_address not in sockets
    inside = subprocess.run(
        ["ip", "netns", "exec", site.netns, "ss", "-tnH"], capture_output=True, text=True, check=True
    )
    assert site.vantage.source_address not in inside.stdout, "the server must have accepted our RST"


def test_live_traces_are_what_the_file_gives_back(site: Site, tmp_path: Path) -> None:
    with Pump([site.vantage], ports=PORTS, seed=1, agent="test") as pump:
        for probe, target in (("icw", site.target), ("rwin", site.target), ("signature", site.target)):
            pump.begin("host", probe, target, probe, ())
        for way in ("clear", "h2c"):
            pump.begin("host", way, site.target, "http_version", (("way", way),))
        pump.begin("host", "tls", site.tls, "http_version", ())
        pump.begin("host", "h2", site.tls, "h2_settings", ())
        recordings = finish(pump, 7)
    writer = EvidenceWriter(tmp_path / "host.pcapng")
    for recording in recordings:
        writer.append(recording)
    writer.close()
    assert list(read_evidence(tmp_path / "host.pcapng")) == [r.trace for r in recordings]
    for trace in (r.trace for r in recordings):
        stated = PROBES[trace.probe].script(trace.target, "test", **dict(trace.params))
        if PROBES[trace.probe].stream:
            assert play_messages(cast(StreamScript, stated), trace) == trace.ending
        else:
            assert play(cast(Script, stated), Recorded(trace.packets)) == (trace.packets, trace.ending)
    sessions = {r.trace.id: r.trace.session for r in recordings}
    assert sessions["icw"] is None
    for name in ("h2", "tls"):
        session = sessions[name]
        assert session is not None and (session.alpn, session.error) == ("h2", "")
    fields = ("-T", "fields", "-e", "frame.interface_name", "-e", "http2.settings.id")
    command = ["tshark", "-r", str(tmp_path / "host.pcapng"), "-Y", "http2.settings.id", *fields]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split("\t")[0] for line in shown} == {"wire", "plaintext"}, "decrypted by the secrets, and in clear"
    assert len({line.split("\t")[1] for line in shown}) == 1


def test_hundreds_at_once(site: Site) -> None:
    count = 300
    with Pump([site.vantage], ports=PORTS, seed=1, agent="test") as pump:
        for number in range(count):
            pump.begin("host", f"{number:03}", site.target, "icw", (("mss", 64),))
        assert pump.active > count // 2
        recordings = finish(pump, count)
    assert [r.trace.ending for r in recordings] == ["done"] * count
    assert [icw_of(r.trace, 64) for r in recordings].count(10) == count
    assert len({r.frames[0].data[20:22] for r in recordings}) == count, "a source port each"


def test_lost_frames_taint_the_traces_in_flight(site: Site) -> None:
    with Pump([site.vantage], ports=PORTS, seed=1, agent="test") as pump:
        # The least that a socket can be given: a few frames.
        next(iter(pump._posts[0].stations.values()))._ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for number in range(20):
            pump.begin("host", f"{number}", site.target, "icw", (("mss", 64),))
            time.sleep(0.001)
        recordings = finish(pump, 20)
    assert [r.trace.tainted for r in recordings].count(("drops",)) == 20


def test_closing_ends_open_flows_at_the_server(site: Site) -> None:
    pump = Pump([site.vantage], ports=PORTS, seed=1, agent="test")
    pump.begin("host", "i", site.target, "icw", ())
    pump.poll(0.05)
    assert pump.active == 1
    pump.close()
    words = ["ip", "netns", "exec", site.netns, "ss", "-tnH"]
    until(lambda: site.vantage.source_address not in subprocess.run(words, capture_output=True, text=True).stdout)


def kernels_address(site: Site) -> Vantage:
    """A vantage at the address that the namespace's kernel owns."""
    own = next(a for a, d in addresses(site.vantage.netns).items() if d == "eth0" and "." in a)
    return replace(site.vantage, source_address=own, source_address6="")


def tables(netns: str) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", netns, "nft", "list", "tables"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_an_owned_address_gets_a_table_and_loses_it(site: Site) -> None:
    vantage = kernels_address(site)
    with Pump([vantage], ports=PORTS, seed=1, agent="test") as pump:
        assert tables(vantage.netns).count("configtron_") == 1
        pump.begin("host", "i", site.target, "icw", (("mss", 536),))
        (recording,) = finish(pump, 1)
    assert icw_of(recording.trace, 536) == 10, "a kernel's RST would have ended the flight"
    assert "configtron_" not in tables(vantage.netns)
    inside = subprocess.run(
        ["ip", "netns", "exec", site.netns, "ss", "-tnH"], capture_output=True, text=True, check=True
    )
    assert vantage.source_address not in inside.stdout, "our own RST must pass the table"


def test_a_dead_processes_table_is_swept(site: Site) -> None:
    netns = site.vantage.netns
    for name in ("configtron_1_1_0", "configtron_999999999_5_0", "others"):
        subprocess.run(["ip", "netns", "exec", netns, "nft", "add", "table", "inet", name], check=True)
    isolation = Isolation(kernels_address(site), PORTS)
    try:
        assert sweep_tables(netns) == []
        assert "others" in tables(netns) and "configtron_1_1_0" not in tables(netns)
        assert "999999999" not in tables(netns) and tables(netns).count("configtron_") == 1
    finally:
        isolation.close()
        subprocess.run(["ip", "netns", "exec", netns, "nft", "delete", "table", "inet", "others"], check=True)


def test_ports_of_the_kernel_are_refused(site: Site) -> None:
    with pytest.raises(BadInput, match="overlap the kernel's own"):
        Isolation(kernels_address(site), range(40000, 41000))


def test_a_forwarding_namespace_is_refused(site: Site) -> None:
    command = ["ip", "netns", "exec", site.vantage.netns, "sysctl", "-qw"]
    subprocess.run([*command, "net.ipv4.conf.eth0.forwarding=1"], check=True)
    try:
        with pytest.raises(Missing, match="forwards packets"):
            Isolation(site.vantage, PORTS)
    finally:
        subprocess.run([*command, "net.ipv4.conf.eth0.forwarding=0"], check=True)


def test_an_unknown_namespace_or_interface_is_reported(site: Site) -> None:
    with pytest.raises((BadInput, Missing), match="nowhere"):
        Pump([replace(site.vantage, netns="nowhere")], ports=PORTS, seed=1, agent="test")
    with pytest.raises(BadInput, match="eth7"):
        Pump([replace(site.vantage, interface="eth7")], ports=PORTS, seed=1, agent="test")


def test_an_own_namespace_sees_this_host_and_leaves_nothing() -> None:
    before = (namespaces(), sorted(addresses("")))
    with own_namespace() as (vantage, host):
        with Pump([vantage], ports=PORTS, seed=1, agent="test") as pump:
            pump.begin("here", "i", Target("host", host, 9), "icw", ())
            (recording,) = finish(pump, 1)
        assert recording.trace.packets[1].segment.flags == RST | ACK
    assert (namespaces(), sorted(addresses(""))) == before


def test_a_dead_processes_namespace_is_swept() -> None:
    # A pid that no process can have, and that of a process that started at another time; other runs sweep as well.
    left = {f"configtron-{999_000_000 + os.getpid()}-7-x0", f"configtron-1-{os.getpid()}-x0"}
    for name in left:
        ip("netns", "add", name)
    sweep()
    assert not left & {path.name for path in Path("/run/netns").iterdir()}


def test_the_page_is_long_enough() -> None:
    assert PAGE_BYTES >= 200_000
