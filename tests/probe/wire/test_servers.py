# SPDX-License-Identifier: MIT
"""Real servers as distributions ship them: verdicts are what their manuals say, and what tshark reads in the file."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.lab.internet.certificates import issue
from configtron.linux.netns import inside
from configtron.model.nouns import Observation, Target, Trace
from configtron.probe.client_hello import VERSIONS
from configtron.probe.wire.namespaces import addresses, owner
from configtron.probe.wire.pcap import read_evidence
from tests.support.namespaces import own_namespace, throwaway
from tests.support.pumped import pumped, stored
from tests.support.servers import SERVERS, raised
from tests.support.waiting import until

# The same server by both IP versions: the same verdicts, from the same scripts.

PORT = 443
CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    *(("tls_versions", {"most": most}) for most in VERSIONS),
    *(("http_version", {"way": way}) for way in ("tls", "https")),
    *((probe, {}) for probe in ("h2_settings", "rwin", "signature")),
)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, dict[str, Observation]]]:
    """By IP version, read from the file alone."""
    folder = tmp_path_factory.mktemp("both")
    pair = issue(1, "Example", ["site.test"])
    (folder / "chain").write_text(pair.chain)
    (folder / "key").write_text(pair.key)
    # -www answers a GET with a page about the connection, and -accept PORT hears both IP versions.
    command = ["openssl", "s_server", "-quiet", "-www", "-accept", str(PORT), "-cert", "chain", "-key", "key"]
    command += ["-alpn", "http/1.1", "-min_protocol", "TLSv1.2"]
    with throwaway("both") as netns, own_namespace(netns, name="host") as (vantage, four):
        six = next(a for a in addresses(netns) if a.startswith("fd00:"))
        argv = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", netns, *command]
        server = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: listens(netns, four), lambda: "openssl s_server does not listen")
            # One at a time: s_server serves no two connections at once.
            calls = [(str(n), Target("site.test", address, PORT), probe, params)
                     for n, (probe, params) in enumerate(CALLS) for address in (four, six)]  # fmt: skip
            path = stored(folder / "host.pcapng", [r for call in calls for r in pumped(vantage, [call])])
        finally:
            server.kill()
            server.wait()
    traces = list(read_evidence(path))
    yield {
        version: merge_all(o for t in traces if (":" in t.target.address) == (version == 6) for o in read(t))
        for version in (4, 6)
    }


def listens(netns: str, address: str) -> bool:
    with inside(netns), socket.socket() as probe:
        return probe.connect_ex((address, PORT)) == 0


def test_tls_and_http_are_the_same(verdicts: dict[int, dict[str, Observation]]) -> None:
    for knob, value in (("tls_versions", ("1.2", "1.3")), ("http_version", "http/1.1"), ("http_tls", "http/1.0")):
        assert [verdicts[v][knob].value for v in (4, 6)] == [value, value], knob
    assert [verdicts[v]["h2_settings"].reason for v in (4, 6)] == ["not-h2", "not-h2"]
    certificates = {verdicts[v]["http_tls"].detail("certificate") for v in (4, 6)}
    assert len(certificates) == 1 and None not in certificates


def test_each_sees_its_own_segments(verdicts: dict[int, dict[str, Observation]]) -> None:
    """Twenty bytes more of IP header are twenty less of MSS, and the window is a multiple of it (RFC 6691)."""
    four, six = (str(verdicts[v]["signature"].value).split(":") for v in (4, 6))
    assert (four[0], six[0]) == ("4", "6") and int(four[3]) - int(six[3]) == 20
    assert verdicts[4].keys() == verdicts[6].keys()


pytestmark = pytest.mark.root

# nghttpd speaks HTTP/2 only, so it has no page for an HTTP/1.1 request.
HTTP1 = tuple(name for name in SERVERS if name != "nghttpd")
# MAX_CONCURRENT_STREAMS that each announces by default.
STREAMS = {"nginx": 128, "apache": 100, "h2o": 100, "caddy": 250, "haproxy": 100, "lighttpd": 8, "nghttpd": 100}
# Who takes HTTP/2 in clear by prior knowledge, on a port that also takes HTTP/1.1.
H2C = {"nginx": False, "apache": True, "h2o": True, "caddy": True, "haproxy": True, "lighttpd": True, "nghttpd": True}
# What each speaks as distributed: Debian's OpenSSL refuses 1.0 and 1.1 at its usual security level; nginx leaves 1.3
# out of its default before 1.23.4.
TLS = dict.fromkeys(SERVERS, ("1.2", "1.3")) | {"nginx": ("1.2",)}

Seen = dict[str, tuple[Trace, dict[str, Observation]]]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with raised() as standing:
        calls: list[tuple[str, Target, str, dict[str, Any]]] = []
        for target in standing.clear:
            for probe, params in (("icw", {"mss": 536}), ("rwin", {}), ("http_version", {"way": "h2c"})):
                calls.append((f"{target.provider}/{probe}", target, probe, params))
        for target in standing.tls:
            calls.append((f"{target.provider}/h2_settings", target, "h2_settings", {}))
            calls += [(f"{target.provider}/tls{most}", target, "tls_versions", {"most": most}) for most in VERSIONS]
        return stored(tmp_path_factory.mktemp("servers") / "host.pcapng", pumped(standing.vantage, calls))


@pytest.fixture(scope="module")
def seen(evidence: Path) -> Iterator[Seen]:
    """All verdicts, read from the file alone."""
    yield {t.id: (t, {o.knob: o for o in read(t)}) for t in read_evidence(evidence)}


@pytest.mark.parametrize("name", HTTP1)
def test_the_window_is_the_kernels(seen: Seen, name: str) -> None:
    icw = seen[f"{name}/icw"][1]["icw"]
    assert (icw.value, icw.unit) == (10, "segments"), icw


@pytest.mark.parametrize("name", SERVERS)
def test_settings_are_announced_as_shipped(seen: Seen, name: str) -> None:
    trace, verdicts = seen[f"{name}/h2_settings"]
    assert trace.session is not None and trace.session.alpn == "h2"
    assert verdicts["h2_max_concurrent_streams"].value == STREAMS[name]


@pytest.mark.parametrize("name", SERVERS)
def test_clear_http2_is_distinguished_from_a_refusal(seen: Seen, name: str) -> None:
    trace, _ = seen[f"{name}/http_version"]
    first = next(m.data for m in trace.messages if m.way == "in")
    assert (first[3] == 4) is H2C[name], first[:20]


def test_tshark_reads_the_same_settings(seen: Seen, evidence: Path) -> None:
    ours = sorted(str(v["h2_settings"].value) for t, v in seen.values() if t.probe == "h2_settings")
    names = {1: "header_table_size", 2: "enable_push", 3: "max_concurrent_streams", 4: "initial_window_size"}
    names |= {5: "max_frame_size", 6: "max_header_list_size", 8: "extended_connect"}
    # lighttpd's SETTINGS_NO_RFC7540_PRIORITIES is newer than this tshark
    names |= {9: "unknown"}
    wanted = [word for name in names.values() for word in ("-e", f"http2.settings.{name}")]
    only = 'http2.settings.id && tcp.srcport == 443 && frame.interface_name == "wire"'
    command = ["tshark", "-r", str(evidence), "-Y", only, "-T", "fields", "-e", "http2.settings.id", *wanted]
    theirs = []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        ids, *columns = line.split("\t")
        values = dict(zip(names, columns, strict=True))
        theirs.append(str(tuple((int(i), int(values[int(i)])) for i in ids.split(","))))
    assert sorted(theirs) == ours and len(ours) == len(SERVERS)


@pytest.mark.parametrize("name", SERVERS)
def test_tls_versions_are_those_the_program_speaks(seen: Seen, name: str) -> None:
    readings = [o for most in VERSIONS for o in seen[f"{name}/tls{most}"][1].values()]
    found = merge_all(readings)["tls_versions"]
    assert (found.value, found.grade) == (TLS[name], "C"), [o.text for o in readings]


def test_tshark_reads_the_same_tls_versions(seen: Seen, evidence: Path) -> None:
    ours = sorted(
        (most, f"{VERSIONS[str(version)]:#06x}")
        for name in SERVERS
        for most in VERSIONS
        for version in tuple(seen[f"{name}/tls{most}"][1]["tls_versions"].value or ())  # type: ignore[arg-type]
    )
    fields = ("tls.handshake.extensions.supported_version", "tls.handshake.version", "tcp.stream")
    command = ["tshark", "-r", str(evidence), "-T", "fields", *(word for f in fields for word in ("-e", f))]
    hellos = {}
    for row in _rows([*command, "-Y", 'tls.handshake.type == 1 && frame.interface_name == "wire"']):
        hellos[row[2]] = max([*filter(None, row[0].split(",")), row[1]])
    made = {t.id for t, _ in seen.values() if t.probe == "tls_versions"}
    assert len(hellos) == len(made) + len(SERVERS)
    # By connection: a server that wants another group says hello twice (RFC 8446 4.1.4).
    chosen = {}
    for row in _rows([*command, "-Y", 'tls.handshake.type == 2 && frame.interface_name == "wire"']):
        chosen[row[2]] = (hellos[row[2]], row[0] or row[1])
    theirs = list(chosen.values())
    # One connection a server was OpenSSL's own, for h2_settings.
    others = [("0x0304", f"{VERSIONS[TLS[name][-1]]:#06x}") for name in SERVERS]
    assert sorted(theirs) == sorted([(f"{VERSIONS[most]:#06x}", version) for most, version in ours] + others)


def _rows(command: list[str]) -> list[list[str]]:
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in text.splitlines()]


def test_nothing_is_left_behind(seen: Seen) -> None:
    assert list(Path("/run/netns").glob(f"configtron-{owner()}-servers*")) == []
