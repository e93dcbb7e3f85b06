# SPDX-License-Identifier: MIT
"""Each cause of a repeat, reported as the wire shows it; and what is no repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.fingerprint.passive.retransmissions import KINDS
from configtron.model.nouns import ACK, FIN
from tests.support.made_capture import FULL, RTT_S, Conversation, seen

AT = 1.0


def counts(conversation: Conversation, folder: Path) -> dict[str, int]:
    return {name: value for name, value in seen(conversation.batch(folder)).items() if name in KINDS}


def opened() -> Conversation:
    """Ten segments, all acknowledged."""
    conversation = Conversation()
    conversation.flight(AT - 0.5, 0, 10)
    conversation.ack(AT - 0.49, 10)
    return conversation


def test_a_timeout_and_what_follows_it(tmp_path: Path) -> None:
    conversation = opened()
    conversation.flight(AT, 10, 4)
    conversation.flight(AT + 0.35, 10, 1)
    conversation.ack(AT + 0.351, 11)
    conversation.flight(AT + 0.351 + RTT_S, 11, 2)
    assert counts(conversation, tmp_path) == {"rto": 3}


def test_a_tail_loss_probe(tmp_path: Path) -> None:
    conversation = opened()
    conversation.flight(AT, 10, 4)
    conversation.flight(AT + 2 * RTT_S, 13, 1)
    assert counts(conversation, tmp_path) == {"tlp": 1}


def test_without_sack_there_is_no_probe(tmp_path: Path) -> None:
    conversation = Conversation(sack=False)
    conversation.flight(AT, 0, 1)
    conversation.flight(AT + 0.35, 0, 1)
    assert counts(conversation, tmp_path) == {"rto": 1}


@pytest.mark.parametrize("at_server", [False, True])
def test_a_fast_retransmission(at_server: bool, tmp_path: Path) -> None:
    """Seen before the loss the segment comes twice; seen behind it a hole is filled a round trip later."""
    conversation = opened()
    conversation.flight(AT, 10, 6, skip=() if at_server else (1,))
    for n in range(4):
        conversation.ack(AT + 0.001 + n / 10_000, 11, sack=(1 + 12 * FULL, 1 + (13 + n) * FULL))
    conversation.flight(AT + 0.002 + RTT_S, 11, 1)
    assert counts(conversation, tmp_path) == ({"fast": 1} if at_server else {"fast": 1, "hole": 1})


def test_an_overtaken_segment_is_no_repeat(tmp_path: Path) -> None:
    conversation = Conversation(stamps=False)
    conversation.flight(AT, 0, 6, skip=(2,))
    conversation.flight(AT + 0.01, 2, 1)
    assert counts(conversation, tmp_path) == {"hole": 1, "reordered": 1}


def test_an_older_stamp_shows_an_overtaken_segment_however_late(tmp_path: Path) -> None:
    conversation = opened()
    conversation.flight(AT, 10, 6, skip=(2,))
    late = Conversation()
    late.frames.clear()
    late.send(1, AT - 0.01, ACK, 1 + 12 * FULL, 101, FULL)
    conversation.frames.append((round((conversation.start_s + AT + 0.3) * 1e9), late.frames[0][1]))
    assert counts(conversation, tmp_path) == {"hole": 1, "reordered": 1}


def test_what_was_acknowledged_needs_no_repeat(tmp_path: Path) -> None:
    conversation = opened()
    conversation.flight(AT, 10, 4)
    conversation.ack(AT + 0.01, 14)
    conversation.flight(AT + 0.4, 10, 1)
    assert counts(conversation, tmp_path) == {"unneeded": 1}


def test_keep_alives_and_window_probes_are_no_repeats(tmp_path: Path) -> None:
    conversation = opened()
    conversation.send(1, AT + 5, ACK, 10 * FULL, 101, 1)
    conversation.send(1, AT + 10, ACK, 10 * FULL, 101, 0)
    found = seen(conversation.batch(tmp_path))
    assert found["keep_alives"] == 1 and not found.keys() & set(KINDS)


def test_handshakes_and_closings_are_not_counted_as_data(tmp_path: Path) -> None:
    conversation = opened()
    conversation.end(AT, 10)
    conversation.send(1, AT + 0.4, ACK | FIN, 1 + 10 * FULL, 101)
    found = counts(conversation, tmp_path)
    assert sum(found.values()) <= 1, "a FIN that is sent again, no more"


def test_data_beyond_the_window_is_seen(tmp_path: Path) -> None:
    conversation = Conversation(window=3 * FULL)
    conversation.flight(AT, 0, 5)
    assert seen(conversation.batch(tmp_path))["out_of_window"] == 2


def test_idle_restarts(tmp_path: Path) -> None:
    conversation = opened()
    conversation.send(0, AT + 3, ACK, 101, 1 + 10 * FULL, 50)
    conversation.flight(AT + 3 + RTT_S, 10, 4)
    batch = conversation.batch(tmp_path)
    assert seen(batch, "client")["idle_restarts"] == 1 and "idle_restarts" not in seen(batch)
