# SPDX-License-Identifier: MIT
"""Answers of misbehaving servers, step by step, without a socket."""

from __future__ import annotations

from itertools import islice

import pytest

from configtron.lab.servers.answers import ANSWERS, CHAIN_LENGTH, TRICKLE_EVERY_S, Ask, End, Step

PAGE = bytes(range(97, 123)) * 2000


def steps(name: str, ask: Ask) -> list[Step]:
    """The first thousand steps; none of ours that ends needs more."""
    return list(islice(ANSWERS[name](ask), 1000))


def spoken(steps: list[Step]) -> bytes:
    return b"".join(step for step in steps if isinstance(step, bytes))


def fields(text: bytes) -> dict[str, str]:
    head = text.split(b"\r\n\r\n", 1)[0].decode().split("\r\n")[1:]
    return {name.lower(): value for name, value in (line.split(": ", 1) for line in head)}


@pytest.mark.parametrize("name", ["page", "think", "think-body", "small-writes", "huge-head", "empty", "short", "fit"])
def test_lengths_are_true(name: str) -> None:
    text = spoken(steps(name, Ask(PAGE, room=5360, amount=404 if name == "short" else 1)))
    assert int(fields(text)["content-length"]) == len(text.split(b"\r\n\r\n", 1)[1])


@pytest.mark.parametrize(
    "name", ["page", "think", "think-body", "small-writes", "huge-head", "http10", "to-www", "flush"]
)
def test_the_whole_page_comes(name: str) -> None:
    assert spoken(steps(name, Ask(PAGE, host="www.a.example"))).split(b"\r\n\r\n", 1)[1] == PAGE


@pytest.mark.parametrize("amount", [-1, 0, 1])
def test_a_fit_is_to_the_byte(amount: int) -> None:
    for room in (*range(150, 1400), 9999, 10000, 10137, 14600, 146000):
        assert len(spoken(steps("fit", Ask(PAGE, room=room, amount=amount)))) == room + amount
    assert spoken(steps("fit", Ask(PAGE, room=64))).endswith(b"\r\n\r\n")


def test_chunks_make_the_page() -> None:
    rest, page = spoken(steps("chunked", Ask(PAGE))).split(b"\r\n\r\n", 1)[1], b""
    while rest != b"0\r\n\r\n":
        size, rest = rest.split(b"\r\n", 1)
        page, rest = page + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    assert page == PAGE


def test_pauses_are_where_they_belong() -> None:
    assert steps("think", Ask(PAGE, amount=3.0))[0] == 3.0
    head, pause, body = steps("think-body", Ask(PAGE, amount=0.3))
    assert (pause, body) == (0.3, PAGE) and isinstance(head, bytes) and head.endswith(b"\r\n\r\n")
    assert steps("trickle", Ask(PAGE))[:4] == [TRICKLE_EVERY_S, b"H", TRICKLE_EVERY_S, b"T"]
    assert steps("drip", Ask(PAGE, amount=0.1))[1:4:2] == [0.1, 0.1]
    assert steps("flush", Ask(PAGE, amount=0.1))[1:4:2] == [0.1, 0.1]
    assert steps("slow-close", Ask(PAGE, amount=2.0))[1:] == [2.0, End.CLOSE]


@pytest.mark.parametrize(("name", "end"), [
    ("silent", End.HANG), ("reset", End.RESET), ("close", End.CLOSE), ("head-only", End.HANG),
    ("reset-body", End.RESET), ("http10", End.CLOSE),
])  # fmt: skip
def test_ends(name: str, end: End) -> None:
    assert steps(name, Ask(PAGE, amount=100))[-1] is end


def test_a_reset_within_the_body_cuts_it() -> None:
    assert spoken(steps("reset-body", Ask(PAGE, amount=100))).split(b"\r\n\r\n", 1)[1] == PAGE[:100]


def location(name: str, ask: Ask) -> str:
    return fields(spoken(steps(name, ask))).get("location", "")


def test_redirects_lead_to_the_page() -> None:
    assert location("to-path", Ask(PAGE)) == "/home/" and not location("to-path", Ask(PAGE, path="/home/"))
    assert location("to-www", Ask(PAGE, host="a.example", path="/x")) == "http://www.a.example/x"
    assert location("to-https", Ask(PAGE, host="a.example")) == "https://a.example/"
    assert not location("to-https", Ask(PAGE, host="a.example", secure=True))
    assert location("to-cookie", Ask(PAGE, path="/x")) == "/x" and not location("to-cookie", Ask(PAGE, cookie=True))
    assert fields(spoken(steps("to-cookie", Ask(PAGE))))["set-cookie"].startswith("seen=1")


def test_a_chain_ends_and_a_loop_does_not() -> None:
    path, hops = "/", 0
    while path := location("chain", Ask(PAGE, path=path)):
        hops += 1
    assert hops == CHAIN_LENGTH
    seen = ["/"]
    while (path := location("loop", Ask(PAGE, path=seen[-1]))) not in seen:
        seen.append(path)
    assert path == "/there"


def test_who_keeps_the_connection_hears_of_no_close() -> None:
    assert "connection" not in fields(spoken(steps("page", Ask(PAGE, close=False))))
    assert fields(spoken(steps("page", Ask(PAGE))))["connection"] == "close"
