# SPDX-License-Identifier: MIT
"""The ebpf driver on this host's kernel and on the lab's: what real sockets say, and what is left afterwards.

On the host all happens in namespaces of its own, with a BPF file system of its own (support/isolation.py), which end
with their first process, however that ends, and in a control group of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.qemu import QemuDebian
from configtron.lab.uml.user_mode_linux import Backend, UmlVirtual
from tests.support import ROOT
from tests.support.tune.aside import aside, compiled, usable
from tests.support.tune.in_guest import in_guest
from tests.tune.test_ebpf import EVERYTHING

HERE = ROOT / "tests" / "support" / "tune"
ALL, SLOW, UNTUNED, KEPT, KEPT_RENO, CUT, UNPACED, RATED, WIDE6, BBR = (
    "127.1.1.1", "127.1.2.9", "127.200.0.1", "fd00:1::7", "fd00:2::7", "127.3.0.1", "127.4.1.1", "127.5.0.1", "fd99::1",
    "127.6.0.1",
)  # fmt: skip
WIDE_WINDOW = {"initcwnd": 60, "tcp_congestion_control": "cubic"}
JOB: dict[str, Any] = {
    "profiles": {
        "all": {knob: value for knob, value in EVERYTHING.items() if knob != "max_pacing_rate"},
        "slow": {"initcwnd": 4, "tcp_congestion_control": "cubic"},
        "keep": {**WIDE_WINDOW, "tcp_slow_start_after_idle": 0},
        "keep reno": {**WIDE_WINDOW, "tcp_congestion_control": "reno", "tcp_slow_start_after_idle": 0},
        "cut": {**WIDE_WINDOW, "tcp_slow_start_after_idle": 1},
        "unpaced": {"tcp_congestion_control": "bbr", "pacing": "pfifo_fast", "initcwnd": 33},
        "bbr": {"tcp_congestion_control": "bbr", "initcwnd": 40},
        "rated": {"tcp_congestion_control": "cubic", "max_pacing_rate": 123_456},
    },
    "prefixes": {
        "127.1.0.0/16": "all", "127.1.2.0/24": "slow", "fd00:1::/32": "keep", "fd00:2::/32": "keep reno",
        "127.3.0.0/16": "cut", "127.4.0.0/16": "unpaced", "127.5.0.0/16": "rated", "127.6.0.0/16": "bbr",
        "::/0": "slow", "10.9.7.0/24": "all",
    },
    "clients": [ALL, SLOW, UNTUNED, KEPT, KEPT_RENO, CUT, UNPACED, RATED, WIDE6, BBR],
    # longer than the time-out that falls idle
    "idle_s": 1.0,
    "ways": {"plain": SLOW, "mapped": SLOW, "six": WIDE6, "cookie": SLOW, "fast open": SLOW},
    "half_open": ["10.9.7.1", "10.9.8.1"],
    "after": {"profiles": {"all": {"tcp_congestion_control": "bbr", "notsent_lowat": 4096}},
              "prefixes": {"127.1.0.0/16": "all"}},
}  # fmt: skip


# What the server announces on a link of 1500 bytes; initrwnd counts in it.
MSS = 1460


def written(job: dict[str, Any], folder: Path) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def guest(backend: Backend, job: dict[str, Any], folder: Path) -> Any:
    """The same program in a guest, which sees the host's files: the objects that were shipped."""
    return in_guest(backend, folder, "sockets.py", str(written(job, folder)))


def without(client: str, profile: str) -> dict[str, Any]:
    """The job, less one client and its profile."""
    return JOB | {
        "profiles": {name: settings for name, settings in JOB["profiles"].items() if name != profile},
        "prefixes": {prefix: name for prefix, name in JOB["prefixes"].items() if name != profile},
        "clients": [address for address in JOB["clients"] if address != client],
    }


@pytest.fixture(scope="module", params=["host", pytest.param("debian", marks=(pytest.mark.lab, pytest.mark.alone))])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """On the host's kernel, and on Debian 12's, emulated: it lends no BBR to BPF."""
    usable()
    folder = tmp_path_factory.mktemp("ebpf")
    witness = {"witness": str(compiled(HERE / "witness.bpf.c", folder))}
    if request.param == "host":
        return aside("sockets.py", str(written(JOB | witness, folder)))
    return guest(QemuDebian(), without(UNPACED, "unpaced") | witness, folder)


@pytest.mark.proof
@pytest.mark.root
def test_what_was_asked_is_in_force(seen: Any) -> None:
    assert seen["as_asked"] and seen["read"] and seen["nothing left"] and seen["refusals"] == {}


@pytest.mark.root
def test_each_option_is_on_the_socket(seen: Any) -> None:
    ours, other = seen["begun"][ALL], seen["begun"][UNTUNED]
    given = ("notsent_lowat", "window_clamp", "priority", "mark")
    expected = {knob: EVERYTHING[knob] for knob in given} | {"cwnd": 40, "nodelay": 1, "cc": "ct_reno_keep"}
    assert {reading: ours[reading] for reading in expected} == expected
    untouched = {"cwnd": 10, "notsent_lowat": 0, "priority": 0, "mark": 0, "nodelay": 0}
    assert {reading: other[reading] for reading in untouched} == untouched
    assert other["window_clamp"] != ours["window_clamp"] and other["cc"] != ours["cc"]


@pytest.mark.root
@pytest.mark.parametrize("reading", ["min_rto", "delack_max", "cwnd_clamp"])
def test_what_no_getsockopt_shows(seen: Any, reading: str) -> None:
    value = EVERYTHING[reading]
    if isinstance(value, float):  # seconds
        value = round(value * seen["ticks_per_s"])
    reading = reading.replace("min_rto", "rto_min")
    assert seen["witnessed"][ALL][reading] == value != seen["witnessed"][SLOW][reading]


@pytest.mark.root
def test_before_the_handshake(seen: Any) -> None:
    """The SYN-ACK's window and its timer, where the client never answers."""
    ours, other = seen["half_open"]["10.9.7.1"], seen["half_open"]["10.9.8.1"]
    assert ours["window"] == EVERYTHING["initrwnd"] * MSS != other["window"]
    # what is left of the timer when `ss` looks; each repeat doubles it
    assert 0 < ours["left_ms"] <= 200 << ours["repeats"]
    assert (ours["repeats"], -ours["left_ms"]) > (other["repeats"], -other["left_ms"])


@pytest.mark.root
def test_a_window_is_kept_over_a_pause(seen: Any) -> None:
    # a slow machine pauses before the first data too
    assert seen["begun"][CUT]["cwnd"] == WIDE_WINDOW["initcwnd"] > seen["idled"][CUT]["cwnd"]
    kept = {seen[when][one]["cwnd"] for when in ("begun", "busy", "idled") for one in (KEPT, KEPT_RENO)}
    assert kept == {WIDE_WINDOW["initcwnd"]}


@pytest.mark.root
def test_pacing(seen: Any) -> None:
    paced = {client: seen["witnessed"][client]["paced"] for client in (ALL, RATED, BBR, SLOW)}
    assert paced == {ALL: 1, RATED: 1, BBR: 1, SLOW: 0} and seen["begun"][RATED]["max_pacing_rate"] == 123_456
    if UNPACED in seen["begun"]:  # Linux 6.10
        assert seen["witnessed"][UNPACED]["paced"] == 0
        assert seen["begun"][UNPACED]["cc"] == "ct_bbr_unpaced" and seen["begun"][UNPACED]["cwnd"] == 33
        # its own code runs: the window grows with the data that was delivered
        assert seen["idled"][UNPACED]["cwnd"] > 33


@pytest.mark.root
def test_bbr_begins_from_the_window_that_was_set(seen: Any) -> None:
    """Its first rate is 2/ln(2) windows per round trip of the handshake; of ten segments it would be a quarter, 0.72.

    On loopback a later round trip, as it is read here, is shorter: by a factor of 2.4 on one machine.
    """
    begun = seen["begun"][BBR]
    windows = begun["pacing_rate"] * begun["rtt_us"] / 1e6 / (begun["mss"] * EVERYTHING["initcwnd"])
    assert 0.8 < windows < 3.0


@pytest.mark.root
def test_the_longest_prefix_wins_however_a_connection_comes_about(seen: Any) -> None:
    """Families stand apart: ::/0 is not for IPv4, though IPv4 stands inside IPv6 in the table."""
    assert [seen["begun"][client]["cwnd"] for client in (SLOW, WIDE6, UNTUNED)] == [4, 4, 10]
    for way in JOB["ways"]:
        assert (seen["ways"][way]["cwnd"], seen["ways"][way]["cc"]) == (4, "cubic"), way
        assert seen["ways"][way]["with data in its SYN"] == (way == "fast open")
    assert seen["cookies"] == 1


@pytest.mark.root
def test_live_connections_are_moved_when_asked(seen: Any) -> None:
    """Of all that are served the new rules hold two."""
    assert seen["unmoved"][ALL] == seen["idled"][ALL] and seen["move"] == [len(seen["begun"]), 2]
    for client in (ALL, SLOW):
        assert (seen["moved"][client]["cc"], seen["moved"][client]["notsent_lowat"]) == ("bbr", 4096)
        assert seen["moved"][client]["cwnd"] == seen["unmoved"][client]["cwnd"]
    assert seen["moved"][UNTUNED] == seen["unmoved"][UNTUNED]


@pytest.mark.lab
def test_in_the_labs_kernel(tmp_path: Path) -> None:
    """User-Mode Linux 6.12, in virtual time: no kernel types, no JIT; the options are all there, and vegas."""
    everything = JOB["profiles"]["all"] | {"tcp_congestion_control": "vegas", "tcp_slow_start_after_idle": 1}
    job = {"profiles": {"all": everything, "slow": JOB["profiles"]["slow"]}, "clients": [ALL, SLOW, UNTUNED]}
    job["prefixes"] = {prefix: name for prefix, name in JOB["prefixes"].items() if name in ("all", "slow")}
    job |= {"half_open": JOB["half_open"], "ways": JOB["ways"], "everywhere": True}
    seen = guest(UmlVirtual(), job, tmp_path)
    assert seen["as_asked"] and seen["read"] and seen["nothing left"] and seen["refusals"] == {}
    begun = seen["begun"]
    assert (begun[ALL]["cc"], begun[ALL]["cwnd"], begun[ALL]["notsent_lowat"]) == ("vegas", 40, 16384)
    assert (begun[SLOW]["cc"], begun[SLOW]["cwnd"], begun[UNTUNED]["cwnd"]) == ("cubic", 4, 10)
    assert {way: state["cwnd"] for way, state in seen["ways"].items()} == dict.fromkeys(JOB["ways"], 4)
    ours, other = seen["half_open"].values()
    assert ours["window"] == EVERYTHING["initrwnd"] * MSS
    # virtual time stood still in between
    assert (ours["left_ms"], other["left_ms"]) == (200, 1000)
