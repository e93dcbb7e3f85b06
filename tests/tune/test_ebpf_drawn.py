# SPDX-License-Identifier: MIT
"""What the driver ebpf gives real connections: the profile that their client draws, by listener and by round trip."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.qemu import QemuDebian
from configtron.lab.uml.user_mode_linux import Backend, UmlVirtual
from configtron.model.close_records import ABORTED, CLOSED, ENDINGS, RESET
from configtron.model.draw import Plan
from configtron.model.protocols import PlanReader
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support.draws import KEY
from tests.support.tune import sockets
from tests.support.tune.aside import aside
from tests.support.tune.banded import BANDS, CLIENTS, LOST_S, RTTS_MS, THOUGHT_S, WINDOWS
from tests.support.tune.drawn import ANSWER, REQUEST, TURNS
from tests.support.tune.in_guest import in_guest

CONNECTIONS = 3000


def test_the_driver_draws() -> None:
    assert isinstance(EbpfDriver(Place()), PlanReader)
    assert "1234567890" not in repr(Plan(KEY, 1, 0)), "a key is never printed"


def check_draws(seen: Any, connections: int) -> None:
    """Every connection of `many`: IPv4, mapped and IPv6 in four epochs, a tenth of the units held back in two."""
    assert set(seen["wrong"].values()) == {0}, seen["wrong"]
    assert seen["records"] == [connections, connections] and seen["lost"] == 0
    assert min(seen["kinds"].values()) > connections / 10 and len(seen["kinds"]) == 3
    assert seen["units"] > connections / 3 and seen["units with two arms"] == 0
    assert seen["held"] > 0 and seen["held and not"] == 0
    assert seen["start before end"] == connections and seen["nothing left"]


@pytest.mark.root
def test_connections_have_the_arm_that_user_space_computes() -> None:
    seen = aside("drawn.py", "many", str(CONNECTIONS))
    check_draws(seen, CONNECTIONS)
    assert seen["without rtt"] == 0


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.parametrize("backend", [UmlVirtual, QemuDebian])
def test_kernels_6_12_and_6_1_draw_the_same(backend: type[Backend], tmp_path: Path) -> None:
    """The lab's has no type information; Debian's is emulated."""
    check_draws(in_guest(backend(), tmp_path, "drawn.py", "many", "300"), 300)


@pytest.mark.root
@pytest.mark.parametrize("way", ["ends", "untyped"])
def test_how_connections_ended_and_what_a_close_record_counts(way: str) -> None:
    """With the kernel's type information, and by the program for kernels without it."""
    typed, seen = way == "ends", aside("drawn.py", way)
    endings = {way: [record["ending"] for record in records] for way, records in seen.items() if way != "nothing left"}
    assert endings == {
        "server first": [CLOSED], "client first": [CLOSED], "client resets": [RESET if typed else None],
        "server resets": [ABORTED if typed else None], "data": [CLOSED],
    }  # fmt: skip
    assert {ending for found in endings.values() for ending in found} - {None} <= set(ENDINGS)
    (record,) = seen["data"]
    # the kernel counts a FIN as a byte
    assert record["bytes_acked"] == TURNS * ANSWER + 1
    assert record["bytes_received"] in (TURNS * REQUEST, TURNS * REQUEST + 1)
    # on a busy host a tail loss probe may go out
    assert record["segments"] > TURNS and record["retransmits"] <= TURNS
    assert 0 < record["min_rtt_us"] <= record["opened"]["rtt_us"] < 10_000_000
    assert record["min_rtt_us"] <= record["max_rtt_us"] < 10_000_000
    assert record["max_cwnd"] >= 19, "arm 1's initial window"
    assert TURNS * 0.03 < (record["end_ns"] - record["opened"]["start_ns"]) / 1e9
    if typed:
        assert 0.3 < record["app_limited"] <= 1.0, "it slept most of the time"
        assert record["rwnd_limited"] is None or 0.0 <= record["rwnd_limited"] <= 1.0
        assert record["delivery_kbps"] is None or record["delivery_kbps"] > 1000
    else:
        assert (record["app_limited"], record["rwnd_limited"], record["delivery_kbps"]) == (None, None, None)


@pytest.mark.root
def test_clients_without_a_prefix_have_the_class_of_their_band() -> None:
    """A loopback's round trip lies above 1 us and below a minute. Window, class, band, profile."""
    seen = aside("drawn.py", "bands")
    assert seen.pop("second") == [19, "A", 2, "p1"] and seen.pop("nothing left")
    assert set(map(tuple, seen.values())) == {(26, "B", None, "p2")}


@pytest.mark.root
def test_two_servers_hold_back_the_same_clients() -> None:
    """20 000 of 65 536 units, profiles with other numbers on each server."""
    seen = aside("drawn.py", "servers")
    assert seen["differ"] == 0 and seen["held in one epoch alone"] == 0
    assert 40 < seen["held"] < 115 and seen["held"] == seen["held in another epoch"]
    assert seen["the same arm in both"] < seen["clients"] / 2, "an epoch draws anew"


@pytest.mark.root
def test_open_connections_keep_their_class_when_profiles_are_applied_to_them() -> None:
    """One by its prefix, one by its band; nothing is applied past the lease."""
    seen = aside("drawn.py", "moved")
    assert seen["begun"] == ["reno", "bbr"], "arms 1 and 2"
    assert (seen["counts"], seen["moved"]) == ([2, 2], ["cubic", "cubic"])
    assert (seen["lapsed counts"], seen["lapsed"]) == ([2, 0], ["cubic", "cubic"])
    assert seen["records"] == [["A", None, True], ["C", 1, True]]


@pytest.mark.root
def test_only_the_named_listeners_connections_are_drawn_and_recorded() -> None:
    seen = aside("drawn.py", "listens")
    assert seen["ways"]["8080"][0] in range(12, 62, 7) and seen["ways"]["8081"][0] == 10
    assert seen["recorded"] == [8080] and seen["nothing left"]


@pytest.mark.root
def test_records_without_room_are_counted() -> None:
    """2 MiB hold 9700 connections; of 11 000 each record is read or counted."""
    seen = aside("drawn.py", "full", "11000")
    assert seen["read"] + seen["lost"] == 22_000 and 0 < seen["lost"] < 4000 and seen["again"] == 0


@pytest.mark.root
def test_a_killed_loader_leaves_the_default_within_the_lease() -> None:
    seen = aside("drawn.py", "lapse")
    assert (seen["before"], seen["early"], seen["late"], seen["renewed"]) == (19, [19], [10], 19)
    assert seen["no plan"] == 99, "without a plan a prefix has the profile that it points to"


@pytest.mark.root
def test_no_plan_is_seen_torn() -> None:
    """The same look-ups see half a plan when one is changed in place."""
    seen = aside("drawn.py", "torn")
    assert seen["turned"]["looks"] > 100_000 and seen["turned"]["turns"] > 5
    assert seen["turned"]["torn"] == 0 < seen["in place"]["torn"]


@pytest.mark.root
def test_refusals() -> None:
    seen = aside("drawn.py", "refused")
    assert seen.pop("nothing left")
    state, none = seen.pop("state"), seen.pop("no state")
    assert state.startswith("PlanState(epoch=1,") and "classes=3" in state and none == "None"
    taken = {name for name, answer in seen.items() if answer.startswith("no error")}
    assert taken == {"the same again", "dropped without a plan"}
    for name in seen.keys() - taken:
        missing = "without rules" in name
        assert seen[name].startswith("Missing: the driver ebpf has no rules" if missing else "BadInput: ")
    assert "change only together with the epoch" in seen["other mixes in the epoch"]
    assert "the plan in force or loaded draws it" in seen["an arm is dropped"]


@pytest.mark.root
def test_status_shows_epoch_and_lease_and_one_holdback_lives(tmp_path: Path) -> None:
    seen = aside("status_of_plan.py", "plan", str(tmp_path / "db"))
    assert seen["none"] == [""] and seen["nothing left"]
    unasked, plan = seen["plan"][0].split("; epoch", 1)
    assert unasked == "the kernel draws clients' profiles; no connection was looked at"
    assert re.fullmatch(r" 77: 1 classes assigned, control group 5.0%, its lease ends in 35\d\d\.\d s", plan)
    assert seen["lapsed"][0].endswith("its lease has passed, new connections are untouched")
    refused, taken = seen["holdbacks"]
    assert refused.startswith("6 ") and "the plan of epoch 77 has 5.0% of the clients as control group" in refused
    assert taken.startswith("0 ")


# A class change re-tunes open connections that the kernel drew for; its agent's end leaves none with a profile.
NEAR, FAR, DEFAULT = ["cubic", 5000, 0], ["cubic", 0, 3], ["reno", 0, 0]


@pytest.mark.root
@pytest.mark.parametrize("end", ["released", "killed"])
def test_a_class_change_re_tunes_the_prefixs_connections_until_its_agent_ends(tmp_path: Path, end: str) -> None:
    found = aside("retuned.py", str(tmp_path), end)

    def of(net: int, when: str) -> list[list[Any]]:
        return [settings for address, settings in found[when].items() if address.startswith(f"127.{net}.")]

    assert of(1, "begun") == [NEAR] * 8 and of(1, "changed") == [FAR] * 8
    assert set(map(tuple, found["after"].values())) == {tuple(DEFAULT)} and found["nothing left"]
    if end == "released":
        assert DEFAULT in of(2, "begun"), "one client is held back"
        assert of(1, "again") == [FAR] * 8 and found["text"] == "8 of 8 open connections re-tuned"
        assert found["back"] == found["begun"] and found["back text"].endswith("8 put back")
        assert [of(other, "changed") for other in (2, 3)] == [of(other, "begun") for other in (2, 3)]
        assert found["moved"] == [True], "its page loads do not teach"


# A place that names listeners: their connections are tuned, those of others at the same host are not.
MEANT = {way for way in sockets.WAYS if not way.startswith("22") and not way.endswith("another")}


@pytest.mark.root
def test_who_came_to_a_named_listener_is_tuned_and_no_one_else() -> None:
    seen = aside("sockets.py", "listened")
    for way in sockets.WAYS:
        begun = {"cc": "cubic", "cwnd": 23} if way in MEANT else {"cc": "reno", "cwnd": 10}
        assert seen["begun"][way] == begun, way
        assert seen["moved"][way]["cc"] == "bbr" if way in MEANT else seen["moved"][way] == begun, way
    # The window that was offered before the handshake, too: five segments of a loopback's MSS would be more than
    # 65535, which is the most a SYN-ACK can offer.
    offered = {meant: {seen["offered"][way] for way in sockets.WAYS if (way in MEANT) == meant} for meant in (0, 1)}
    assert offered[0].isdisjoint(offered[1]), seen["offered"]
    # `move` takes ports that a process still listens at: every port but 22's is named, 8080 and 8081 in part.
    assert seen["move"] == [len(MEANT), len(MEANT)]
    assert seen["others see nothing"] and seen["nothing left"]


@pytest.mark.root
def test_a_rollback_finds_what_no_journal_knows(tmp_path: Path) -> None:
    """A database that was lost: the choice of listeners is read from the kernel."""
    assert aside("status_of_plan.py", "unlisted", str(tmp_path / "db")) == {
        "rows": [["ebpf", "unjournaled", "undone"]] * 2,
        "nothing left": True,
    }


@pytest.mark.root
def test_a_window_that_the_kernel_cut_for_repeated_syn_acks_stays_cut() -> None:
    """RFC 5681 section 3.1. One repeat takes nothing from it: RFC 6298's first time-out is short, and Linux waits for
    the second. The untouched stack, the last of these clients, does the same."""
    seen = aside("sockets.py", "repeated")
    windows = [sockets.WINDOW, sockets.WINDOW, 1, 1, 1]
    assert seen["clients"] == {
        client: [repeats, window, window]
        for (client, repeats), window in zip(sockets.CLIENTS.items(), windows, strict=True)
    }
    assert seen["nothing left"]


# The round trip of a handshake before the first window: exact, too long or unknown by the way that it was made.
# In the lab's guest, in virtual time: what netem delays lasts exactly as long.
# The low six bits of a cookie's timestamp carry options (net/ipv4/syncookies.c), one each ms.
COOKIE_US = 64_000


@pytest.fixture(scope="module")
def banded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return in_guest(UmlVirtual(), tmp_path_factory.mktemp("bands"), "banded.py")


def window(rtt_us: int) -> int:
    """The window of the band of a round trip."""
    return next((WINDOWS[name] for end, name in BANDS if rtt_us <= end), 10)


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.parametrize("rtt_ms", RTTS_MS)
def test_round_trips_of_handshakes(banded: Any, rtt_ms: int) -> None:
    """A deferred accept counts the client's thinking."""
    least_us = rtt_ms * 1000
    for rtt_us, band, cwnd, cut in banded[f"{rtt_ms} plain"]:
        assert least_us <= rtt_us <= least_us + 10
        assert (band, cwnd, cut) == (1 + RTTS_MS.index(rtt_ms), window(rtt_us), False)
    for way in ("cookie, no timestamps", "fast open"):
        assert banded[f"{rtt_ms} {way}"] == [[None, None, 10, False]] * CLIENTS
    for rtt_us, _, cwnd, cut in banded[f"{rtt_ms} cookie"]:
        assert least_us - 1000 <= rtt_us <= least_us + COOKIE_US
        assert (cwnd, cut) == (window(rtt_us), False)
    for rtt_us, band, cwnd, cut in banded[f"{rtt_ms} deferred"]:
        assert rtt_us >= THOUGHT_S * 1e6 and (band, cwnd, cut) == (None, 10, False)


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.parametrize("rtt_ms", RTTS_MS)
@pytest.mark.parametrize("way", LOST_S)
def test_timestamps_measure_a_repeated_syn_ack(banded: Any, rtt_ms: int, way: str) -> None:
    """A window that the kernel cuts stays cut and is recorded. One lost SYN-ACK may be repeated twice, by the server's
    timer and for the client's repeated SYN, which come at the same time. Without timestamps there is no class, so no
    profile whose window is withheld: the untouched stack's, cut or not."""
    for rtt_us, band, cwnd, cut in banded[f"{rtt_ms} {way}"]:
        assert abs(rtt_us - rtt_ms * 1000) <= 1000
        assert band == next((number for number, (end, _) in enumerate(BANDS, 1) if rtt_us <= end), None)
        assert cwnd == (1 if cut else window(rtt_us))
        assert cut or LOST_S[way] == min(LOST_S.values())
    for rtt_us, band, cwnd, cut in banded[f"{rtt_ms} {way}, no timestamps"]:
        assert (rtt_us, band, cut) == (None, None, False) and cwnd in (1, 10)
