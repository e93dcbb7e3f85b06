# SPDX-License-Identifier: MIT
"""The same server by both IP versions: the same verdicts, from the same scripts."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.lab.internet.certificates import issue
from configtron.linux.netns import inside
from configtron.model.nouns import Observation, Target
from configtron.probe.client_hello import VERSIONS
from configtron.probe.wire.namespaces import addresses
from configtron.probe.wire.pcap import read_evidence
from tests.support.namespaces import own_namespace, throwaway
from tests.support.pumped import pumped, stored
from tests.support.waiting import until

pytestmark = pytest.mark.root

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
