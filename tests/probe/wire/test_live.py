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
from configtron.probe.wire.pcap import read_evidence
from tests.support.namespaces import own_namespace, sweep
from tests.support.pumped import PORTS, begin, finish, in_namespace, pump_at, pumped, stored
from tests.support.recorded_messages import play_messages
from tests.support.servers import raised
from tests.support.waiting import until

pytestmark = pytest.mark.root


class Site(NamedTuple):
    """nginx, and where it is looked at from."""

    vantage: Vantage
    target: Target
    tls: Target
    netns: str
    device: str

    def knows_us(self) -> bool:
        return self.vantage.source_address in in_namespace(self.netns, "ss", "-tnH")

    def windows(self, count: int, **params: int) -> list[Recording]:
        return pumped(self.vantage, [(f"{number:03}", self.target, "icw", params) for number in range(count)])


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
        recordings = site.windows(5, mss=mss, wscale=7)
    finally:
        ip("route", "del", f"{source}/32", "dev", site.device, netns=site.netns)
    assert [(icw_of(r.trace, mss), r.trace.tainted) for r in recordings] == [(icw, ())] * 5
    if mss > 64 and icw > 4:
        sizes = {f.gso_size for r in recordings for f in r.frames if f.gso_size}
        assert sizes == {mss}, "this path merges segments; else it proves nothing"


def test_icw_over_ipv6(site: Site) -> None:
    theirs = next(a for a, d in addresses(site.netns).items() if a.startswith("fd00:") and d == site.device)
    (recording,) = pumped(site.vantage, [("six", Target("nginx.test", theirs, 81), "icw", {})])
    first, second = recording.trace.packets[:2]
    assert site.vantage.source_address6 and (first.version, first.segment.flags) == (6, SYN)
    assert (second.version, second.segment.flags) == (6, RST | ACK), "nginx listens on IPv4 only: refused, over IPv6"


def test_the_kernel_keeps_quiet_and_we_say_farewell(site: Site) -> None:
    (recording,) = site.windows(1)
    assert not any(p.segment.flags & RST for _, p in recording.trace.heard())
    assert recording.trace.packets[-1].segment.flags == RST
    sockets = subprocess.run(["ss", "-tnH"], capture_output=True, text=True, check=True).stdout
    assert site.vantage.source_address not in sockets
    assert not site.knows_us(), "the server must have accepted our RST"


def test_live_traces_are_what_the_file_gives_back(site: Site, tmp_path: Path) -> None:
    recordings = pumped(site.vantage, [
        *((probe, site.target, probe, {}) for probe in ("icw", "rwin", "signature")),
        *((way, site.target, "http_version", {"way": way}) for way in ("clear", "h2c")),
        ("tls", site.tls, "http_version", {}), ("h2", site.tls, "h2_settings", {}),
    ])  # fmt: skip
    path = stored(tmp_path / "host.pcapng", recordings)
    assert list(read_evidence(path)) == [r.trace for r in recordings]
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
    command = ["tshark", "-r", str(path), "-Y", "http2.settings.id", *fields]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split("\t")[0] for line in shown} == {"wire", "plaintext"}, "decrypted by the secrets, and in clear"
    assert len({line.split("\t")[1] for line in shown}) == 1


def test_hundreds_at_once(site: Site) -> None:
    count = 300
    with pump_at(site.vantage) as pump:
        for number in range(count):
            begin(pump, site.vantage, f"{number:03}", site.target, "icw", mss=64)
        assert pump.active > count // 2
        recordings = finish(pump, count)
    assert [(r.trace.ending, icw_of(r.trace, 64)) for r in recordings] == [("done", 10)] * count
    assert len({r.frames[0].data[20:22] for r in recordings}) == count, "a source port each"


def test_lost_frames_taint_the_traces_in_flight(site: Site) -> None:
    with pump_at(site.vantage) as pump:
        # The least that a socket can be given: a few frames.
        next(iter(pump._posts[0].stations.values()))._ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for number in range(20):
            begin(pump, site.vantage, f"{number}", site.target, "icw", mss=64)
            time.sleep(0.001)
        assert [r.trace.tainted for r in finish(pump, 20)] == [("drops",)] * 20


def test_closing_ends_open_flows_at_the_server(site: Site) -> None:
    pump = pump_at(site.vantage)
    begin(pump, site.vantage, "i", site.target, "icw")
    pump.poll(0.05)
    assert pump.active == 1
    pump.close()
    until(lambda: not site.knows_us())


def kernels_address(site: Site) -> Vantage:
    """A vantage at the address that the namespace's kernel owns."""
    own = next(a for a, d in addresses(site.vantage.netns).items() if d == "eth0" and "." in a)
    return replace(site.vantage, source_address=own, source_address6="")


def tables(netns: str) -> str:
    return in_namespace(netns, "nft", "list", "tables")


def test_an_owned_address_gets_a_table_and_loses_it(site: Site) -> None:
    vantage = kernels_address(site)
    with pump_at(vantage) as pump:
        assert tables(vantage.netns).count("configtron_") == 1
        begin(pump, vantage, "i", site.target, "icw", mss=536)
        (recording,) = finish(pump, 1)
    assert icw_of(recording.trace, 536) == 10, "a kernel's RST would have ended the flight"
    assert "configtron_" not in tables(vantage.netns)
    sockets = in_namespace(site.netns, "ss", "-tnH")
    assert vantage.source_address not in sockets, "our own RST must pass the table"


def test_a_dead_processes_table_is_swept(site: Site) -> None:
    netns = site.vantage.netns
    for name in ("configtron_1_1_0", "configtron_999999999_5_0", "others"):
        in_namespace(netns, "nft", "add", "table", "inet", name)
    isolation = Isolation(kernels_address(site), PORTS)
    try:
        assert sweep_tables(netns) == []
        assert "others" in tables(netns) and "configtron_1_1_0" not in tables(netns)
        assert "999999999" not in tables(netns) and tables(netns).count("configtron_") == 1
    finally:
        isolation.close()
        in_namespace(netns, "nft", "delete", "table", "inet", "others")


def test_ports_of_the_kernel_are_refused(site: Site) -> None:
    with pytest.raises(BadInput, match="overlap the kernel's own"):
        Isolation(kernels_address(site), range(40000, 41000))


def test_a_forwarding_namespace_is_refused(site: Site) -> None:
    forward = "net.ipv4.conf.eth0.forwarding"
    in_namespace(site.vantage.netns, "sysctl", "-qw", f"{forward}=1")
    try:
        with pytest.raises(Missing, match="forwards packets"):
            Isolation(site.vantage, PORTS)
    finally:
        in_namespace(site.vantage.netns, "sysctl", "-qw", f"{forward}=0")


@pytest.mark.parametrize("unknown", [{"netns": "nowhere"}, {"interface": "eth7"}])
def test_an_unknown_namespace_or_interface_is_reported(site: Site, unknown: dict[str, str]) -> None:
    with pytest.raises((BadInput, Missing), match=next(iter(unknown.values()))):
        pump_at(replace(site.vantage, **unknown))


def test_an_own_namespace_sees_this_host_and_leaves_nothing() -> None:
    before = (namespaces(), sorted(addresses("")))
    with own_namespace() as (vantage, host):
        (recording,) = pumped(vantage, [("i", Target("host", host, 9), "icw", {})])
        assert recording.trace.packets[1].segment.flags == RST | ACK
    assert (namespaces(), sorted(addresses(""))) == before


def test_a_dead_processes_namespace_is_swept() -> None:
    # A pid that no process can have, and that of a process that started at another time; other runs sweep as well.
    left = {f"configtron-{999_000_000 + os.getpid()}-7-x0", f"configtron-1-{os.getpid()}-x0"}
    for name in left:
        ip("netns", "add", name)
    sweep()
    assert not left & {path.name for path in Path("/run/netns").iterdir()}
