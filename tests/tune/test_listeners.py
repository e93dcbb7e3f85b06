# SPDX-License-Identifier: MIT
"""Listeners as they are typed, and the drivers that know none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.tuning import Place
from configtron.tune.drivers import DRIVERS, load
from configtron.tune.drivers.bpf import layout, objects
from configtron.tune.listeners import LISTENERS_MOST, ListenAddress, listeners_of, listeners_text

ADDRESSES = st.one_of(st.just(""), st.ip_addresses().map(str))


@given(st.lists(st.tuples(st.integers(1, 65535), ADDRESSES), max_size=20))
def test_listeners_come_back_from_their_text(drawn: list[tuple[int, str]]) -> None:
    words = [ListenAddress(*one).text for one in drawn]
    try:
        text = listeners_text(words)
    except BadInput:
        assert any(address in ("0.0.0.0", "::", "::ffff:0:0") for _, address in drawn)
        return
    assert listeners_text([text] if text else []) == text == listeners_text(reversed(words))
    for listener in listeners_of(text):
        assert layout.listener_of(layout.listener_bytes(listener)) == listener


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["[::ffff:192.0.2.1]:443", "8443,22", "22"], "22,192.0.2.1:443,8443"),
        (["[2001:DB8:0::1]:443"], "[2001:db8::1]:443"),
    ],
)
def test_equal_choices_are_equal_texts(words: list[str], text: str) -> None:
    assert listeners_text(words) == text and listeners_of("") == ()


@pytest.mark.parametrize("word", [
    "", "http", "0", "65536", "443,", ":443", "-1", "192.0.2:443", "2001:db8::1:443", "[192.0.2.1]:443", "0.0.0.0:443",
    "[::]:443", "[::ffff:0.0.0.0]:443", "[fe80::1%eth0]:443", "192.0.2.1:", "٤٤٣", "4 43",
])  # fmt: skip
def test_what_is_no_listener_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match="--listen"):
        listeners_text([word])


def test_no_more_than_the_programs_table_holds() -> None:
    assert f"#define MAX_LISTENERS {LISTENERS_MOST}" in objects.headers().decode()
    listeners_text(map(str, range(1, LISTENERS_MOST + 1)))
    with pytest.raises(BadInput, match="at most"):
        listeners_text(map(str, range(1, LISTENERS_MOST + 2)))


@pytest.mark.parametrize("driver", [name for name in DRIVERS if name not in ("ebpf", "memory")])
def test_a_driver_without_such_a_selector_refuses_it(driver: str) -> None:
    """Whatever else it lacks: it must never tune everybody instead. The module knows ports, and no control group."""
    assert "use the driver ebpf" in load(driver, Place(listen="192.0.2.1:443" if driver == "kmod" else "443")).missing()
    if driver == "kmod":
        assert "--cgroup" in load("kmod", Place(cgroup="web")).missing()
