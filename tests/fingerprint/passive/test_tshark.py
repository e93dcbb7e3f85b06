# SPDX-License-Identifier: MIT
"""Equal to tshark, connection by connection, on real programs over paths that lose, swap and double; root only."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.fingerprint.passive.retransmissions import CAUSES
from tests.support import ROOT
from tests.support.impaired_path import rig
from tests.support.read_capture import reports, whole
from tests.support.recorded_programs import HOSTS, TROUBLES, Recorded, recorded
from tests.support.tshark import settings
from tests.support.tshark_oracle import RULES, compare

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: apt-get install tshark"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="needs /dev/net/tun"),
]


@pytest.fixture(scope="module", params=["all", "merged, loss"])
def captures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Recordings of the same conversations at both ends, and the clients' TLS secrets."""
    folder = tmp_path_factory.mktemp("captures")
    with recorded(folder, TROUBLES[request.param]) as found:
        yield found


@pytest.mark.parametrize("end", ["client", "server"])
def test_every_connection_is_tsharks(captures: Recorded, end: str) -> None:
    """Counts, windows, repeats, holes, round trips: no difference but those that docs/fingerprint.md explains."""
    found = compare(captures.ends[end])
    assert found.unexplained == ()
    assert found.connections >= 8 * len(HOSTS) and sum(found.kinds.values()) > 10
    assert found.equal > 0


def test_every_rule_is_listed() -> None:
    page = (ROOT / "docs" / "fingerprint.md").read_text()
    assert [rule for rule in RULES if f"| `{rule}` |" not in page] == []


def test_causes_are_the_kernels(captures: Recorded) -> None:
    """The server's kernel counts what it repeats and why; where frames are merged, one frame may be several."""
    batch, _ = whole(captures.ends["server"])
    columns, kernel = batch.summary.columns, captures.kernel
    mine = {cause: int(columns[f"server_{cause}"].sum()) for cause in CAUSES}
    repeated = sum(mine.values()) + int((columns["synacks"] - 1).clip(0).sum())
    # The counters are read after the capture has ended: a few may come later.
    assert repeated <= kernel["RetransSegs"] + int(columns["copies"].sum())
    if not any(one.merged for one in reports(captures.ends["server"])[0]):
        assert repeated >= 0.85 * kernel["RetransSegs"] - 2
        assert abs(mine["fast"] + mine["other"] - kernel["TCPFastRetrans"]) <= 0.1 * kernel["TCPFastRetrans"] + 2
    assert mine["tlp"] <= kernel["TCPLossProbes"] + 1


@pytest.mark.parametrize("end", ["client", "server"])
def test_linux_is_found_as_it_is_set(captures: Recorded, end: str) -> None:
    """The server's initial window is 10: exact or a bound that holds, at 2 % loss, wherever the capture stood.

    Python's server writes its head by itself, so its flights are no rows of full segments: bounds, many of them tight.
    """
    found, _ = reports(captures.ends[end])
    windows = [(o.grade, o.value) for one in found for o in one.observations if o.knob == "icw"]
    assert [w for w in windows if w[0] == "C" and w[1] != 10] == []
    assert [w for w in windows if w[0] == "L" and not 1 <= int(w[1]) <= 10] == []  # type: ignore[arg-type]
    assert sum(window == ("L", 10) or window[0] == "C" for window in windows) >= 2
    placed = [one for one in found if one.place]
    assert {one.place for one in placed} == {end}
    seen = {str(o.value) for one in found for o in one.observations if o.knob == "signature" and o.value is not None}
    assert seen and all(s.startswith(("4:64:0:1460:65160", "6:64:0:1440:64260")) for s in seen), seen


def test_http2_in_clear_and_opened_by_a_key(captures: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """The server's SETTINGS are the same, read in clear and, from TLS, through tshark; by a carried key too."""
    from configtron.cli.outermost import run

    if not captures.keys.exists():
        pytest.skip("needs nghttpd and a curl that writes its keys")
    import json

    def header_details(*words: str) -> dict[int, list[dict[str, object]]]:
        assert run(["-q", "fingerprint", "pcap", "-f", "jsonl", *words]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {port: [one for one in lines if one["server"]["port"] == port] for port in (81, 443)}

    plain = header_details(str(captures.ends["client"]))
    clear = [one["observations"] for one in plain[81] if "h2_settings" in one["observations"]]  # type: ignore[operator]
    assert clear and all(one["h2_settings"]["value"] and one["h2c"]["value"] == "accepted" for one in clear)  # type: ignore[index]
    assert all("h2_settings" not in one["observations"] for one in plain[443])  # type: ignore[operator]
    keyed = header_details(str(captures.ends["client"]), "--keylog", str(captures.keys))
    carried = captures.ends["client"].with_suffix(".pcapng")
    inject = ("editcap", "--inject-secrets", f"tls,{captures.keys}", str(captures.ends["client"]), str(carried))
    subprocess.run(inject, check=True, capture_output=True)
    theirs = settings(captures.ends["client"], captures.keys, 81)
    for opened in (keyed, header_details(str(carried))):
        spoken = [one for port in (81, 443) for one in opened[port] if "h2_settings" in one["observations"]]  # type: ignore[operator]
        mine = {_client(one): one["observations"]["h2_settings"]["value"] for one in spoken}  # type: ignore[index]
        # Ours may be fewer: a SETTINGS that was lost and came after a hundred other segments is not looked for.
        assert all(theirs[client] == value for client, value in mine.items())
        assert len(mine) >= 0.7 * len(theirs) >= 2 * len(HOSTS)
        versions = {one["tls"]["version"] for one in spoken if "tls" in one}  # type: ignore[index]
        assert versions == {"TLSv1.2", "TLSv1.3"}
        secure = [one for one in opened[443] if "h2_settings" in one["observations"]]  # type: ignore[operator]
        assert all(one["tls"]["alpn"] == "h2" for one in secure)  # type: ignore[index]
        assert all(one["observations"]["http_version"]["value"] == "h2" for one in secure)  # type: ignore[index]


def _client(one: dict[str, object]) -> tuple[str, int]:
    end = one["client"]
    assert isinstance(end, dict)
    return str(end["address"]), int(end["port"])


def test_the_rig_is_gone_afterwards() -> None:
    with rig() as stands:
        assert set(stands.names.values()) <= _namespaces()
    assert not set(stands.names.values()) & _namespaces()


def _namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines()}


def test_a_fin_that_a_reset_overtook_is_no_repeat(tmp_path: Path) -> None:
    packets = pytest.importorskip("scapy.all")
    client, server = ({"src": "192.0.2.1", "dst": "192.0.2.2"}, {"src": "192.0.2.2", "dst": "192.0.2.1"})
    rows = [
        (client, "S", 100, 0, b""), (server, "SA", 500, 101, b""), (client, "A", 101, 501, b""),
        (client, "A", 101, 501, b"GET"), (server, "A", 501, 104, b"page"), (server, "RA", 506, 104, b""),
        (server, "FA", 505, 104, b""),
    ]  # fmt: skip
    frames = []
    for number, (end, flags, sequence, acknowledged, payload) in enumerate(rows):
        ports = {"sport": 40000, "dport": 80} if end is client else {"sport": 80, "dport": 40000}
        head = packets.TCP(flags=flags, seq=sequence, ack=acknowledged, **ports)
        frame = (
            packets.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
            / packets.IP(id=number + 1, **end)
            / head
            / payload
        )
        frame.time = 1 + number * 0.01
        frames.append(frame)
    packets.wrpcap(str(tmp_path / "reset.pcap"), frames)
    found = compare(tmp_path / "reset.pcap")
    assert [(one.name, one.theirs, one.ours, one.rule) for one in found.differences] == [
        ("again", [7], [], "reset-overtook")
    ]
