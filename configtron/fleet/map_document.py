# SPDX-License-Identifier: MIT
"""One version of the map as signed bytes: whole, or as the difference to a table that the reader has.

Question   How does a root process accept a map that came through processes and hosts that it does not trust?
Method     The head (term, version, profiles, mixes, key, digest of the table, ...) is signed with Ed25519. The table's
           columns travel beside it, whole or as a change of another table, whose digest is named; the digest of what
           they lead to must be the one in the signed head.
Stop when  The signature, every bound, and the digest hold.
Reads as   `MapHead` and `MapTable`, thus a `FleetMap`.
Fails as   `MapRefused`, with the reason; nothing of the document is used.
Differs    from a signature over the bytes of a message: whole map and difference lead to one signed state, by whatever
           way they came (socket, file, relay).
Source     RFC 8032 (Ed25519); PyNaCl
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from operator import eq, ne
from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from configtron.fleet.map_table import (
    MOST_CLASSES,
    MapTable,
    TableChange,
    apply_change,
    difference,
    keys4_from,
    keys6_from,
    prefixes_of,
    table_from,
    table_of,
)
from configtron.fleet.messages import CHUNK, MOST_CHUNKS, Count, Digest, Name, Share, Text
from configtron.model.errors import BadInput
from configtron.model.fleet import MOST_ARMS, MOST_BANDS, WHOLE, Band, FleetMap
from configtron.model.nouns import Profile
from configtron.model.records import pairs_form, pairs_of

T = TypeVar("T")

# Of a document that is read. Form 1 had one digest over all columns.
FORM = 2
# Profiles of a map: the kernel counts them in 16 bits, and 256 of them is beyond any grid.
MOST_PROFILES = 4096
# s; a lease that lasts longer protects from nothing, a shorter one ends between two renewals.
LEAST_LEASE_S, MOST_LEASE_S = 2.0, 60.0
LEAST_EPOCH_S, MOST_EPOCH_S = 10, 86_400
KEY_BYTES, SIGNATURE_BYTES = 16, 64
Scalar = int | float | str | bool


class MapRefused(Exception):
    """A map that is not used: the reason, in one line."""


class HeadForm(Struct, frozen=True, array_like=True):
    """All of a map but its table. `made_ns`: the manager's wall clock, from which `not_after_ns` counts."""

    form: int
    manager: Text
    term: Count
    version: Count
    made_ns: Count
    not_after_ns: Count
    digest: Digest
    classes: Annotated[tuple[Text, ...], Meta(max_length=MOST_CLASSES)]
    profiles: Annotated[dict[Name, dict[Name, Scalar]], Meta(max_length=MOST_PROFILES)]
    mixes: Annotated[dict[Text, tuple[tuple[Name, int], ...]], Meta(max_length=MOST_CLASSES)]
    bands: Annotated[tuple[tuple[Count, Text], ...], Meta(max_length=MOST_BANDS)]
    key: Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    holdback: Annotated[int, Meta(ge=0, le=WHOLE)]
    epoch_s: Annotated[int, Meta(ge=LEAST_EPOCH_S, le=MOST_EPOCH_S)]
    ports: Annotated[tuple[Annotated[int, Meta(ge=1, le=65_535)], ...], Meta(max_length=64)]
    lease_s: Annotated[float, Meta(ge=LEAST_LEASE_S, le=MOST_LEASE_S)]
    why: Text = ""
    share: Share = 1.0


class DocumentForm(Struct, frozen=True, array_like=True):
    """A signed head and the columns of a table, or of its difference to the table whose digest is `base`."""

    head: bytes
    signature: Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
    base: Digest
    v4: bytes
    class4: bytes
    v6: bytes
    class6: bytes
    drop4: bytes = b""
    drop6: bytes = b""


_ENCODER = Encoder()
_HEAD: Decoder[HeadForm] = Decoder(HeadForm)
_DOCUMENT: Decoder[DocumentForm] = Decoder(DocumentForm)


@dataclass(frozen=True)
class SignedMap:
    """One version as a manager keeps it: the signed head, its bytes, and the table.

    base, change  digest of the table before it, and what leads from that to this one; None: not known
    """

    head: HeadForm
    head_bytes: bytes
    signature: bytes
    table: MapTable
    base: bytes = b""
    change: TableChange | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Return (term, version): later maps have higher ones."""
        return self.head.term, self.head.version


@dataclass(frozen=True)
class OpenedMap:
    """A document that was checked: its head, its table, and what changed (None: the table came whole)."""

    head: HeadForm
    table: MapTable
    change: TableChange | None


def class_ids(new: FleetMap, before: tuple[str, ...] = ()) -> dict[str, int]:
    """Return class -> number; classes that were numbered `before` keep their numbers, so that differences stay small.

    Errors: `BadInput` for more classes than have numbers.
    """
    wanted = {*new.mixes, *new.prefixes.values(), *(band.class_name for band in new.bands)}
    ids = {name: number for number, name in enumerate(before)}
    for name in sorted(wanted - ids.keys()):
        ids[name] = len(ids)
    if len(ids) > MOST_CLASSES:
        # Numbers of classes that are gone are given anew once they run out.
        ids = {name: number for number, name in enumerate(sorted(wanted))}
    if len(ids) > MOST_CLASSES:
        raise BadInput(f"a map has at most {MOST_CLASSES} classes, not {len(ids)}")
    return ids


def signed(new: FleetMap, manager: str, made_ns: int, key: SigningKey, before: SignedMap | None = None,
           why: str = "") -> SignedMap:  # fmt: skip
    """Return a map as signed bytes. `before`: the version that it follows. Errors: `BadInput` for what no agent takes.

    Only prefixes that differ from the version before are parsed: a change of a hundred takes milliseconds.
    """
    ids = class_ids(new, before.head.classes if before else ())
    classes = tuple(ids)
    table = table_of(new.prefixes, ids)
    return _signed(new, manager, made_ns, key, classes, table, why)


def signed_after(new: FleetMap, manager: str, made_ns: int, key: SigningKey, before: SignedMap,
                 prefixes_before: Mapping[str, str], why: str = "") -> SignedMap:  # fmt: skip
    """Return what `signed` does, at the cost of the prefixes that changed; `prefixes_before`: those of `before`."""
    put = _put(new.prefixes, prefixes_before)
    # the other prefixes' classes have numbers
    ids = class_ids(replace(new, prefixes=put), before.head.classes)
    classes = tuple(ids)
    if classes[: len(before.head.classes)] != before.head.classes:
        return signed(new, manager, made_ns, key, before, why)
    fresh = sum(prefix not in prefixes_before for prefix in put)
    gone: Iterable[str] = ()
    if len(new.prefixes) - fresh < len(prefixes_before):
        gone = prefixes_before.keys() - new.prefixes.keys()
    dropped = table_of(dict.fromkeys(gone, ""), {"": 0})
    change = TableChange(table_of(put, ids), dropped.v4, dropped.v6)
    made = _signed(new, manager, made_ns, key, classes, apply_change(before.table, change), why)
    return replace(made, base=before.table.digest, change=change)


def _put(new: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the prefixes that are new or of another class."""
    if len(new) == len(before) and all(map(eq, new, before)):
        # the same prefixes in the same order, as most maps of an epoch are: nothing needs to be looked up
        return dict(compress(new.items(), map(ne, new.values(), before.values())))
    return {prefix: name for prefix, name in new.items() if before.get(prefix) != name}


def _signed(new: FleetMap, manager: str, made_ns: int, key: SigningKey, classes: tuple[str, ...], table: MapTable,
            why: str) -> SignedMap:  # fmt: skip
    form = HeadForm(
        FORM, manager, new.term, new.version, made_ns, new.not_after_ns, table.digest, classes,
        {name: dict(pairs_form(profile.settings)) for name, profile in new.profiles.items()},  # type: ignore[arg-type]
        dict(new.mixes), tuple((band.up_to_us, band.class_name) for band in new.bands), new.key, new.holdback,
        new.epoch_s, tuple(new.ports), float(new.lease_s), why[:255],
    )  # fmt: skip
    try:
        head_bytes = _ENCODER.encode(form)
        head = read_head(head_bytes)
    except (MapRefused, OverflowError) as error:
        raise BadInput(f"map {new.term}.{new.version}: {error}") from error
    return SignedMap(head, head_bytes, key.sign(head_bytes).signature, table)


def read_head(data: bytes) -> HeadForm:
    """Return a head that keeps every bound; its signature is not checked here. Errors: `MapRefused`."""
    head = _decoded(_HEAD, data)
    if head.form != FORM:
        older = "the manager" if head.form < FORM else "this side"
        raise MapRefused(f"a map of form {head.form}; this configtron reads form {FORM}: upgrade {older}")
    names = set(head.classes)
    for name, mix in head.mixes.items():
        if name not in names:
            raise MapRefused(f"class {name!r} has a mix and no number")
        if not 1 <= len(mix) <= MOST_ARMS or any(weight <= 0 for _, weight in mix):
            raise MapRefused(
                f"class {name!r} has {len(mix)} profiles; 1 to {MOST_ARMS} with positive weights are taken"
            )
        if sum(weight for _, weight in mix) != WHOLE:
            raise MapRefused(f"the weights of class {name!r} sum to {sum(weight for _, weight in mix)}, not {WHOLE}")
        if absent := sorted({profile for profile, _ in mix} - head.profiles.keys()):
            raise MapRefused(f"class {name!r} names profile {absent[0]!r}, which the map lacks")
    ends = [up_to for up_to, _ in head.bands]
    if ends != sorted(set(ends)) or any(name not in head.mixes for _, name in head.bands):
        raise MapRefused("bands of round-trip time do not ascend, or name a class without a mix")
    if head.not_after_ns <= head.made_ns:
        raise MapRefused("the map is void since it was made")
    return head


def _decoded(decoder: Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise MapRefused(f"not a map: {str(error)[:200]}") from error


def document(new: SignedMap, base: MapTable | None = None) -> bytes:
    """Return a version as bytes: whole, or as the difference to a table."""
    if base is None:
        table = new.table
        columns = [column.tobytes() for column in (table.v4, table.class4, table.v6, table.class6)]
        return _ENCODER.encode(DocumentForm(new.head_bytes, new.signature, b"", *columns))
    known = new.change if new.base == base.digest else None
    change = difference(base, new.table) if known is None else known
    put = change.put
    columns = [column.tobytes() for column in (put.v4, put.class4, put.v6, put.class6, change.drop4, change.drop6)]
    return _ENCODER.encode(DocumentForm(new.head_bytes, new.signature, base.digest, *columns))


def chunks(data: bytes) -> list[bytes]:
    """Return a document in parts of a frame each. Errors: `BadInput` for one that is too large."""
    parts = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    if len(parts) > MOST_CHUNKS:
        raise BadInput(f"a map of {len(data)} bytes; at most {CHUNK * MOST_CHUNKS} are sent")
    return parts


def opened(data: bytes, key: VerifyKey, base: MapTable | None) -> OpenedMap:
    """Return a document's map, checked; `base`: the table in force here. Errors: `MapRefused`."""
    form = _decoded(_DOCUMENT, data)
    try:
        key.verify(form.head, form.signature)
    except (CryptoError, ValueError) as error:
        raise MapRefused("its signature is not the manager's") from error
    head = read_head(form.head)
    try:
        put = table_from(form.v4, form.class4, form.v6, form.class6)
        change = TableChange(put, keys4_from(form.drop4), keys6_from(form.drop6)) if form.base else None
    except BadInput as error:
        raise MapRefused(str(error)) from error
    if change is not None and (base is None or base.digest != form.base):
        raise MapRefused(WRONG_BASE)
    table = put if change is None or base is None else apply_change(base, change)
    if table.digest != head.digest:
        raise MapRefused("its table is not the one that was signed")
    if any(len(column) and int(column.max()) >= len(head.classes) for column in (table.class4, table.class6)):
        raise MapRefused("a prefix has a class without a name")
    return OpenedMap(head, table, change)


WRONG_BASE = "it is the difference to a table that is not in force here"


def fleet_map(head: HeadForm, prefixes: Mapping[str, str]) -> FleetMap:
    """Return a head and its prefixes as a map."""
    profiles = {name: Profile(name, pairs_of(settings)) for name, settings in head.profiles.items()}  # type: ignore[arg-type]
    bands = tuple(Band(up_to, name) for up_to, name in head.bands)
    return FleetMap(head.term, head.version, profiles, head.mixes, prefixes, head.key, head.not_after_ns, bands,
                    head.holdback, head.epoch_s, head.ports, head.lease_s)  # fmt: skip


def whole_map(opened_map: OpenedMap) -> FleetMap:
    """Return an opened map with all its prefixes."""
    return fleet_map(opened_map.head, prefixes_of(opened_map.table, opened_map.head.classes))
