# SPDX-License-Identifier: MIT
"""The driver ebpf draws each client's profile under a plan with a lease, and records its connections."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.qemu import QemuDebian
from configtron.lab.uml.user_mode_linux import Backend, UmlVirtual
from configtron.model.close_records import ABORTED, CLOSED, ENDINGS, RESET
from configtron.model.draw import Plan
from configtron.model.protocols import Drawing, PlanReader
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.memory import MemoryDriver
from tests.support.draws import KEY
from tests.support.tune.aside import aside
from tests.support.tune.drawn import ANSWER, REQUEST, TURNS
from tests.support.tune.in_guest import in_guest

CONNECTIONS = 3000


def test_the_driver_draws() -> None:
    assert isinstance(EbpfDriver(Place()), PlanReader)
    assert isinstance(EbpfDriver(Place()), Drawing) and not isinstance(MemoryDriver(Place()), Drawing)
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


@pytest.fixture(scope="module", params=["ends", "untyped"])
def ended(request: pytest.FixtureRequest) -> Any:
    """With the kernel's type information, and by the program for kernels without it."""
    return request.param, aside("drawn.py", request.param)


@pytest.mark.root
def test_how_connections_ended(ended: Any) -> None:
    typed, seen = ended[0] == "ends", ended[1]
    endings = {way: [record["ending"] for record in records] for way, records in seen.items() if way != "nothing left"}
    assert endings == {
        "server first": [CLOSED],
        "client first": [CLOSED],
        "client resets": [RESET if typed else None],
        "server resets": [ABORTED if typed else None],
        "data": [CLOSED],
    }
    assert {ending for found in endings.values() for ending in found} - {None} <= set(ENDINGS)


@pytest.mark.root
def test_what_a_close_record_counts(ended: Any) -> None:
    typed, seen = ended[0] == "ends", ended[1]
    (record,) = seen["data"]
    # the kernel counts a FIN as a byte
    assert record["bytes_acked"] == TURNS * ANSWER + 1
    assert record["bytes_received"] in (TURNS * REQUEST, TURNS * REQUEST + 1)
    # on a busy host a tail loss probe may go out
    assert record["segments"] > TURNS and record["retransmits"] <= TURNS
    assert 0 < record["min_rtt_us"] <= record["opened"]["rtt_us"] < 10_000_000
    assert record["min_rtt_us"] <= record["max_rtt_us"] < 10_000_000
    assert record["max_cwnd"] >= 19, "arm 1's initial window"
    lasted_s = (record["end_ns"] - record["opened"]["start_ns"]) / 1e9
    assert TURNS * 0.03 < lasted_s
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
    default = [26, "B", None, "p2"]
    assert seen.pop("second") == [19, "A", 2, "p1"]
    assert seen.pop("nothing left") and set(map(tuple, seen.values())) == {tuple(default)}


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
    assert (seen["before"], seen["early"], seen["late"]) == (19, [19], [10])
    assert seen["renewed"] == 19
    assert seen["no plan"] == 99, "without a plan a prefix has the profile that it points to"


@pytest.mark.root
def test_no_plan_is_seen_torn() -> None:
    """The same look-ups see half a plan when one is changed in place."""
    seen = aside("drawn.py", "torn")
    assert seen["turned"]["looks"] > 100_000 and seen["turned"]["turns"] > 5
    assert seen["turned"]["torn"] == 0
    assert seen["in place"]["torn"] > 0


@pytest.mark.root
def test_refusals() -> None:
    seen = aside("drawn.py", "refused")
    assert seen.pop("nothing left")
    state, none = seen.pop("state"), seen.pop("no state")
    assert state.startswith("PlanState(epoch=1,") and "classes=3" in state and none == "None"
    taken = {name for name, answer in seen.items() if answer.startswith("no error")}
    assert taken == {"the same again", "dropped without a plan"}
    for name, answer in seen.items() - {(name, seen[name]) for name in taken}:
        assert answer.startswith("Missing: the driver ebpf has no rules" if "without rules" in name else "BadInput: ")
    assert "change only together with the epoch" in seen["other mixes in the epoch"]
    assert "the plan in force or loaded draws it" in seen["an arm is dropped"]


@pytest.mark.root
def test_status_shows_epoch_and_lease_and_one_holdback_lives(tmp_path: Path) -> None:
    seen = aside("status_of_plan.py", "plan", str(tmp_path / "db"))
    assert seen["none"] == [""] and seen["nothing left"]
    assert re.fullmatch(
        r"epoch 77: 1 classes assigned, control group 5.0%, its lease ends in 35\d\d\.\d s", seen["plan"][0]
    )
    assert seen["lapsed"][0].endswith("its lease has passed, new connections are untouched")
    refused, taken = seen["holdbacks"]
    assert refused.startswith("6 ") and "the plan of epoch 77 has 5.0% of the clients as control group" in refused
    assert taken.startswith("0 ")
