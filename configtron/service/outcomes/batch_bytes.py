# SPDX-License-Identifier: MIT
"""Batches and questions as bytes, for the socketpair between the root reader and the process that has the endpoint.

`ReaderBatch` goes from the one with rights to the other; questions, of which an address is part, come from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from configtron.intake.pageloads.plan_book import ClientAsked
from configtron.model.errors import BadInput
from configtron.service.outcomes.root_reader import ReaderBatch

# Questions of one datagram, and the bytes of as many: number and time take 9 each, an address 18, frames 2.
MOST_OF_QUESTION, QUESTION_BYTES = 50, 50 * 40
# Of CLOCK_BOOTTIME: 292 years.
MOST_NS = 2**63 - 1
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(ReaderBatch)
_ASKED = msgspec.msgpack.Decoder(tuple[ClientAsked, ...])


def encoded(batch: ReaderBatch | Sequence[ClientAsked]) -> bytes:
    """Return a batch as bytes; or questions as one datagram, `MOST_OF_QUESTION` at most."""
    return _ENCODER.encode(batch)


def decoded(data: bytes) -> ReaderBatch:
    """Return the batch of these bytes; every field has its type. Errors: `BadInput`."""
    try:
        found = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise BadInput(f"no batch of the root reader: {error}") from error
    if not found.bad.is_whole():
        raise BadInput("no batch of the root reader: its columns of endings differ in length")
    return found


def question_of(data: bytes) -> tuple[ClientAsked, ...]:
    """Return the questions of bytes that a process without rights sent, typed and bounded. Errors: `BadInput`."""
    try:
        found = _ASKED.decode(data)
    except msgspec.MsgspecError as error:
        raise BadInput(f"no question of the process without rights: {error}") from error
    if len(found) > MOST_OF_QUESTION or not all(_is_bounded(one) for one in found):
        raise BadInput("no question of the process without rights: too many clients, or one without an address or time")
    return found


def _is_bounded(asked: ClientAsked) -> bool:
    return len(asked.client) in (4, 16) and 0 <= asked.at_ns <= MOST_NS and 0 <= asked.number <= MOST_NS
