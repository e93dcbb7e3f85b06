# SPDX-License-Identifier: MIT
"""One version of the map as signed bytes.

Question   How does a root process accept a map that came through processes and hosts that it does not trust?
Method     The head (term, version, profiles, mixes, key, digest of the table, ...) is signed with Ed25519. The table's
           columns travel beside it; their digest must be the one in the signed head.
Stop when  The signature, every bound, and the digest hold.
Reads as   `HeadForm` and `MapTable`, thus a `FleetMap`.
Fails as   `MapRefused`, with the reason; nothing of the document is used.
Source     RFC 8032 (Ed25519); PyNaCl
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from configtron.fleet.map_table import MOST_CLASSES, MapTable, prefixes_of, table_from, table_of
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
    """A signed head and the columns of its table. base, drop4, drop6: of differences, which version 0.2 had."""

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
    """One version as a manager keeps it: the signed head, its bytes, and the table."""

    head: HeadForm
    head_bytes: bytes
    signature: bytes
    table: MapTable

    @property
    def place(self) -> tuple[int, int]:
        """Return (term, version): later maps have higher ones."""
        return self.head.term, self.head.version


@dataclass(frozen=True)
class OpenedMap:
    """A document that was checked: its head and its table."""

    head: HeadForm
    table: MapTable


def signed(new: FleetMap, manager: str, made_ns: int, key: SigningKey, why: str = "") -> SignedMap:
    """Return a map as signed bytes. Errors: `BadInput` for what no agent takes."""
    classes = tuple(sorted({*new.mixes, *new.prefixes.values(), *(band.class_name for band in new.bands)}))
    if len(classes) > MOST_CLASSES:
        raise BadInput(f"a map has at most {MOST_CLASSES} classes, not {len(classes)}")
    table = table_of(new.prefixes, {name: number for number, name in enumerate(classes)})
    form = HeadForm(
        form=FORM,
        manager=manager,
        term=new.term,
        version=new.version,
        made_ns=made_ns,
        not_after_ns=new.not_after_ns,
        digest=table.digest,
        classes=classes,
        profiles={name: dict(pairs_form(profile.settings)) for name, profile in new.profiles.items()},  # type: ignore[arg-type]
        mixes=dict(new.mixes),
        bands=tuple((band.up_to_us, band.class_name) for band in new.bands),
        key=new.key,
        holdback=new.holdback,
        epoch_s=new.epoch_s,
        ports=tuple(new.ports),
        lease_s=float(new.lease_s),
        why=why[:255],
    )
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
        raise MapRefused("the map expires before it was made")
    return head


def _decoded(decoder: Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise MapRefused(f"not a map: {str(error)[:200]}") from error


def document(new: SignedMap) -> bytes:
    """Return a version as bytes."""
    table = new.table
    columns = [column.tobytes() for column in (table.v4, table.class4, table.v6, table.class6)]
    return _ENCODER.encode(DocumentForm(new.head_bytes, new.signature, b"", *columns))


def chunks(data: bytes) -> list[bytes]:
    """Return a document in parts of a frame each. Errors: `BadInput` for one that is too large."""
    parts = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    if len(parts) > MOST_CHUNKS:
        raise BadInput(f"a map of {len(data)} bytes; at most {CHUNK * MOST_CHUNKS} are sent")
    return parts


def opened(data: bytes, key: VerifyKey) -> OpenedMap:
    """Return a document's map, checked. Errors: `MapRefused`."""
    form = _decoded(_DOCUMENT, data)
    try:
        key.verify(form.head, form.signature)
    except (CryptoError, ValueError) as error:
        raise MapRefused("its signature is not the manager's") from error
    head = read_head(form.head)
    if form.base:
        raise MapRefused("it is the difference to another map, as configtron 0.2 sent it: upgrade the manager")
    try:
        table = table_from(form.v4, form.class4, form.v6, form.class6)
    except BadInput as error:
        raise MapRefused(str(error)) from error
    if table.digest != head.digest:
        raise MapRefused("its table is not the one that was signed")
    if any(len(column) and int(column.max()) >= len(head.classes) for column in (table.class4, table.class6)):
        raise MapRefused("a prefix has a class without a name")
    return OpenedMap(head, table)


def fleet_map(head: HeadForm, prefixes: Mapping[str, str]) -> FleetMap:
    """Return a head and its prefixes as a map."""
    profiles = {name: Profile(name, pairs_of(settings)) for name, settings in head.profiles.items()}  # type: ignore[arg-type]
    bands = tuple(Band(up_to, name) for up_to, name in head.bands)
    return FleetMap(head.term, head.version, profiles, head.mixes, prefixes, head.key, head.not_after_ns, bands,
                    head.holdback, head.epoch_s, head.ports, head.lease_s)  # fmt: skip


def whole_map(opened_map: OpenedMap) -> FleetMap:
    """Return an opened map with all its prefixes."""
    return fleet_map(opened_map.head, prefixes_of(opened_map.table, opened_map.head.classes))
