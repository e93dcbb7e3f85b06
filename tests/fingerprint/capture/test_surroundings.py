# SPDX-License-Identifier: MIT
"""What files show of an address: networks, countries, devices; and files that are not what they should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from configtron.fingerprint.capture import surroundings
from configtron.fingerprint.capture.surroundings import AccessLog, Surroundings
from configtron.model.errors import BadInput
from tests.support import mmdb

PHONE, COMPUTER = "Mozilla/5.0 (iPhone) Mobile", "Mozilla/5.0 (Windows NT 10.0)"


def line(client: str, agent: str = PHONE) -> str:
    return f'{client} - - [21/Nov/2026:14:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "{agent}"\n'


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """As GeoLite2, DB-IP and IPinfo write them."""
    asn = {"198.51.100.0/24": {"autonomous_system_number": 64500}, "2001:db8::/32": {"autonomous_system_number": 64501}}
    country = {"198.51.0.0/16": {"country": {"iso_code": "DE"}}, "2001:db8:1::/48": {"country": {"iso_code": "BR"}}}
    other = {"203.0.113.0/24": {"asn": "AS64502", "country_code": "JP"}, "192.0.2.0/24": {"asn": "?", "country": "AU"}}
    paths = []
    for name, networks in (("asn", asn), ("country", country), ("other", other)):
        paths.append(tmp_path / f"{name}.mmdb")
        paths[-1].write_bytes(mmdb.database(networks))
    return paths


@pytest.mark.parametrize(("address", "asn", "region"), [
    ("198.51.100.9", 64500, "DE"), ("198.51.7.1", None, "DE"), ("2001:db8:1::5", 64501, "BR"),
    ("2001:db8:2::5", 64501, ""), ("203.0.113.200", 64502, "JP"), ("192.0.2.1", None, "AU"), ("10.0.0.1", None, ""),
])  # fmt: skip
def test_networks_and_countries(places: list[Path], address: str, asn: int | None, region: str) -> None:
    found = Surroundings(places).about(address)
    assert (found.asn, found.region) == (asn, region)
    missing = {name for name, known in (("asn", asn), ("region", region)) if not known}
    assert dict(found.unknown) == {**dict.fromkeys(missing, "not-listed"), "device": "no-log"}


def test_without_files_there_is_a_reason() -> None:
    unknown = dict(Surroundings().about("192.0.2.1").unknown)
    assert unknown == {"asn": "no-file", "region": "no-file", "device": "no-log"}


def test_devices_by_address(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    lines = [line("192.0.2.1"), line("192.0.2.2", COMPUTER), line("192.0.2.2"), line("::ffff:192.0.2.3", "Mosaic"),
             line("2001:0db8:0::7", COMPUTER), "no line of a log\n", "\n", line("1.2.3.4.5")]  # fmt: skip
    path.write_text("".join(lines))
    log = AccessLog(path)
    assert log.of("192.0.2.1") == ("phone", "") and log.of("2001:db8::7") == ("computer", "")
    assert log.of("192.0.2.2") == ("", "several-devices")
    assert log.of("192.0.2.3") == ("", "unlike-any") and log.of("192.0.2.4") == ("", "not-logged")
    assert log.unread == 2


def test_a_log_grows_is_rotated_and_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("")
    log = AccessLog(path)
    with path.open("a") as file:
        file.write(line("192.0.2.1")[:40])
        file.flush()
        log.read()
        assert log.of("192.0.2.1") == ("", "not-logged"), "half a line"
        file.write(line("192.0.2.1")[40:])
    log.read()
    assert log.of("192.0.2.1") == ("phone", "")
    path.rename(tmp_path / "access.log.1")
    with (tmp_path / "access.log.1").open("a") as file:
        file.write(line("192.0.2.2"))
    path.write_text(line("192.0.2.3"))
    log.read()
    assert log.of("192.0.2.2") == log.of("192.0.2.3") == ("phone", ""), "the end of the old one, and the new one"
    os.truncate(path, 0)
    log.read()
    with path.open("a") as file:
        file.write(line("192.0.2.4"))
    log.read()
    assert log.of("192.0.2.4") == ("phone", "") and log.unread == 0
    path.unlink()
    log.read()
    assert log.of("192.0.2.4") == ("phone", "")


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(line(f"192.0.2.{n}") for n in (1, 2, 3, 1, 4)) + "x" * 1_000_000)
    log = AccessLog(path, clients_most=3)
    assert [log.of(f"192.0.2.{n}")[0] for n in (1, 2, 3, 4)] == ["phone", "", "phone", "phone"]
    assert len(log._rest) <= surroundings.LINE_BYTES


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "cat.mmdb").write_bytes(b"GIF89a, a picture of a cat" * 100)
    for path in (tmp_path / "cat.mmdb", tmp_path / "absent.mmdb", tmp_path):
        with pytest.raises(BadInput) as caught:
            Surroundings([path])
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="No such file"):
        Surroundings([], tmp_path / "absent.log")
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        for given in (([endless], None), ([], endless)):
            with pytest.raises(BadInput, match="a pipe or device"):
                Surroundings(*given)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path, place = tmp_path / "a.mmdb", {"location": {"latitude": 1, "longitude": 2}}
    for record, kinds in ((place, [True]), ({"asn": "AS64500"}, [False]), ({"country": "DE"} | place, [False, True]),
                          ({"is_anonymous": 1}, []), ({"asn": "none"}, []), (7, [])):  # fmt: skip
        path.write_bytes(mmdb.database({"192.0.2.0/25": {}, "192.0.2.128/25": record}, "Other-Kind"))  # type: ignore[dict-item]
        for located in (False, True):
            if located in kinds:
                assert len(surroundings.Places([path], located=located)) == 1
            else:
                with pytest.raises(BadInput, match="a.mmdb: none of its first 100000 records has .* type Other-Kind"):
                    surroundings.Places([path], located=located)


def test_a_sparse_file_of_the_right_kind_is_taken(tmp_path: Path) -> None:
    nets = {f"10.{n >> 8}.{n & 255}.0/24": {} for n in range(1500)}
    (tmp_path / "a.mmdb").write_bytes(mmdb.database(nets | {"192.0.2.0/24": {"asn": "AS64500"}}))
    assert len(surroundings.Places([tmp_path / "a.mmdb"], located=False)) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    whole = mmdb.database({"198.51.100.0/24": {"autonomous_system_number": 64500}})
    at = whole.index(mmdb.MARKER)
    path = tmp_path / "damaged.mmdb"
    path.write_bytes(whole[: at - 12] + b"\xff" * 12 + whole[at:])
    with pytest.raises(BadInput, match="damaged.mmdb: not a MaxMind-format"):
        Surroundings([path])


@pytest.mark.parametrize("noise", [b"{}\n[]\n", b"\n\nhello, world\n", b"\x00\x01\xff\n", b"1.2.3.4 GET /\n"])
def test_noise_is_no_log(noise: bytes, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(noise)
    number = 3 if noise.startswith(b"\n") else 1
    with pytest.raises(BadInput, match=f"access.log: line {number} is no line of an access log") as caught:
        AccessLog(path)
    assert str(caught.value).isprintable()
