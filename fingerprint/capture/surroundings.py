# SPDX-License-Identifier: MIT
"""Facts about an address, from files: its network and country (MaxMind's format), its device (an access log).

Rules for this file: an absent or broken file is one line at the start; afterwards nothing stops a watch. A log may
grow, be rotated or be cut while it is read; the memory of it is bounded. Dropped: of a record all but number, country
and place (`registered_country` is where a network was registered, not where it is).
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from configtron.fingerprint.device import device_of, logged
from configtron.fingerprint.features import AddressFacts, Unknown, plain_text
from configtron.model.errors import BadInput

# Clients remembered of a log; the ones not heard of for longest are forgotten.
CLIENTS_MOST = 100_000
# Read of a log at a time, so that one that grows fast does not hold up a capture.
READ_BYTES = 1 << 22
# A line that is longer is no line of a log.
LINE_BYTES = 1 << 16
# Records of a database that show its kind: few networks of a city or country lack their own.
RECORDS = 100_000
# Characters of a strange line that are shown.
SHOWN = 40


class Places:
    """Networks and countries, of any number of files; the first that knows counts."""

    def __init__(self, paths: Sequence[Path], *, located: bool = False) -> None:
        self._databases = [_database(path, located=located) for path in paths]

    def of(self, address: str) -> tuple[int | None, str]:
        """Return (ASN, country) of an address: (None, "") where unknown."""
        records = [record for base in self._databases if isinstance(record := _record(base, address), dict)]
        numbers = (_asn(record) for record in records)
        countries = (_country(record) for record in records)
        return next((n for n in numbers if n is not None), None), next((name for name in countries if name), "")

    def location(self, address: str) -> tuple[float, float] | None:
        """Return (latitude, longitude) of an address, degrees as the file has them; None where unknown."""
        records = (_record(base, address) for base in self._databases)
        return next((place for record in records if (place := _location(record)) is not None), None)

    def __len__(self) -> int:
        return len(self._databases)


def _check(path: Path) -> None:
    """A pipe would hold up the watch until a process writes, a device for ever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path}: a pipe or device; name an ordinary file")


def _database(path: Path, *, located: bool) -> Any:
    """Errors: `BadInput`, also where none of the file's first records has what is asked for: its kind is another."""
    _check(path)
    import maxminddb

    try:
        base = maxminddb.open_database(str(path))
        some = (one for _, one in islice(base, RECORDS) if isinstance(one, dict))
        if any(_location(one) if located else _asn(one) or _country(one) for one in some):
            return base
        kind, lacks = base.metadata().database_type, " location" if located else "n ASN or country"
        raise BadInput(f"{path}: none of its first {RECORDS} records has a{lacks}; it is of type {kind}, name another")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except (maxminddb.InvalidDatabaseError, ValueError) as error:
        raise BadInput(f"{path}: not a MaxMind-format database (.mmdb)") from error


def _record(base: Any, address: str) -> Any:
    # A file of IPv4 alone refuses IPv6; a damaged one says so when the damage is met.
    with suppress(ValueError, RuntimeError):
        return base.get(address)
    return None


def _asn(record: dict[str, Any]) -> int | None:
    """GeoLite2, DB-IP: a number; IPinfo: "AS64500"."""
    number = record.get("autonomous_system_number", record.get("asn"))
    if isinstance(number, int):
        return number
    digits = number.removeprefix("AS") if isinstance(number, str) else ""
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _country(record: dict[str, Any]) -> str:
    """GeoLite2, DB-IP: a map with the code; IPinfo: the code."""
    country = record.get("country")
    code = country.get("iso_code") if isinstance(country, dict) else record.get("country_code", country)
    return code if isinstance(code, str) else ""


def _location(record: object) -> tuple[float, float] | None:
    """GeoLite2, DB-IP: a map with two numbers."""
    place = record.get("location") if isinstance(record, dict) else None
    found = [place.get(name) for name in ("latitude", "longitude")] if isinstance(place, dict) else []
    numbers = [float(one) for one in found if isinstance(one, int | float) and not isinstance(one, bool)]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


class AccessLog:
    """Device classes by client address, of a log that may grow meanwhile."""

    def __init__(self, path: Path, *, clients_most: int = CLIENTS_MOST) -> None:
        self.path, self._clients_most = path, clients_most
        self.unread = 0
        # Number and text of the first line that is none of a log.
        self._strange: tuple[int, bytes] = (0, b"")
        self._lines = 0
        self._seen: OrderedDict[str, Counter[str]] = OrderedDict()
        self._rest = b""
        try:
            _check(path)
            self._file = path.open("rb")
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        self.read()
        if self.unread and not self._seen:
            number, line = self._strange
            text = "".join(c if c.isprintable() else "?" for c in line[:SHOWN].decode("utf-8", "replace"))
            raise BadInput(f"{path}: line {number} is no line of an access log (combined format): {text}")

    def read(self) -> None:
        """Return the lines written since the last call."""
        while data := self._file.read(READ_BYTES):
            self._take(data)
        with suppress(OSError):
            about, here = self.path.stat(), self._file.tell()
            if about.st_ino != os.fstat(self._file.fileno()).st_ino:
                self._file.close()
                self._file, self._rest = self.path.open("rb"), b""
                while data := self._file.read(READ_BYTES):
                    self._take(data)
            elif about.st_size < here:
                self._file.seek(0)
                self._rest = b""

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:LINE_BYTES]
        for line in lines:
            found = logged(line[:LINE_BYTES].decode("utf-8", "replace"))
            client = plain_text(found.client) if found is not None else ""
            self._lines += 1
            if found is None or not client:
                if line.strip() and not self.unread:
                    self._strange = self._lines, line
                self.unread += bool(line.strip())
                continue
            self._seen.setdefault(client, Counter())[device_of(found.agent)] += 1
            self._seen.move_to_end(client)
        while len(self._seen) > self._clients_most:
            self._seen.popitem(last=False)

    def of(self, address: str) -> tuple[str, str]:
        """Return (device class, "") of an address, or ("", why it has none)."""
        seen = self._seen.get(address)
        if seen is None:
            return "", "not-logged"
        classes = [name for name in seen if name]
        if len(classes) > 1:
            return "", "several-devices"
        return (classes[0], "") if classes else ("", "unlike-any")


class Surroundings:
    """All of it: `about(address)` never fails."""

    def __init__(self, places: Sequence[Path] = (), log: Path | None = None) -> None:
        self._places = Places(places)
        self.log = AccessLog(log) if log is not None else None

    def about(self, address: str) -> AddressFacts:
        """Return network, country and device of an address, each with the reason if it is unknown."""
        asn, region = self._places.of(address)
        device, why = self.log.of(address) if self.log is not None else ("", "no-log")
        missing = "not-listed" if len(self._places) else "no-file"
        absent = (("asn", missing, asn is None), ("region", missing, not region), ("device", why, not device))
        unknown: Unknown = tuple((name, reason) for name, reason, lacks in absent if lacks)
        return AddressFacts(asn, region, device, unknown)

    def read(self) -> None:
        """Read on where something grows."""
        if self.log is not None:
            self.log.read()
