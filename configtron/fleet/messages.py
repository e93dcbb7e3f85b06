# SPDX-License-Identifier: MIT
"""Every frame between an agent and its manager: typed, bounded, and of a protocol version that is checked first.

    agent -> manager   AgentHello, Beat, Want, MapResult, OutcomeBatch
    manager -> agent   Welcome, Chunk, Receipt, Rebuff

A frame is one byte of protocol version, then MessagePack: an array whose first element is the name of the message.
Rules for this file: pure; every text, list and number has a bound; a field is never reused with another meaning, a
change of a field's meaning raises `PROTOCOL`. Dropped: fields behind the last known one, which a later version may add
at the end alone: one without which the others are misread raises `PROTOCOL`, and that is refused.

Differs    from ConfigTron: no agent asks for the class of a prefix; the map has bands for those that it does not list.
Source     ConfigTron (section 5: maps, reports, queries); xDS protocol (version, error field, last good kept)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Annotated, NamedTuple, TypeVar

from msgspec import DecodeError, EncodeError, Meta, Raw, Struct
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import astuple

from configtron.model.errors import BadInput
from configtron.model.fleet import ARM, OutcomeRow

T = TypeVar("T")

# Raised when a field changes its meaning; 1 was that of version 0.2.
PROTOCOL = 2
# Bytes of a frame, and of a chunk of a map within one.
MOST_FRAME, CHUNK = 1 << 20, 256 << 10
# Chunks of one map: 64 MiB, a map of six million prefixes.
MOST_CHUNKS = 256
# Rows of one batch; entries of a map whose refusal is listed by name, of those that are counted.
MOST_ROWS, MOST_REFUSED = 2000, 1000
# Fields of an outcome that its batch gives: agent, boot, sequence.
OF_BATCH = 3
# Further numbers of an outcome.
MOST_MORE = 16

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=255)]
Line = Annotated[str, Meta(max_length=1000)]
Digest = Annotated[bytes, Meta(max_length=32)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
# No NaN passes a bound.
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]


class MessageError(Exception):
    """A frame that is refused: the reason, in one line."""


class SpanForm(Struct, frozen=True, array_like=True):
    """An operator's bound of one knob (`tune/guard.py`), or what an agent's driver takes of it: a range, or the values,
    as `value_text` writes them."""

    knob: Name
    least: Finite | None = None
    most: Finite | None = None
    values: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()


class AgentHello(Struct, frozen=True, array_like=True, tag="hello"):
    """An agent introduces itself: what it holds, what its host can set, what its operator allows.

    term, version, digest  of the map in force; 0, 0, b"": none
    seen_term, seen        the latest manager that it has obeyed
    clock_ns               its wall clock, ns since 1970
    proof                  what that manager says of itself, as its `Welcome` had it
    """

    boot: Name
    release: Name
    term: Count = 0
    version: Count = 0
    digest: Digest = b""
    seen_term: Count = 0
    seen: Text = ""
    driver: Name = ""
    reaches: Annotated[tuple[SpanForm, ...], Meta(max_length=256)] = ()
    bounds: Annotated[tuple[SpanForm, ...], Meta(max_length=256)] = ()
    allow_unfair: bool = False
    clock_ns: Count = 0
    proof: Text = ""


class Beat(Struct, frozen=True, array_like=True, tag="beat"):
    """An agent is alive: what it holds, how many rows wait in its spool, how many were dropped."""

    term: Count = 0
    version: Count = 0
    waiting: Count = 0
    dropped: Count = 0
    clock_ns: Count = 0
    frozen: Line = ""


class Want(Struct, frozen=True, array_like=True, tag="want"):
    """An agent asks for a version, whole."""

    term: Count
    version: Count


class MapResult(Struct, frozen=True, array_like=True, tag="applied"):
    """What an agent did with a version: ACK where `error` is "", else NACK; `refused`: entries left out, with reasons.

    digest   of the table in force afterwards
    omitted  refused entries beyond those listed
    """

    term: Count
    version: Count
    digest: Digest
    entries: Count = 0
    refused: Annotated[tuple[tuple[Text, Line], ...], Meta(max_length=MOST_REFUSED)] = ()
    omitted: Count = 0
    error: Line = ""
    seconds: Finite = 0.0


def refused_count(listed: Iterable[tuple[str, str]], omitted: int) -> int:
    """Return how many entries an agent leaves out, without arms that are Default there."""
    return sum(not entry.startswith(ARM) for entry, _ in listed) + omitted


class RowForm(Struct, frozen=True, array_like=True):
    """The bounds of an `OutcomeRow`, field for field, without the first `OF_BATCH`."""

    at_ns: Count
    site: Text
    prefix: Name
    unit: Name
    plt_ms: float | None = None
    term: Count = 0
    map_version: Count = 0
    epoch: Count = 0
    class_name: Text = ""
    arm: Annotated[int, Meta(ge=0, le=255)] | None = None
    profile: Text = ""
    propensity: Share | None = None
    held: bool = False
    failure: Name = ""
    teaches: bool = True
    why_not: Text = ""
    device: Name = ""
    protocol: Name = ""
    rtt_ms: float | None = None
    bandwidth_kbps: float | None = None
    loss: Share | None = None
    more: Annotated[dict[Name, float], Meta(max_length=MOST_MORE)] = {}


class OutcomeBatch(Struct, frozen=True, array_like=True, tag="outcomes"):
    """Rows `first`, `first + 1`, ... of one boot of an agent, which has none before `first` any more."""

    boot: Name
    first: Annotated[int, Meta(ge=1, le=2**62)]
    rows: Annotated[list[RowForm], Meta(max_length=MOST_ROWS)]


class Welcome(Struct, frozen=True, array_like=True, tag="welcome"):
    """The manager's answer to `AgentHello` and `Beat`, and its news of a map: which one is current; version 0: none.

    proof  that it is that manager of that term (`manager_proof.py`)
    """

    manager: Text
    term: Count
    version: Count = 0
    proof: Text = ""


class Chunk(Struct, frozen=True, array_like=True, tag="chunk"):
    """Part `number` of `count` of a version's document."""

    manager: Text
    term: Count
    version: Count
    number: Annotated[int, Meta(ge=0, lt=MOST_CHUNKS)]
    count: Annotated[int, Meta(ge=1, le=MOST_CHUNKS)]
    part: Annotated[bytes, Meta(max_length=CHUNK)]


class Receipt(Struct, frozen=True, array_like=True, tag="receipt"):
    """The manager has every row of that boot up to `through` on its disk, or knows that it is lost."""

    manager: Text
    term: Count
    boot: Name
    through: Count


class Rebuff(Struct, frozen=True, array_like=True, tag="rebuff"):
    """The manager could not use a frame: why."""

    manager: Text
    term: Count
    reason: Line


FromAgent = AgentHello | Beat | Want | MapResult | OutcomeBatch
FromManager = Welcome | Chunk | Receipt | Rebuff
_ENCODER = Encoder()
_OF_AGENT: Decoder[FromAgent] = Decoder(FromAgent)
_OF_MANAGER: Decoder[FromManager] = Decoder(FromManager)
_ROW: Decoder[RowForm] = Decoder(RowForm)


def frame(message: FromAgent | FromManager) -> bytes:
    """Return a message as a frame."""
    return bytes((PROTOCOL,)) + _ENCODER.encode(message)


def from_agent(data: bytes) -> FromAgent:
    """Return the message in a frame. Errors: `MessageError`."""
    return _decoded(_OF_AGENT, data)


def from_manager(data: bytes) -> FromManager:
    """Return the message in a frame. Errors: `MessageError`."""
    return _decoded(_OF_MANAGER, data)


def _decoded(decoder: Decoder[T], data: bytes) -> T:
    if not 1 < len(data) <= MOST_FRAME:
        raise MessageError(f"a frame of {len(data)} bytes; at most {MOST_FRAME} are taken")
    if data[0] != PROTOCOL:
        older = "the sender" if data[0] < PROTOCOL else "this side"
        raise MessageError(f"protocol {data[0]}; this side speaks protocol {PROTOCOL}: upgrade {older}")
    try:
        return decoder.decode(memoryview(data)[1:])
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"not a message: {str(error)[:200]}") from error


class EncodedRows(NamedTuple):
    """Rows one after another as MessagePack, and how many."""

    number: int
    data: bytes


def encode_rows(rows: Sequence[OutcomeRow]) -> EncodedRows:
    """Return rows as a spool keeps them. Errors: `BadInput` for a row that no manager would take."""
    return EncodedRows(len(rows), b"".join(map(_encoded, rows)))


def _encoded(row: OutcomeRow) -> bytes:
    """Return a row as a `RowForm` that decodes again. Errors: `BadInput`."""
    try:
        data = _ENCODER.encode((*row[OF_BATCH:-1], dict(row.more)))
        _check_row(_ROW.decode(data))
        return data
    except (DecodeError, EncodeError, TypeError, OverflowError, UnicodeError, MessageError) as error:
        raise BadInput(f"outcome of {row.prefix[:64]!r} at {row.at_ns}: {str(error)[:200]}") from error


def _check_row(row: RowForm) -> None:
    """Check what types do not. Errors: `MessageError`."""
    # A sum is finite only if all of its numbers are: one look in place of five.
    total = (row.plt_ms or 0.0) + (row.propensity or 0.0) + (row.rtt_ms or 0.0) + (row.bandwidth_kbps or 0.0)
    if not isfinite(total + (row.loss or 0.0) + sum(row.more.values())):
        raise MessageError("a number is not finite")
    if row.plt_ms is not None and row.plt_ms <= 0:
        raise MessageError(f"plt_ms is {row.plt_ms:g}; a page load takes time")
    if (row.plt_ms is None) == (not row.failure):
        raise MessageError("an outcome has a page load time or a failure, not both and not neither")
    # A text of the database ends there.
    if "\0" in row.site + row.prefix + row.unit + row.class_name + row.profile + row.device:
        raise MessageError("a text has a NUL in it")


def batch_frame(boot: str, first: int, rows: EncodedRows) -> bytes:
    """Return the frame of an `OutcomeBatch` from rows as they were encoded."""
    array = b"\xdd" + rows.number.to_bytes(4, "big") + rows.data
    return bytes((PROTOCOL,)) + _ENCODER.encode(("outcomes", boot, first, Raw(array)))


def are_readable(rows: EncodedRows) -> bool:
    """Return whether a manager can read encoded rows, as many as their number."""
    try:
        message = from_agent(batch_frame("", 1, rows))
        return isinstance(message, OutcomeBatch) and len(outcome_rows("", message)) == rows.number
    except MessageError:
        return False


def outcome_rows(agent: str, batch: OutcomeBatch) -> list[OutcomeRow]:
    """Return the rows of a batch. Errors: `MessageError` for numbers that are none."""
    found = []
    for sequence, row in enumerate(batch.rows, batch.first):
        _check_row(row)
        found.append(OutcomeRow(agent, batch.boot, sequence, *astuple(row)))
    return found
