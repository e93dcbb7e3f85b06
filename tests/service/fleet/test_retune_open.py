# SPDX-License-Identifier: MIT
"""A manager and an agent over ZeroMQ: `tune agent --retune-open` has open connections follow a map, else they stay."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.model.nouns import Profile
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.running_fleet import MAP, Fleet
from tests.support.waiting import PATIENCE_S, until

# linux/tcp.h
TCP_NOTSENT_LOWAT = 25


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, FixedMapMaker(MAP))


@pytest.mark.root
@pytest.mark.parametrize("retune_open", [True, False])
def test_open_connections_follow_a_map_if_asked_and_come_back_at_the_end(
    fleet: Fleet, tmp_path: Path, retune_open: bool
) -> None:
    profiles = {"low": Profile("low", (("notsent_lowat", 5000),)), "high": Profile("high", (("notsent_lowat", 9000),))}
    mixes = {"near": (("low", 65_536),), "far": (("high", 65_536),)}
    first = replace(MAP, profiles=profiles, mixes=mixes, prefixes={"127.77.0.0/16": "near", "127.78.0.0/16": "near"})
    fleet.maker.change(first)
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        ends = []
        for address in ("127.77.0.1", "127.78.0.1"):
            place = listener.getsockname()
            stack.enter_context(socket.create_connection(place, PATIENCE_S, (address, 0)))
            ends.append(stack.enter_context(listener.accept()[0]))

        def seen() -> list[int]:
            return [one.getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT) for one in ends]

        with fleet.manager() as core, fleet.running_agent(tmp_path, retune_open=retune_open):
            until(lambda: "web1" in core.session.agents and core.session.agents["web1"].held == (1, 1))
            assert seen() == [0, 0], "a map alone changes no open connection"
            # Under another key it does not wait for the turn of the epoch.
            fleet.maker.change(replace(first, prefixes={**first.prefixes, "127.77.0.0/16": "far"}, key=b"o" * 16))
            until(lambda: core.session.agents["web1"].held == (1, 2))
            if retune_open:
                until(lambda: seen() != [0, 0])
            assert seen() == [9000 * retune_open, 0]
        assert seen() == [0, 0]
