# SPDX-License-Identifier: MIT
"""The ebpf driver on this host's kernel and on the lab's: what real sockets say, and what is left afterwards.

On the host all happens in namespaces of its own, with a BPF file system of its own (support/isolation.py), which end
with their first process, however that ends, and in a control group of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.qemu import QemuDebian
from configtron.lab.uml.user_mode_linux import Backend, GuestJob, UmlVirtual
from configtron.model.nouns import Value
from configtron.tune.drivers.bpf import objects
from tests.support import ROOT
from tests.support.tune.aside import aside, compiled, usable
from tests.support.waiting import GUEST_S
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


def guest(backend: Backend, job: dict[str, Any], programs: tuple[str, ...], folder: Path) -> Any:
    """The same program in a guest, which sees the host's files, and has no compiler's output but ours."""
    if reason := backend.available() or objects.missing():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for program in programs:
            objects.compiled(program)
    running = backend.boot(
        GuestJob(
            (sys.executable, str(HERE / "sockets.py"), str(written(job, folder))),
            folder / "output",
            seed=1,
            cpu=min(os.sched_getaffinity(0)),
            environment=(("PYTHONPATH", str(ROOT)), ("XDG_CACHE_HOME", str(folder / "cache"))),
            limit_s=GUEST_S,
        )
    )
    assert running.wait(GUEST_S) == 0, running.console.read_text()[-3000:]
    return json.loads(running.console.read_text())


def without(client: str, profile: str) -> dict[str, Any]:
    """The job, less one client and its profile."""
    less = {name: JOB[name] for name in JOB}
    less["profiles"] = {name: settings for name, settings in JOB["profiles"].items() if name != profile}
    less["prefixes"] = {prefix: name for prefix, name in JOB["prefixes"].items() if name != profile}
    less["clients"] = [address for address in JOB["clients"] if address != client]
    return less


@pytest.fixture(scope="module", params=["host", pytest.param("debian", marks=(pytest.mark.lab, pytest.mark.alone))])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """On the host's kernel, and on Debian 12's, emulated: it lends no BBR to BPF."""
    usable()
    folder = tmp_path_factory.mktemp("ebpf")
    witness = {"witness": str(compiled(HERE / "witness.bpf.c", folder))}
    if request.param == "host":
        return aside("sockets.py", str(written(JOB | witness, folder)))
    return guest(QemuDebian(), without(UNPACED, "unpaced") | witness, ("sockops", "write", "keep", "move"), folder)


@pytest.mark.proof
@pytest.mark.root
def test_what_was_asked_is_in_force(seen: Any) -> None:
    assert seen["as_asked"] and seen["read"]
    assert seen["refusals"] == {}


@pytest.mark.root
@pytest.mark.parametrize(
    ("reading", "value", "untouched"),
    [
        ("cwnd", EVERYTHING["initcwnd"], 10),
        ("notsent_lowat", EVERYTHING["notsent_lowat"], 0),
        ("window_clamp", EVERYTHING["window_clamp"], None),
        ("priority", EVERYTHING["priority"], 0),
        ("mark", EVERYTHING["mark"], 0),
        ("nodelay", 1, 0),
        ("cc", "ct_reno_keep", None),
    ],
)
def test_each_option_is_on_the_socket(seen: Any, reading: str, value: Value, untouched: Value | None) -> None:
    assert seen["begun"][ALL][reading] == value
    assert seen["begun"][UNTUNED][reading] != value
    if untouched is not None:
        assert seen["begun"][UNTUNED][reading] == untouched


@pytest.mark.root
@pytest.mark.parametrize(
    ("reading", "value"),
    [
        ("paced", 1),
        ("rto_min", EVERYTHING["min_rto"]),
        ("delack_max", EVERYTHING["delack_max"]),
        ("cwnd_clamp", EVERYTHING["cwnd_clamp"]),
    ],
)
def test_what_no_getsockopt_shows(seen: Any, reading: str, value: float) -> None:
    if isinstance(value, float):  # seconds
        value = round(value * seen["ticks_per_s"])
    assert seen["witnessed"][ALL][reading] == value
    assert seen["witnessed"][SLOW][reading] != value


@pytest.mark.root
def test_before_the_handshake(seen: Any) -> None:
    """The SYN-ACK's window and its timer, where the client never answers."""
    ours, other = seen["half_open"]["10.9.7.1"], seen["half_open"]["10.9.8.1"]
    assert ours["window"] == EVERYTHING["initrwnd"] * MSS != other["window"]
    # what is left of the timer when `ss` looks; each repeat doubles it
    assert 0 < ours["left_ms"] <= 200 << ours["repeats"]
    assert (ours["repeats"], -ours["left_ms"]) > (other["repeats"], -other["left_ms"])


@pytest.mark.root
@pytest.mark.parametrize("kept", [KEPT, KEPT_RENO])
def test_a_window_is_kept_over_a_pause(seen: Any, kept: str) -> None:
    # a slow machine pauses before the first data too
    assert seen["begun"][CUT]["cwnd"] == WIDE_WINDOW["initcwnd"]
    assert {seen[when][kept]["cwnd"] for when in ("begun", "busy", "idled")} == {WIDE_WINDOW["initcwnd"]}
    assert seen["idled"][CUT]["cwnd"] < WIDE_WINDOW["initcwnd"]


@pytest.mark.root
def test_pacing_by_rate(seen: Any) -> None:
    assert seen["witnessed"][RATED]["paced"] == 1 and seen["begun"][RATED]["max_pacing_rate"] == 123_456
    assert seen["witnessed"][SLOW]["paced"] == 0 and seen["witnessed"][BBR]["paced"] == 1


@pytest.mark.root
def test_pacing_is_withdrawn_from_bbr(seen: Any) -> None:
    if UNPACED not in seen["begun"]:
        pytest.skip("Linux 6.10")
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
def test_the_longest_prefix_wins_and_families_stand_apart(seen: Any) -> None:
    begun = seen["begun"]
    assert begun[SLOW]["cwnd"] == begun[WIDE6]["cwnd"] == 4
    # ::/0 is not for IPv4, though IPv4 stands inside IPv6 in the table
    assert begun[UNTUNED]["cwnd"] == 10


@pytest.mark.root
@pytest.mark.parametrize("way", JOB["ways"])
def test_however_a_connection_comes_about(seen: Any, way: str) -> None:
    assert (seen["ways"][way]["cwnd"], seen["ways"][way]["cc"]) == (4, "cubic")
    assert seen["ways"][way]["with data in its SYN"] == (way == "fast open")
    assert seen["cookies"] == 1


@pytest.mark.root
def test_live_connections_are_moved_when_asked(seen: Any) -> None:
    assert seen["unmoved"][ALL] == seen["idled"][ALL]
    served, moved = seen["move"]
    # of all that are served the new rules hold two
    assert (served, moved) == (len(seen["begun"]), 2)
    for client in (ALL, SLOW):
        assert (seen["moved"][client]["cc"], seen["moved"][client]["notsent_lowat"]) == ("bbr", 4096)
        assert seen["moved"][client]["cwnd"] == seen["unmoved"][client]["cwnd"]
    assert seen["moved"][UNTUNED] == seen["unmoved"][UNTUNED]


@pytest.mark.root
def test_nothing_is_left(seen: Any) -> None:
    assert seen["nothing left"]


@pytest.mark.lab
def test_in_the_labs_kernel(tmp_path: Path) -> None:
    """User-Mode Linux 6.12, in virtual time: no kernel types, no JIT; the options are all there, and vegas."""
    everything = JOB["profiles"]["all"] | {"tcp_congestion_control": "vegas", "tcp_slow_start_after_idle": 1}
    job = {"profiles": {"all": everything, "slow": JOB["profiles"]["slow"]}, "clients": [ALL, SLOW, UNTUNED]}
    job["prefixes"] = {prefix: name for prefix, name in JOB["prefixes"].items() if name in ("all", "slow")}
    job |= {"half_open": JOB["half_open"], "ways": JOB["ways"], "everywhere": True}
    seen = guest(UmlVirtual(), job, ("sockops", "write"), tmp_path)
    assert seen["as_asked"] and seen["read"] and seen["nothing left"] and seen["refusals"] == {}
    begun = seen["begun"]
    assert (begun[ALL]["cc"], begun[ALL]["cwnd"], begun[ALL]["notsent_lowat"]) == ("vegas", 40, 16384)
    assert (begun[SLOW]["cc"], begun[SLOW]["cwnd"], begun[UNTUNED]["cwnd"]) == ("cubic", 4, 10)
    assert {way: state["cwnd"] for way, state in seen["ways"].items()} == dict.fromkeys(JOB["ways"], 4)
    ours, other = seen["half_open"].values()
    assert ours["window"] == EVERYTHING["initrwnd"] * MSS
    # virtual time stood still in between
    assert (ours["left_ms"], other["left_ms"]) == (200, 1000)
