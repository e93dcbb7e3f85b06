# SPDX-License-Identifier: MIT
"""The ebpf driver without a kernel: its layout of the maps, its reach, and records of connections as the model's.

Many prefixes as bytes of the maps are those of one prefix after the other, and come back as they were.
"""

from __future__ import annotations

import errno
import struct
from ipaddress import ip_address, ip_network
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.close_records import ABORTED, CLOSED, RESET, TIMED_OUT, CloseRecord, OpenRecord
from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.tune.drivers.bpf import cells, layout, objects
from configtron.tune.drivers.bpf.connection_records import BEGINNING, ENDING, RecordParser, ending_of, prefix_of
from configtron.tune.drivers.bpf.layout import MAPPED
from configtron.tune.drivers.bpf.many_prefixes import (
    columns_of_slots,
    filled_cells,
    initial_table,
    ipv6_count,
    slots_of,
    staged_changes,
)
from configtron.tune.drivers.bpf.reach import REACHES, Kernel, check, noted, reaches

ABLE = Kernel(250, ("bbr", "cubic", "reno", "vegas"), frozenset(layout.WRAPPED), True)
UNABLE = Kernel(100, ("cubic", "reno", "bbr", "vegas"), frozenset(), False)

# A value other than the default of every knob that the driver reaches, all in one profile.
EVERYTHING: dict[str, Value] = {
    "tcp_congestion_control": "reno", "initcwnd": 40, "tcp_slow_start_after_idle": 0, "pacing": "fq",
    "max_pacing_rate": 123_456_789, "initrwnd": 8, "synack_rto": 0.2, "min_rto": 0.02, "delack_max": 0.04,
    "notsent_lowat": 16384, "window_clamp": 30000, "cwnd_clamp": 77, "priority": 5, "mark": 99, "nagle": 0,
}  # fmt: skip


def profile(**settings: Value) -> Profile:
    return Profile("p", tuple(settings.items()))


def written(one: Profile) -> Profile:
    return layout.profile_of(layout.profile_bytes(one, 250))


def test_layout_is_the_programs() -> None:
    header = objects.headers().decode()
    for name, number in (
        ("MAX_PROFILES", layout.MOST_PROFILES), ("FAMILIES", layout.FAMILIES), ("MAX_STEPS", layout.MOST_STEPS),
        ("NAME_BYTES", layout.NAME_BYTES + 1),
        ("KNOB_CONGESTION_CONTROL", layout.NUMBERS["tcp_congestion_control"]),
        ("ASKS_SYNACK_RTO", layout.ASKS_SYNACK_RTO), ("ASKS_RWND", layout.ASKS_RWND), ("SLOTS", cells.SLOTS),
        ("MAX_CELLS", cells.MOST_CELLS), ("TCP_BPF_IW", layout.ROWS[layout.NUMBERS["initcwnd"]].option),
    ):  # fmt: skip
        assert f"#define {name} {number}" in header, name
    assert sum(bool(row.option) for row in layout.ROWS) <= layout.MOST_STEPS
    assert REACHES.keys() == layout.NUMBERS.keys() == EVERYTHING.keys()
    assert written(profile(**EVERYTHING)) == profile(**EVERYTHING)


@given(st.dictionaries(st.sampled_from(sorted(EVERYTHING)), st.none(), min_size=1), st.data())
def test_any_profile_is_read_as_it_was_written(knobs: dict[str, None], data: st.DataObject) -> None:
    settings: dict[str, Value] = {}
    for knob in knobs:
        reach = reaches(ABLE)[knob]
        if reach.values:
            settings[knob] = data.draw(st.sampled_from(reach.values))
        elif KNOBS[knob].unit == "s":
            # whole microseconds, the kernel's unit
            settings[knob] = data.draw(st.integers(8000, round((reach.most or 0) * 1e6))) / 1e6
        else:
            settings[knob] = data.draw(st.integers(int(reach.least or 0), int(reach.most or 0)))
    one = profile(**settings)
    try:
        check(one, ABLE)
    except BadInput:
        return
    assert written(one) == one


@given(st.integers(0, 2**128 - 1), st.integers(0, 128))
def test_ipv6_prefixes_come_back(bits: int, length: int) -> None:
    network = ip_network((bits, length), strict=False)
    key = layout.client(str(network))
    assert ip_network(layout.prefix_of(key)) == network or key[4:].startswith(MAPPED)


@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(1, 1023))
def test_ipv4_prefixes_come_back_from_their_key_and_their_word(bits: int, length: int, number: int) -> None:
    text = str(ip_network((bits, length), strict=False))
    key = layout.client(text)
    slot = cells.slot_key(key) << 16 | number
    assert layout.prefix_of(key) == text
    assert cells.client_of(slot) == key and 0 < slot < 2**64 and slot & 0xFFFF == number


@pytest.mark.parametrize("prefix", ["::1:2:3/120", "::1.2.3.4/128", "::/0", "0.0.0.0/0", "::ffff:0:0/95", "1::8/128"])
def test_prefixes_are_written_as_ipaddress_does(prefix: str) -> None:
    network = str(ip_network(prefix, strict=False))
    assert layout.prefix_of(layout.client(network)) == network


@pytest.mark.parametrize("prefix", ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "::/-1", "a/8", "10.0.0.0/x"])
def test_what_is_no_prefix_is_stated(prefix: str) -> None:
    with pytest.raises(BadInput, match="is no prefix"):
        layout.client(prefix)


@pytest.mark.parametrize(
    ("settings", "stated"),
    [
        ({"quickack": 1}, "the drivers kmod and route can"), ({"initcwnd": 0}, "which takes 1..1000"),
        ({"initcwnd": 4.5}, "which takes whole numbers"), ({"min_rto": 0.4}, "which takes 0.008..0.2"),
        ({"min_rto": 0.004}, "which takes 0.008..0.2"),
        ({"tcp_congestion_control": "westwood"}, "which takes bbr, cubic, reno, vegas"),
        ({"tcp_slow_start_after_idle": 0}, "say in the profile of which tcp_congestion_control"),
        ({"tcp_slow_start_after_idle": 0, "tcp_congestion_control": "vegas"}, "vegas cannot be wrapped"),
        ({"tcp_congestion_control": "cdg"}, "bpf_setsockopt refuses it"), ({"tcp_congestion_control": "dctcp"}, "ECN"),
        ({"pacing": "pfifo_fast"}, "say in the profile of which tcp_congestion_control"),
        ({"pacing": "pfifo_fast", "tcp_congestion_control": "cubic", "max_pacing_rate": 9}, "pacing=fq"),
        ({"no_such_knob": 1}, "no knob is called so"), ({"window_clamp": "big"}, "which takes 1.."),
    ],
)  # fmt: skip
def test_out_of_reach_is_stated(settings: dict[str, Value], stated: str) -> None:
    with pytest.raises(BadInput) as caught:
        check(profile(**settings), ABLE)
    assert stated in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("knob", "value", "control"), [("tcp_slow_start_after_idle", 0, "cubic"), ("pacing", "pfifo_fast", "bbr")]
)
def test_what_a_kernel_lacks_is_stated(knob: str, value: Value, control: str) -> None:
    one = profile(**{knob: value, "tcp_congestion_control": control})
    check(one, ABLE)
    with pytest.raises(BadInput, match="this kernel"):
        check(one, UNABLE)
    assert "this kernel" in noted(UNABLE)[knob].note


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"tcp_congestion_control": "bbr", "tcp_slow_start_after_idle": 0}, "bbr"),
        ({"tcp_congestion_control": "bbr", "tcp_slow_start_after_idle": 0, "pacing": "pfifo_fast"}, "ct_bbr_unpaced"),
        ({"tcp_congestion_control": "cubic", "tcp_slow_start_after_idle": 0, "pacing": "pfifo_fast"}, "ct_cubic_keep"),
        ({"tcp_congestion_control": "cubic", "tcp_slow_start_after_idle": 1, "pacing": "pfifo_fast"}, "cubic"),
        ({"initcwnd": 4}, ""),
    ],
)
def test_ours_stand_in_only_where_needed(settings: dict[str, Value], asked: str) -> None:
    check(profile(**settings), ABLE)
    assert layout.kernel_name(settings) == asked
    assert written(profile(**settings)) == profile(**settings)


def test_the_masks_are_of_the_lengths_and_counts_are_read_as_they_were_written() -> None:
    rows = list(layout._LENGTH.iter_unpack(layout.lengths_bytes({})))
    assert rows[1:130] == [(ip_network(f"::/{length}").netmask.packed, 0, 0) for length in range(128, -1, -1)]
    for counts in ({}, {128: 1}, {0: 7}, {128: 3, 120: 1_000_000, 96: 2, 0: 1}):
        assert list(layout.counted(layout.lengths_bytes(counts)).items()) == list(counts.items())


@pytest.mark.parametrize(("prefixes", "entries"), [(0, 1024), (1000, 1250), (100_000, 125_000), (2**20, 2**20)])
def test_a_table_has_room(prefixes: int, entries: int) -> None:
    assert layout.room(prefixes) == entries


def test_a_changed_source_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = objects.cached("write")
    for name in (*objects.HEADERS, "write.bpf.c"):
        (tmp_path / name).write_text("")
    assert objects.cached("write", tmp_path, tmp_path) != first


# Records of the programs: what is unknown is None, an address is cut, a way to end has a name.
PARSER = RecordParser({1: "class", 2: "arm"}, 250)
ESTABLISHED, FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING = 1, 4, 5, 6, 8, 9, 11
# struct beginning
BEGUN: dict[str, int | bytes] = {
    "epoch": 7, "start_ns": 10**9, "cookie": 99, "number": 1, "profile": 2, "version": 0xCAFE, "rtt_us": 5000,
    "remote": MAPPED + bytes((192, 0, 2, 77)), "local_port": 443, "remote_port": 50000, "arm": 3, "band": 0,
    "flags": 1, "padding": 0,
}  # fmt: skip


def opened(**fields: int) -> OpenRecord:
    (record,) = PARSER.all([BEGINNING.pack(*(BEGUN | fields).values())])
    assert isinstance(record, OpenRecord)
    return record


def closed(lasted_ns: int = 10**9, rate: int = 0, min_rtt_us: int = 4000, known: int = 1, busy: int = 50,
           rwnd: int = 25, max_rtt_us: int = 0, flags: int = 1) -> CloseRecord:  # fmt: skip
    counted = (10**9 + lasted_ns, 5001, 101, rate, min_rtt_us, 44, 12, 2)
    ending = (*counted, LAST_ACK, known, 0, busy, rwnd, max_rtt_us)
    (record,) = PARSER.all([ENDING.pack(*(BEGUN | {"flags": flags}).values(), *ending)])
    assert isinstance(record, CloseRecord)
    return record


def test_a_beginning() -> None:
    assert (BEGINNING.size, ENDING.size) == (64, 136)
    assert opened() == OpenRecord(
        "192.0.2.0/24", 443, 50000, 10**9, 99, "class", 3, False, "arm", 0xCAFE, 7, None, 5000, False
    )
    # held back
    record = opened(profile=0, version=0, arm=8)
    assert (record.class_name, record.arm, record.held) == ("class", None, True)
    assert (record.profile, record.version) == ("", None)
    # unknown
    record = opened(number=0, profile=5, epoch=0, cookie=0, rtt_us=0, arm=0, flags=0)
    assert (record.class_name, record.arm, record.held) == (None, None, False)
    assert (record.profile, record.epoch, record.cookie, record.rtt_us, record.band) == (None,) * 5
    record = opened(band=2, flags=3)
    assert (record.band, record.window_cut) == (2, True)


def test_an_ending() -> None:
    record = closed(rate=1_000_000)
    assert (record.bytes_acked, record.bytes_received, record.segments, record.retransmits) == (5001, 101, 12, 2)
    assert (record.max_cwnd, record.min_rtt_us, record.delivery_kbps) == (44, 4000, 8000.0)
    assert (record.app_limited, record.rwnd_limited) == (0.8, 0.5), "50 of 250 ticks with data, 25 of those stalled"
    assert record.ending == CLOSED and not record.moved
    assert closed(flags=5).moved


@pytest.mark.parametrize(
    ("fields", "app", "rwnd"),
    [
        ({"known": 0}, None, None), ({"lasted_ns": 30_000_000, "busy": 5}, None, None), ({"busy": 5}, 0.98, None),
        ({"lasted_ns": 40_000_000, "busy": 10, "rwnd": 5}, 0.0, 0.5), ({"busy": 300, "rwnd": 400}, 0.0, 1.0),
    ],
)  # fmt: skip
def test_shares_that_the_tick_is_too_coarse_for(fields: dict[str, int], app: float | None, rwnd: float | None) -> None:
    record = closed(**fields)
    assert record.app_limited == (app if app is None else pytest.approx(app)) and record.rwnd_limited == rwnd


@pytest.mark.parametrize(
    ("least", "most", "found"),
    [
        # none was sampled, or an earlier program, pinned before an upgrade, wrote the record
        (4000, 0, (4000, None)),
        (4000, 90_000, (4000, 90_000)),
        # a smoothed one that was rounded down
        (4000, 3999, (4000, 4000)),
        (0xFFFF_FFFF, 50, (None, 50)),
        (0xFFFF_FFFF, 0, (None, None)),
    ],
)
def test_round_trips(least: int, most: int, found: tuple[int | None, int | None]) -> None:
    record = closed(min_rtt_us=least, max_rtt_us=most)
    assert (record.min_rtt_us, record.max_rtt_us, record.delivery_kbps) == (*found, None)


@pytest.mark.parametrize(
    ("state", "error", "ending"),
    [
        *[(state, 0, CLOSED) for state in (FIN_WAIT2, TIME_WAIT, LAST_ACK, CLOSING)],
        *[(state, None, CLOSED) for state in (FIN_WAIT2, LAST_ACK)],
        *[(state, 0, ABORTED) for state in (ESTABLISHED, FIN_WAIT1, CLOSE_WAIT)],
        *[(state, None, None) for state in (ESTABLISHED, FIN_WAIT1, CLOSE_WAIT)],
        *[(ESTABLISHED, error, RESET) for error in (errno.ECONNRESET, errno.EPIPE)],
        *[(FIN_WAIT1, error, TIMED_OUT) for error in (errno.ETIMEDOUT, errno.EHOSTUNREACH)],
        (ESTABLISHED, errno.ECONNABORTED, ABORTED),
    ],
)
def test_endings(state: int, error: int | None, ending: str | None) -> None:
    assert ending_of(state, error) == ending


@pytest.mark.parametrize(
    ("address", "prefix"),
    [("192.0.2.77", "192.0.2.0/24"), ("2001:db8:1:2::5", "2001:db8:1::/48"), ("::1", "::/48")],
)
def test_addresses_are_cut(address: str, prefix: str) -> None:
    parsed = ip_address(address)
    assert prefix_of(MAPPED + parsed.packed if parsed.version == 4 else parsed.packed) == prefix


NUMBERS = {"one": 1, "two": 2, "three": 700}


def drawn() -> dict[str, str]:
    random = Random(3)
    four = [f"{random.randrange(256)}.{n >> 8}.{n & 255}.0/24" for n in range(3000)]
    other = ("0.0.0.0/0", "192.0.2.7/32", "2001:db8::/32", "::/0")
    return {prefix: random.choice([*NUMBERS]) for prefix in (*four, *other)}


def test_they_are_staged_as_one_by_one() -> None:
    wanted = drawn()
    staged = staged_changes(wanted, NUMBERS)
    every = {staged[at : at + layout.CHANGE_BYTES] for at in range(0, len(staged), layout.CHANGE_BYTES)}
    assert every == {layout.change(layout.client(prefix), NUMBERS[name]) for prefix, name in wanted.items()}
    assert ipv6_count(wanted) == 2


def test_a_table_is_read_back_as_it_was_filled() -> None:
    wanted = {prefix: name for prefix, name in drawn().items() if ":" not in prefix}
    slots = [cells.slot_key(layout.client(prefix)) << 16 | NUMBERS[name] for prefix, name in wanted.items()]
    filled = cells.filled(1000, slots)
    found = slots_of(filled[cells.CELL.size :])
    assert columns_of_slots(found, {number: name for name, number in NUMBERS.items()}) == wanted
    others = {prefix: name for prefix, name in wanted.items() if name != "three"}
    assert columns_of_slots(found, {1: "one", 2: "two"}) == others
    assert cells.filled(2, slots) == b""


def found_in(every: list[tuple[int, ...]], key: int) -> int:
    """Look a prefix up in cells, as cells.h says: on from its own cell, as long as one was passed."""
    count = every[0][0]
    place = cells._home(key, count)
    for passed in range(cells.MOST_CELLS):
        *slots, spilled = every[1 + (place + passed) % count]
        for slot in slots:
            if slot >> 16 == key:
                return int(slot & 0xFFFF)
        if not spilled:
            break
    return 0


@pytest.mark.parametrize("count", [550, 700, 3000])
def test_each_prefix_of_a_filled_table_is_found(count: int) -> None:
    """In a crowded table, too, where many stand in other cells than their own."""
    wanted = drawn()
    slots, counts, others = initial_table(wanted, NUMBERS)
    assert dict(others) == {prefix: name for prefix, name in wanted.items() if ":" in prefix}
    four = {prefix: NUMBERS[name] for prefix, name in wanted.items() if ":" not in prefix}
    assert counts == {96: 1, 120: len(four) - 2, 128: 1}
    filled = filled_cells(count, slots)
    every = list(struct.iter_unpack("=8Q", filled))
    keys = {prefix: cells.slot_key(layout.client(prefix)) for prefix in four}
    assert {prefix: found_in(every, key) for prefix, key in keys.items()} == four
    assert not any(found_in(every, key + 1) for key in keys.values())
    # as if they came one after the other
    words = struct.unpack(f"={len(filled) // 8}Q", filled)
    alone = struct.unpack(f"={len(filled) // 8}Q", cells.filled(count, list(map(int, slots))))
    assert words[15::8] == alone[15::8] and sum(map(bool, words)) == sum(map(bool, alone))
    assert filled_cells(400, slots) == b"", "too small"
