# SPDX-License-Identifier: MIT
"""The two ends of the protocol against each other, without sockets; each rule has a frame that breaks it.

That maps arrive, rows are stored once, and terms, keys and rejections count under any faults is judged in
`tests/service/fleet/test_whole_system.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import msgpack, structs
from nacl.signing import SigningKey

from configtron.fleet import messages
from configtron.fleet.agent_session import AgentSession, ForgetRows, LoadMap, ReadSpool, Remark, SendFrame
from configtron.fleet.manager_proof import proof_of
from configtron.fleet.manager_session import ManagerRemark, ManagerSession, SendTo, StopManager, StoreRows
from configtron.fleet.map_document import DocumentForm, MapRefused, chunks, document, opened, signed, whole_map
from configtron.fleet.map_table import V4, V6, key4, prefixes_of, table_from, table_of
from configtron.fleet.messages import (
    AgentHello,
    Beat,
    MapResult,
    MessageError,
    Welcome,
    encode_rows,
    frame,
    from_agent,
    from_manager,
)
from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from tests.support.fleet_fuzzer import fuzz_frames

KEY = SigningKey(b"k" * 32)
PROFILES = {"fast": Profile("fast", (("initcwnd", 30),)), "none": Profile("none")}
MIXES = {"near": (("fast", 60_000), ("none", 5_536)), "far": (("none", 65_536),)}
MAP = FleetMap(1, 1, PROFILES, MIXES, {"192.0.2.0/24": "near", "2001:db8::/48": "far"}, b"q" * 16, 10**18,
               (Band(20_000, "near"),))  # fmt: skip
ROW = OutcomeRow("", "", 0, 5, "a.example", "192.0.2.0/24", "0" * 16, 812.5)
ALLOWED = {"key-of-web1": "web1", "key-of-web2": "web2"}


def manager(term: int = 1, name: str = "") -> ManagerSession:
    found = ManagerSession(name or f"m{term}", term, ALLOWED, KEY)
    found.publish(signed(replace(MAP, term=term), found.manager, 1, KEY))
    return found


def agent(**named: object) -> AgentSession:
    return AgentSession(AgentHello("b1", "0"), **named)  # type: ignore[arg-type]


def exchanged(one: AgentSession, other: ManagerSession, effects: Sequence[object], now: float) -> list[object]:
    """Carry the frames of an agent's effects to the manager and back until none is left; the effects that are none."""
    rest: list[object] = []
    waiting = list(effects)
    while waiting:
        effect = waiting.pop(0)
        if isinstance(effect, SendFrame):
            waiting += other.receive(b"c", "key-of-web1", effect.data, now)
        elif isinstance(effect, SendTo):
            waiting += one.receive(effect.data, now)
        else:
            rest.append(effect)
    return rest


def sent_to(other: ManagerSession, effect: object) -> list[bytes]:
    """Return the manager's answers to the frame of an effect."""
    assert isinstance(effect, SendFrame)
    answers = other.receive(b"c", "key-of-web1", effect.data, 0.0)
    return [each.data for each in answers if isinstance(each, SendTo)]


def test_a_map_that_does_not_come_is_asked_for_ever_more_seldom_and_anew_after_a_silence() -> None:
    one, other = agent(), manager()
    (welcome,) = sent_to(other, one.tick(0.0)[-1])

    def asked(now: float) -> bool:
        return any(isinstance(e, SendFrame) and isinstance(from_agent(e.data), messages.Want) for e in one.tick(now))

    effects = [*one.receive(welcome, 0.0)]
    assert [from_agent(e.data) for e in effects if isinstance(e, SendFrame)] == [messages.Want(1, 1)]
    tenths = []
    for at in range(1, 100):
        one.receive(frame(messages.Receipt("m1", 1, "other", 0)), at / 10)
        tenths += [at] if asked(at / 10) else []
    assert tenths == [10, 30, 70]
    one.tick(60.0)
    assert isinstance(from_agent(one.receive(welcome, 60.1)[-1].data), messages.Want)  # type: ignore[union-attr]


def test_a_rejected_version_is_not_asked_for_nor_sent_again_until_it_changes() -> None:
    one, other = agent(), manager()
    exchanged(one, other, one.tick(0.0), 0.0)
    exchanged(one, other, one.loaded(MapResult(1, 1, b"", error="the driver refuses it"), (0, 0, b""), 0.2), 0.2)
    assert other.agents["web1"].rejected == (1, 1)
    for now in range(1, 60):
        assert not [e for e in exchanged(one, other, one.tick(now), now) if isinstance(e, LoadMap)]
    assert other.receive(b"c", "key-of-web1", frame(messages.Want(1, 1)), 61.0) == []
    offer = other.publish(signed(replace(MAP, version=2), "m1", 2, KEY))
    assert [e for e in exchanged(one, other, offer, 62.0) if isinstance(e, LoadMap)]


def test_a_version_is_sent_to_an_agent_once_in_a_while() -> None:
    """Thirty connections of one key that ask on and on took two gigabytes."""
    other, want = manager(), frame(messages.Want(1, 1))
    sent = [bool(other.receive(b"%d" % n, "key-of-web1", want, n / 10)) for n in range(11)]
    assert sent == [True, *[False] * 4, True, *[False] * 4, True]


def test_a_waiting_map_that_is_refused_late_leaves_the_later_refusal_known() -> None:
    """At the turn an older map was refused after a newer one: the newer one was asked for again."""
    one, other = agent(), manager()
    exchanged(one, other, one.tick(0.0), 0.0)
    offer = other.publish(signed(replace(MAP, version=2), "m1", 2, KEY))
    exchanged(one, other, offer, 0.1)
    exchanged(one, other, one.loaded(MapResult(1, 2, b"", error="the disk is full"), (0, 0, b""), 0.2), 0.2)
    exchanged(one, other, one.loaded(MapResult(1, 1, b"", error="the driver refuses it"), (0, 0, b""), 0.3), 0.3)
    assert one.rejected == (1, 2)


def test_an_agent_that_is_started_anew_gets_the_map_that_it_rejected_once_more() -> None:
    """The operator had mended what stood in the way, and the agent stayed without a map until the next one."""
    other = manager()
    for boot in ("b1", "b2"):
        one = AgentSession(AgentHello(boot, "0"))
        loads = [e for now in range(5) for e in exchanged(one, other, one.tick(now), now) if isinstance(e, LoadMap)]
        exchanged(one, other, one.loaded(MapResult(1, 1, b"", error="no BPF file system"), (0, 0, b""), 6.0), 6.0)
        assert len(loads) == 1 and other.agents["web1"].rejected == (1, 1)


def test_two_hosts_with_one_key_are_named_and_a_start_anew_is_not() -> None:
    """A copied folder: both were heard as one agent without a word."""
    other = manager()

    def heard(connection: bytes, message: AgentHello | Beat, now: float) -> list[str]:
        effects = other.receive(connection, "key-of-web1", frame(message), now)
        return [effect.text for effect in effects if isinstance(effect, ManagerRemark)]

    assert heard(b"1", AgentHello("b1", "0"), 0.0) == heard(b"1", Beat(), 1.0) == []
    # Started anew, with a late frame of the start before, and on a connection that was made again.
    assert heard(b"2", AgentHello("b2", "0"), 9.0) == ["agent web1 was started anew; the map it holds: none"]
    assert heard(b"1", Beat(), 9.5) == []
    # After silence there is a line that it is back.
    assert not any("two hosts" in text for text in heard(b"3", Beat(), 30.0))
    assert heard(b"2", Beat(), 31.0) == []
    (found,) = heard(b"1", Beat(), 32.0)
    assert "two hosts use its key at once" in found and heard(b"1", Beat(), 33.0) == []


def test_rows_are_sent_until_their_receipt_comes_and_then_forgotten() -> None:
    one, other = agent(), manager()
    assert any(isinstance(e, ReadSpool) for e in [*exchanged(one, other, one.tick(0.0), 0.0), *one.tick(0.1)])
    (sent,) = one.spooled("b1", 1, encode_rows([ROW, ROW]), 0.2)
    assert isinstance(sent, SendFrame)
    assert not [e for e in one.tick(1.0) if isinstance(e, SendFrame) and e.data == sent.data]
    assert [e for e in one.tick(2.3) if isinstance(e, SendFrame) and e.data == sent.data]
    (store,) = other.receive(b"c", "key-of-web1", sent.data, 2.4)
    assert isinstance(store, StoreRows) and store.agent == "web1" and len(store.rows) == 2
    assert [row.sequence for row in store.rows] == [1, 2] and store.rows[0].plt_ms == 812.5
    half = other.stored(b"c", "b1", 1)
    assert exchanged(one, other, half, 2.5) == []
    done = exchanged(one, other, other.stored(b"c", "b1", 2), 2.6)
    assert ForgetRows("b1", 2) in done


def test_a_revoked_key_is_not_heard_on_its_old_connection() -> None:
    one, other = agent(), manager()
    exchanged(one, other, one.tick(0.0), 0.0)
    other.allow({"key-of-web2": "web2"})
    (line,) = other.receive(b"c", "key-of-web1", frame(Beat()), 1.0)
    assert isinstance(line, ManagerRemark) and "revoked" in line.text
    assert other.receive(b"c", "key-of-web1", frame(Beat()), 2.0) == [] and other.unheard == 2
    assert "web1" not in other.agents


@pytest.mark.parametrize(("first", "second", "names", "why"), [
    ((5, "m5"), (4, "m4"), ("m4 (term 4)", "m5 (term 5)"), "came later"),
    ((3, "first"), (3, "second"), ("first", "second"), "has the same term"),
])  # fmt: skip
def test_a_manager_of_an_earlier_term_or_of_the_same_is_refused_by_one_line_that_names_both_and_stops(
    first: tuple[int, str], second: tuple[int, str], names: tuple[str, str], why: str
) -> None:
    one, new, old = agent(), manager(*first), manager(*second)
    exchanged(one, new, one.tick(0.0), 0.0)
    assert one.manager == first
    (welcome,) = sent_to(old, agent().tick(0.0)[-1])
    effects = exchanged(one, old, one.receive(welcome, 1.0), 1.0)
    (remark,) = [e for e in effects if isinstance(e, Remark)]
    (stop,) = [e for e in effects if isinstance(e, StopManager)]
    assert all(name in remark.text for name in names)
    assert all(word in stop.reason for word in (first[1], second[1], why))


@pytest.mark.parametrize("proof", [
    "", "0", "0" * 128, "\u0660", proof_of("evil", 2, KEY),
    proof_of("evil", 10**6, SigningKey(b"o" * 32)), proof_of("other", 10**6, KEY),
])  # fmt: skip
def test_a_later_manager_without_its_proof_stops_none_and_forges_no_line(proof: str) -> None:
    """One frame of any agent ended the manager for good."""
    other = manager()
    for name in ("evil", "x\nERROR fake \x1b[2J"):
        effects = other.receive(
            b"c", "key-of-web1", frame(AgentHello("b", "0", seen_term=10**6, seen=name, proof=proof)), 0
        )
        assert {type(effect) for effect in effects} <= {SendTo, ManagerRemark}
    other.receive(b"c", "key-of-web1", b"\x02" + msgpack.encode(["x\nERROR \x1b[1m", 1]), 0)
    assert other.lines["web1"].refused == 3
    (welcome,) = sent_to(other, agent().tick(0.0)[-1])
    assert from_manager(welcome) == Welcome("m1", 1, 1, proof_of("m1", 1, KEY))


def test_hostile_frames_stop_store_and_log_nothing_that_they_should_not() -> None:
    found = fuzz_frames(10_000, 1)
    assert found.rows > 2 and 2000 < found.refused < 9500 and found.lines < 60 and found.grown_kib < 20_000


def test_an_agent_that_is_refused_for_ever_has_some_lines_a_minute_and_a_count() -> None:
    other, found = manager(), list[ManagerRemark]()
    for at in range(2500):
        hostile = b"\x02" + msgpack.encode([f"{at}\nERROR\x1b[1m"])
        effects = [*other.receive(b"c", "key-of-web1", hostile, at / 40), *other.watch(at / 40)]
        found += [effect for effect in effects if isinstance(effect, ManagerRemark)]
    assert len(found) == 11 and "2395 more lines" in found[5].text and "2401 of its frames" in found[5].text
    assert all(one.text.isprintable() for one in found)
    (line,) = other.receive(b"d", "key-of-web2", b"\x02", 62.5)[:1]
    assert isinstance(line, ManagerRemark), "another agent's lines are its own"


@pytest.mark.parametrize("version", [1, 7])
def test_a_map_that_is_held_and_one_before_it_are_not_asked_for(version: int) -> None:
    one, other = agent(held=(1, version, b"x" * 32), manager=(1, "m1")), manager()
    assert not [e for e in exchanged(one, other, one.tick(0.0), 0.0) if isinstance(e, LoadMap)]
    assert other.agents["web1"].held == (1, version)


def test_an_unknown_version_of_the_protocol_is_refused_by_name() -> None:
    with pytest.raises(MessageError, match="protocol 9; this side speaks protocol 2: upgrade this side"):
        from_manager(b"\x09" + frame(Beat())[1:])
    one, other = agent(), manager()
    answers = other.receive(b"c", "key-of-web1", b"\x00" + frame(Beat())[1:], 0.0)
    (answer,) = [e for e in answers if isinstance(e, SendTo)]
    (remark,) = one.receive(answer.data, 0.0)
    assert isinstance(remark, Remark) and "protocol 0" in remark.text


def test_frames_out_of_bounds_are_refused() -> None:
    for data in (b"", b"\x02", b"\x02\xc0", b"\x02" + bytes(messages.MOST_FRAME), frame(Beat())[:-1]):
        with pytest.raises(MessageError):
            from_agent(data)
    with pytest.raises(MessageError):
        from_agent(frame(AgentHello("b" * 65, "0")))


def test_a_row_has_the_same_fields_with_bounds() -> None:
    assert messages.RowForm.__struct_fields__ == OutcomeRow._fields[messages.OF_BATCH :]


@pytest.mark.parametrize("wrong", [
    {"plt_ms": None}, {"plt_ms": 0.0}, {"plt_ms": float("nan")}, {"failure": "dns"}, {"prefix": "x" * 65},
    {"propensity": 1.5}, {"more": {str(at): 1.0 for at in range(17)}}, {"site": "\udc80"}, {"at_ns": -1},
    {"site": "a\0b"}, {"profile": "\0"},
])  # fmt: skip
def test_rows_that_no_manager_takes_are_refused_at_the_spool(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        encode_rows([ROW, ROW._replace(**wrong)])  # type: ignore[arg-type]


def test_a_document_that_was_changed_is_refused() -> None:
    new = signed(MAP, "m1", 1, KEY)
    whole = document(new)
    assert whole_map(opened(whole, KEY.verify_key)) == MAP
    for at in range(0, len(whole), 7):
        with pytest.raises(MapRefused):
            opened(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :], KEY.verify_key)
    with pytest.raises(MapRefused, match="signature"):
        opened(whole, SigningKey(b"o" * 32).verify_key)
    with pytest.raises(MapRefused, match="difference"):
        form = msgpack.decode(whole, type=DocumentForm)
        opened(msgpack.encode(structs.replace(form, base=b"d" * 32)), KEY.verify_key)


EDGES = {"0.0.0.0/0": "near", "255.255.255.255/32": "near", "::/0": "near", "2001:db8::1/128": "near"}


@pytest.mark.parametrize(("v4", "v6", "classes", "why"), [
    ([key4("1.2.3.4/32") + 1], [], 1, "invalid IPv4"), ([2**32 << 8], [], 1, "invalid IPv4"),
    ([key4("1.2.3.4/31") + 0x100], [], 1, "host bits"), ([], [bytes(15) + b"\1\x7f"], 1, "host bits"),
    ([], [bytes(16) + b"\x81"], 1, "host bits"), ([key4("2.0.0.0/8"), key4("1.0.0.0/8")], [], 2, "not sorted"),
    (2 * [key4("1.0.0.0/8")], [], 2, "repeated"), ([key4("1.0.0.0/8")], [], 2, "differ in length"),
])  # fmt: skip
def test_a_table_that_no_manager_makes_is_refused(v4: list[int], v6: list[bytes], classes: int, why: str) -> None:
    keys4, keys6, column = np.array(v4, V4).tobytes(), np.array(v6, V6).tobytes(), bytes(2 * classes)
    with pytest.raises(BadInput, match=why):
        table_from(keys4, b"" if v6 else column, keys6, column if v6 else b"")
    with pytest.raises(BadInput, match="truncated"):
        table_from(keys4 + b"x", b"", keys6, b"")
    whole = table_of(EDGES, {"near": 0})
    assert prefixes_of(table_from(*(one.tobytes() for one in (whole.v4, whole.class4, whole.v6, whole.class6))),
                       ("near",)) == EDGES  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), [
    ({"mixes": {**MIXES, "near": (("fast", 65_535),)}}, "sum"),
    ({"mixes": {**MIXES, "near": (("slow", 65_536),)}}, "lacks"),
    ({"bands": (Band(5, "near"), Band(4, "far"))}, "ascend"), ({"lease_s": 600.0}, "not a map"),
    ({"key": b"short"}, "not a map"), ({"not_after_ns": 0}, "expires"),
])  # fmt: skip
def test_a_map_that_no_agent_takes_is_not_signed(change: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        signed(replace(MAP, **change), "m1", 1, KEY)  # type: ignore[arg-type]


def test_a_large_document_comes_in_chunks_that_may_be_lost_and_reordered() -> None:
    prefixes = {f"{10 + at // 65_536}.{at // 256 % 256}.{at % 256}.0/24": "near" for at in range(60_000)}
    one, other = agent(), ManagerSession("m1", 1, ALLOWED, KEY)
    other.publish(signed(replace(MAP, prefixes=prefixes), "m1", 1, KEY))
    assert other.current is not None and len(chunks(document(other.current))) == 3
    welcomed = sent_to(other, one.tick(0.0)[-1])
    sent = sent_to(other, one.receive(welcomed[0], 0.0)[-1])
    assert one.receive(sent[2], 0.1) == [] and one.receive(sent[0], 0.2) == []
    asked = [from_agent(e.data) for e in one.tick(1.3) if isinstance(e, SendFrame)]
    assert messages.Want(1, 1) in asked
    (load,) = one.receive(sent[1], 1.4)
    assert isinstance(load, LoadMap)
    assert whole_map(opened(load.document, KEY.verify_key)).prefixes == prefixes
