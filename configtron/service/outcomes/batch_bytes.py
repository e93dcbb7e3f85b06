# SPDX-License-Identifier: MIT
"""`ReaderBatch` as bytes, for the socketpair between the root reader and the process that holds the endpoint."""

from __future__ import annotations

import msgspec

from configtron.model.errors import BadInput
from configtron.service.outcomes.root_reader import ReaderBatch

_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(ReaderBatch)


def encoded(batch: ReaderBatch) -> bytes:
    """Return a batch as bytes."""
    return _ENCODER.encode(batch)


def decoded(data: bytes) -> ReaderBatch:
    """Return the batch of these bytes; every field has its type. Errors: `BadInput`."""
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise BadInput(f"no batch of the root reader: {error}") from error
