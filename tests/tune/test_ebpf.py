# SPDX-License-Identifier: MIT
"""The ebpf driver: its layout of the maps, its reach, and what real sockets say of themselves."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Place
from configtron.tune import capabilities
from configtron.tune.drivers import DRIVERS, load
from configtron.tune.drivers.bpf import cells, layout, objects
from configtron.tune.drivers.bpf.reach import REACHES, REFUSED, Kernel, check, reaches

ABLE = Kernel(250, ("bbr", "cubic", "reno", "vegas"), frozenset(layout.WRAPPED), True)
MAPPED = bytes(10) + b"\xff\xff"
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


def test_it_is_a_driver_by_name() -> None:
    assert load("ebpf", Place()).name == "ebpf"
    assert list(DRIVERS).index("ebpf") < list(DRIVERS).index("memory")


def test_every_knob_is_reached_or_refused_in_words() -> None:
    asked = set(capabilities.SETTABLE)
    assert REACHES.keys() | REFUSED.keys() == asked
    assert not REACHES.keys() & REFUSED.keys()
    assert all(REFUSED.values())
    assert REACHES.keys() == layout.NUMBERS.keys() == EVERYTHING.keys()


def test_layout_is_the_programs() -> None:
    header = objects.headers().decode()
    for name, number in (
        ("MAX_PROFILES", layout.MOST_PROFILES),
        ("FAMILIES", layout.FAMILIES),
        ("MAX_STEPS", layout.MOST_STEPS),
        ("NAME_BYTES", layout.NAME_BYTES + 1),
        ("KNOB_CONGESTION_CONTROL", layout.NUMBERS["tcp_congestion_control"]),
        ("ASKS_SYNACK_RTO", layout.ASKS_SYNACK_RTO),
        ("ASKS_RWND", layout.ASKS_RWND),
        ("SLOTS", cells.SLOTS),
        ("MAX_CELLS", cells.MOST_CELLS),
        ("TCP_BPF_IW", layout.ROWS[layout.NUMBERS["initcwnd"]].option),
    ):
        assert f"#define {name} {number}" in header, name
    assert sum(bool(row.option) for row in layout.ROWS) <= layout.MOST_STEPS


def test_everything_is_read_as_it_was_written() -> None:
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
    text = layout.prefix_of(key)
    assert ip_network(text) == network or key[4:].startswith(MAPPED)


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_ipv4_prefixes_come_back(bits: int, length: int) -> None:
    text = str(ip_network((bits, length), strict=False))
    assert layout.prefix_of(layout.client(text)) == text


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
        ({"quickack": 1}, "the drivers kmod and route can"),
        ({"initcwnd": 0}, "it takes 1 to 1000 segments"),
        ({"initcwnd": 4.5}, "it takes 1 to 1000"),
        ({"min_rto": 0.4}, "it takes 0.008 to 0.2 s"),
        ({"min_rto": 0.004}, "it takes 0.008 to 0.2 s"),
        ({"tcp_congestion_control": "westwood"}, "it takes bbr, cubic, reno, vegas"),
        ({"tcp_slow_start_after_idle": 0}, "say in the profile of which tcp_congestion_control"),
        ({"tcp_slow_start_after_idle": 0, "tcp_congestion_control": "vegas"}, "vegas cannot be wrapped"),
        ({"pacing": "pfifo_fast"}, "say in the profile of which tcp_congestion_control"),
        ({"pacing": "pfifo_fast", "tcp_congestion_control": "cubic", "max_pacing_rate": 9}, "pacing=fq"),
        ({"no_such_knob": 1}, "no knob is called so"),
        ({"window_clamp": "big"}, "it takes 1 to"),
    ],
)
def test_out_of_reach_is_stated(settings: dict[str, Value], stated: str) -> None:
    with pytest.raises(BadInput) as caught:
        check(profile(**settings), ABLE)
    assert stated in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"tcp_slow_start_after_idle": 0, "tcp_congestion_control": "cubic"},
        {"pacing": "pfifo_fast", "tcp_congestion_control": "bbr"},
    ],
)
def test_what_a_kernel_lacks_is_stated(settings: dict[str, Value]) -> None:
    check(profile(**settings), ABLE)
    with pytest.raises(BadInput, match="this kernel"):
        check(profile(**settings), UNABLE)
    for knob in settings.keys() - {"tcp_congestion_control"}:
        assert "this kernel" in reaches(UNABLE)[knob].note


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


def test_the_masks_are_of_the_lengths() -> None:
    rows = list(layout._LENGTH.iter_unpack(layout.lengths_bytes({})))
    for length in range(129):
        mask, following, count = rows[129 - length]
        assert mask == ip_network(f"::/{length}").netmask.packed
        assert (following, count) == (0, 0)
    assert layout.counted(layout.lengths_bytes({})) == {}


@pytest.mark.parametrize(("prefixes", "entries"), [(0, 1024), (1000, 1250), (100_000, 125_000), (2**20, 2**20)])
def test_a_table_has_room(prefixes: int, entries: int) -> None:
    assert layout.room(prefixes) == entries


@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(1, 1023))
def test_ipv4_prefixes_come_back_from_their_word(bits: int, length: int, number: int) -> None:
    key = layout.client(str(ip_network((bits, length), strict=False)))
    slot = cells.slot_key(key) << 16 | number
    assert cells.client_of(slot) == key and 0 < slot < 2**64 and slot & 0xFFFF == number


def test_a_changed_source_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = objects.cached("write")
    for name in (*objects.HEADERS, "write.bpf.c"):
        (tmp_path / name).write_text("")
    assert objects.cached("write", tmp_path, tmp_path) != first
