# SPDX-License-Identifier: MIT
"""`configtron fingerprint pcap` as people type it, run in this process."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.cli.settings import hint
from configtron.model.errors import DONE, NOTHING, PARTIAL, PRIVILEGE, USAGE
from configtron.model.nouns import ACK, PSH, RST, SYN
from configtron.report.connection_choice import _sort_key
from configtron.service.capture import CaptureReading
from configtron.service.progress import Event
from tests.support import ROOT
from tests.support import capture_bytes as write
from tests.support import made_capture as made
from tests.support.synthetic_capture import write as write_page_loads

Spoken = pytest.CaptureFixture[str]

# Modules that are imported when a capture is read.
AT_WORK = ("configtron.fingerprint.passive", "configtron.service.capture")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a.pcap"
    frames = [*write.conversation(4, segments=12), *write.conversation(6, port=40001, start_ns=write.START_NS + 10**9)]
    path.write_bytes(write.pcap(frames, nano=True))
    return str(path)


def pcap(*words: object, code: int = DONE) -> None:
    assert run(["fingerprint", "pcap", *map(str, words)]) == code


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """A download with a tail probe, an upload with two and a closed window, 50 ports, 45 refused, the last twice."""
    down = made.talk(made.flight(0.3, 0, 4), made.acked(3, 0.4), made.flight(2.0, 3, 1))
    up = made.Conversation(port=40001, start_s=1010.0, asked=False)
    for n in (0, 1, 2, 3):
        up.send(0, 0.2 + n / 1000, ACK, 1 + n * made.FULL, 1, made.FULL)
    up.window = 0
    up.send(1, 0.3, ACK, 0, 1 + made.FULL)
    up.window = 65535
    for n in (1, 2):
        up.send(0, 2.5 + n, ACK, 1 + n * made.FULL, 1, made.FULL)
    scan = [made.Conversation(port=50_000 + n, start_s=1020.0 + n, opened=False, asked=False) for n in range(50)]
    for n, one in enumerate(scan):
        one.send(0, 0.0, SYN, 0, 0)
        if n < 45:
            one.send(1, 0.1, RST | ACK, 0, 1)
    scan[-1].send(0, 1.0, SYN, 0, 0)
    return str(made.written([frame for one in (down, up, *scan) for frame in one.frames], tmp_path))


def test_a_table_has_both_directions_worst_first_and_a_line_of_sums(file: str, mixed: str, capsys: Spoken) -> None:
    pcap(file)
    out, err = capsys.readouterr()
    for part in ("192.0.2.1:40000", "[2001:db8::2]:80", "http/1.1", "40.0"):
        assert part in out
    assert err == "29 frames, 29 tcp, 2 connections\n"
    pcap(mixed, "--where", "bytes>0")
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[6:] == "up up again down down again shut icw end slow because".split()
    assert [" ".join(row.split()[3:]) for row in rows[:2]] == [
        "4.500 100.0 3.95 kB 2/0/0/0 33 % 0 B 0/1 - open timeouts 4.3 s, 2 x from frame 18; zero window: server's 1 x",
        "2.000 100.0 100 B 3.95 kB 0/1/0/0 0.0 % >= 4 L open tail loss probes 1.7 s, 1 x from frame 9",
    ]
    pcap(mixed)
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[-1] for row in rows[1:3]] == ["no SYN-ACK to 2 SYNs", "refused"]
    assert len(rows) == 40 + 5 and rows[40] == (
        "52 connections (40 shown; --all shows every one); 8 kB; 17 % sent again; 2 timeouts; 1 zero window; 45 resets"
    )
    pcap(mixed, "--all")
    assert len(capsys.readouterr().out.splitlines()) == 1 + 52 + 5


@pytest.mark.parametrize(("typed", "ports"), [
    ("--where trouble>0 --where bytes>0", [40000, 40001]),
    ("--where trouble=10 --where client_port<50002", [50000, 50001]), ("--where trouble=20", [50049]),
    ("--where trouble=30", [40001]), ("--where trouble=1", [40000]),
    ("--where loss>25", [40001]), ("--where loss<=25", [40000]),
    (r"--where client~:4000\d$ --where client_bytes>=1000", [40001]), ("--where rtt>0.05", [40000, 40001]),
    ("--where ended!=reset --where server=198.51.100.2:80 --where client_port<50046", [40000, 40001, 50045]),
    ("--where icw>=4", [40000]), ("--where icw>4", []), ("--where icw<9", []), ("--where icw!=3", [40000]),
    ("--where icw!~5", [40000]), ("--where tls=x", []), ("--where icw_grade=L", [40000]),
    ("--where end=open --where s>3", [40001]),
    ("--sort loss --where bytes>0", [40001, 40000]), ("--sort icw_reason --where bytes>0", [40001, 40000]),
    ("--filter tcp[0:2]==40001||tcp[2:2]==40001", [40001]), ("--filter len<0", []),
    ("--connection 1", [40000]), ("--connection 3", []),
])  # fmt: skip
def test_connections_are_chosen_and_sorted_in_every_form(
    typed: str, ports: list[int], mixed: str, capsys: Spoken
) -> None:
    code, words = DONE if ports else NOTHING, typed.split()
    pcap(mixed, "-f", "csv", *words, code=code)
    assert [int(row["client_port"]) for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ports
    pcap(mixed, "-f", "jsonl", *words, code=code)
    assert [json.loads(line)["client"]["port"] for line in capsys.readouterr().out.splitlines()] == ports
    pcap(mixed, *words, code=code)
    out = capsys.readouterr().out
    assert all(str(port) in out for port in ports) and bool(out) == bool(ports)
    pcap(mixed, "--servers", "-f", "csv", *words, code=USAGE if "--sort" in typed else code)
    assert ("198.51.100.2" in capsys.readouterr().out) == (bool(ports) and "--sort" not in typed)


def test_numbers_come_before_texts() -> None:
    cells = ["nan", "b", "", "2", "inf", "a", "10"]
    assert sorted(cells, key=_sort_key) == ["10", "2", "a", "b", "inf", "nan", ""]


def test_a_filter_is_made_for_each_link_layer(tmp_path: Path, capsys: Spoken) -> None:
    """Raw IP by both numbers that files have, Ethernet, Linux cooked in both forms, loopback."""
    path = tmp_path / "links.pcap"
    heads = {101: b"", 228: b"", 1: bytes(12) + b"\x08\x00", 113: bytes(14) + b"\x08\x00",
             276: b"\x08\x00" + bytes(18), 0: b"\2\0\0\0"}  # fmt: skip
    for link, head in heads.items():
        frames = [*write.conversation(), *write.conversation(port=40001)]
        path.write_bytes(write.pcap([(at, head + frame) for at, frame in frames], nano=True, link=link))
        pcap(path, "-f", "csv", "--filter", "tcp port 40001")
        out, err = capsys.readouterr()
        assert out.count("\n") == 2 and err == "20 frames, 10 tcp, 1 connection; 10 filtered\n", link


def test_a_connection_in_whole(file: str, capsys: Spoken) -> None:
    pcap(file, "--connection", "1")
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in ("mss 1460 1460", "bytes 27 12000", "handshake rtt 0.040001"):
        assert row.split() in words
    assert any(line[:1] == ["signature"] for line in words)


def test_frames_of_limits_and_observations_name_their_files(tmp_path: Path, capsys: Spoken) -> None:
    talk = made.talk(made.flight(0.3, 0, 4), made.acked(4, 0.4), made.flight(2.4, 4, 2)).frames
    parts = [str(tmp_path / name) for name in ("a.pcap", "b.pcap")]
    for path, frames in zip(parts, (talk[:5], talk[5:]), strict=True):
        Path(path).write_bytes(write.pcap(frames, nano=True))
    pcap(*parts, "-f", "jsonl")
    line = json.loads(capsys.readouterr().out)
    assert (line["windows"][0]["frame"], line["windows"][0]["file"]) == (5, parts[1])
    found = {one["limit"]: one for one in line["limits"]}
    assert (found["sender"]["frames"], found["sender"]["files"]) == ([4, 5], parts[1:] * 2)
    icw, sack = (line["observations"][name] for name in ("icw", "sack"))
    assert (icw["evidence"], icw["files"]) == ([5, 1, 2, 3], [parts[0], *parts[1:] * 3])
    assert [one.get("files") for one in (found["server"], sack)] == [None, None] and found["server"]["frames"] == [5]
    pcap(*parts, "--connection", "1:1")
    out, err = capsys.readouterr()
    assert re.search(r"^sender +87\.5 % +2\.100 +1 +C +2:4 2:5$", out, re.M) and "{" not in out
    assert re.search(r"^ +2 +L +unverified +idle +2\.400 +2:5$", out, re.M) and "5 2:1 2:2 2:3\n" in out
    assert re.search(r"^slow because +sender's application or buffer 87 %$", out, re.M)
    assert err == "11 frames, 11 tcp, 1 connection; 1 chosen\n"


def test_lines_stand_by_first_frame_however_early_connections_end(
    tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One goes on from the first frame to the last, while the others end and memory holds no more than 150 rows."""
    long = made.talk(*(made.says(0, 1.0 + n, ACK | PSH, 101 + n, 1, 1) for n in range(60)))
    short = [f for n in range(12) for f in write.conversation(port=5000 + n, start_ns=(1001 + 2 * n) * 10**9)]
    path = made.written([*long.frames, *short], tmp_path)
    shown: list[str] = []
    for most in (400_000, 150):
        monkeypatch.setattr("configtron.service.capture.reading.MOST", most)
        for form in ("csv", "jsonl", "table"):
            pcap(path, "-f", form)
            # A spell that goes on over a cut counts once in each part.
            shown.append(re.sub(r'"times":\d+', "", capsys.readouterr().out))
    assert shown[:3] == shown[3:] and shown[0].count("\n") == 14


def test_json_lines(file: str, capsys: Spoken) -> None:
    assert run(["-q", "fingerprint", "pcap", file, "-f", "jsonl"]) == DONE
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in out.splitlines())
    assert err == ""
    assert first["schema"] == "configtron.connection/1" and (first["file"], first["frame"]) == (file, 1)
    assert first["handshake"] == {"rtt": 0.040001, "rtt_server": 0.04, "rtt_client": 1e-06, "syns": 1, "synacks": 1,
                                  "sack": False, "stamps": True}  # fmt: skip
    assert first["captured_at"] == "client" and first["ended"] == "fin"
    assert first["client"]["address"] == "192.0.2.1" and first["server"]["bytes"] == 12_000
    assert second["client"]["port"] == 40001


def test_csv_and_output_file(file: str, tmp_path: Path, capsys: Spoken) -> None:
    pcap(file, file, "-o", tmp_path / "o.CSV")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "o.CSV").read_text())))
    # Each segment twice, the SYN-ACK too: the flight is a bound of the initial window.
    assert len(rows) == 2, "the same file twice is each segment twice"
    assert rows[0]["server_address"] == "198.51.100.2" and rows[0]["icw_grade"] == "L"
    pcap(file, "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0]["icw"].startswith(">= ") and rows[0]["http_clear"] == "http/1.1"
    assert rows[0]["started_at"].replace(".", "") == str(write.START_NS), "to the nanosecond, which no float holds"


def test_a_page_is_utf_8_whatever_the_charset(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, "latin-1"))
    pcap(file, "-f", "html")
    assert "</html>" in out.getvalue().decode("utf-8")


def test_servers_of_several_connections(file: str, tmp_path: Path, capsys: Spoken) -> None:
    frames = [f for n in range(3) for f in write.conversation(port=40000 + n, start_ns=write.START_NS + n * 10**9)]
    path = tmp_path / "three.pcap"
    path.write_bytes(write.pcap(frames, nano=True))
    pcap(path, "--servers", "-f", "jsonl")
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    verdict = record["observations"]["http_clear"]
    assert "started_at" not in record and "path" not in record["target"], "nothing was asked for"
    assert (verdict["value"], verdict["grade"], len(verdict["trials"])) == ("http/1.1", "A", 3)
    for form in ("table", "csv"):
        pcap(path, "--servers", "-f", form)
        assert "198.51.100.2" in capsys.readouterr().out
    pcap(file, "--servers")
    head, _, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == "server icw rwin_ts http_clear wscale mss signature".split() and row.count(" 1460 ") == 1
    assert row.startswith("[2001:db8::2]:80 ") and "6:64:0:1460:65160,7:mss,nop,nop,ts" in row


def test_unlike_connections_of_a_server_are_told_apart(tmp_path: Path, capsys: Spoken) -> None:
    """One SYN-ACK has another TTL, one another window: two witnesses, though each of a fact that nobody else shows."""
    talks = [write.conversation(port=40000 + n, start_ns=write.START_NS + n * 10**9) for n in range(5)]
    for talk, place in ((talks[3], 8), (talks[4], 34)):
        talk[1] = talk[1][0], talk[1][1][:place] + b"\xff" + talk[1][1][place + 1 :]
    (path := tmp_path / "five.pcap").write_bytes(write.pcap(sum(talks, []), nano=True))
    pcap(path, "--servers", "-f", "csv")
    assert ",load_balancing,mixed,,B,\n" in capsys.readouterr().out


def test_round_trips_of_a_local_network_are_not_nought(tmp_path: Path, capsys: Spoken) -> None:
    path = tmp_path / "near.pcap"
    path.write_bytes(write.pcap(write.conversation(rtt_ns=33_000), nano=True))
    pcap(path)
    assert " 0.034 " in capsys.readouterr().out


def test_bytes_are_reported_while_a_file_is_read(tmp_path: Path) -> None:
    write_page_loads(path := tmp_path / "loads.pcap", 3000)
    seen: list[Event] = []
    assert list(CaptureReading((str(path),), progress=seen.append).batches())
    assert 0 < seen[-1].done == seen[-1].total == path.stat().st_size // 10**6


EVIDENCE = "fixtures/http/nginx-h2/trace.pcapng.gz"
KEYS = f"CLIENT_RANDOM {'0a' * 32} {'0b' * 48}\n"


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: apt-get install tshark")
def test_evidence_of_our_own_is_opened_by_its_keys(capsys: Spoken) -> None:
    """It holds plaintext beside the packets, which tshark shows without a TCP header."""
    pcap(ROOT / EVIDENCE, "-f", "jsonl")
    out, err = capsys.readouterr()
    message = [json.loads(line) for line in out.splitlines()]
    opened = [one for one in message if one["server"]["port"] == 443]
    assert len(opened) == 2 and all(one["observations"]["h2_settings"]["value"] for one in opened)
    assert err == "64 frames, 52 tcp, 4 connections; 2 out-of-order, 2 out-of-order-us, 12 plaintext\n"


def test_keys_that_a_capture_carries_are_no_condition(capsys: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tshark all else is reported; a key log that the user named is to be used."""
    monkeypatch.setenv("PATH", "")
    pcap(ROOT / EVIDENCE)
    out, err = capsys.readouterr()
    assert "http/1.1" in out and "are not used: TLS can only be opened by tshark: apt-get" in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((ROOT / EVIDENCE).read_bytes())))
    pcap("-")
    assert "standard input carries are not used" in capsys.readouterr().err


def test_key_logs_that_cannot_be_used(tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, junk = tmp_path / "keys", tmp_path / "junk"
    keys.write_text("# by curl\n" + KEYS)
    junk.write_bytes(b"\xff\x00 server { listen 443 }\n")
    evidence = str(ROOT / EVIDENCE)
    monkeypatch.setenv("PATH", "")
    for words, code, complaint in (
        ((evidence, "--keylog", str(junk)), USAGE, "no TLS secret in it"),
        (("-", "--keylog", str(keys)), USAGE, "write what comes on standard input to one"),
        ((evidence, "--keylog", str(keys)), PRIVILEGE, "apt-get install tshark"),
    ):
        pcap(*words, code=code)
        (line,) = capsys.readouterr().err.splitlines()
        assert complaint in line


def test_exit_codes_and_errors(file: str, tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path(file).read_bytes()
    cut, none, other = tmp_path / "cut", tmp_path / "none", tmp_path / "other"
    other.write_bytes(b"GIF89a, a picture of a cat")
    odd, old = write.pcap([(0, b"\x41" + bytes(59))])[24:], bytes(8) + b"\xff" * 8 + bytes(100)
    for bad, says in ((data[:-7], "1 cut-file"), (data + old, "116 bytes-left"), (data + odd, "1 malformed-ip")):
        cut.write_bytes(bad)
        pcap(cut, code=PARTIAL)
        assert says in capsys.readouterr().err
    none.write_bytes(write.pcap(write.conversation(4)[:2], snap=30))
    pcap(none, file, code=PARTIAL)
    out, err = capsys.readouterr()
    assert "2:1 " in out and "2 frames were not read (cut-header), so" in err and "(without tcpdump's -s)" in err
    none = tmp_path / os.fsdecode(b"no text \xff")
    lost = (write.packet(frame, at, number=3) for at, (_, frame) in enumerate(write.conversation(4)))
    none.write_bytes(write.pcapng(write.conversation(4)) + b"".join(lost))
    pcap(none, "-f", "jsonl", code=PARTIAL)
    out, err = capsys.readouterr()
    assert r"no text \\udcff" in out and json.loads(out)["incomplete"] and "(unknown-interface), so" in err
    none.write_bytes(write.pcap([]))
    pcap(none, code=NOTHING)
    assert capsys.readouterr() == ("", "0 frames, 0 tcp, 0 connections\n")
    none.write_bytes(write.pcapng([]) + bytes(40))
    pcap(none, code=NOTHING)
    assert "most frames are" not in capsys.readouterr().err, "a record that is broken is no frame"
    for words, why in (
        (["--where", "rtt>40"], "no connection meets --where rtt>40: times are in seconds"),
        (["--connection", "2"], "frame 2 is not the first of a connection"),
    ):
        pcap(file, *words, code=NOTHING)
        assert why in capsys.readouterr().err
    for words, complaint in (
        ([str(other)], "neither pcap 2.4 nor pcapng 1"), ([str(tmp_path / "absent")], "does not exist"),
        ([], "Missing argument"), ([file, "--format", "xml"], "'xml'"), ([file, "--where", "loss"], "value: loss>1"),
        ([file, "--where", "icw==10"], "value: loss>1"), ([file, "--where", "icw=>10"], "value: loss>1"),
        ([file, "--where", "loss>x"], "x is not a number"), ([file, "--where", "server~("], "a regular expression"),
        ([file, "--sort", "los"], "no column 'los': loss?"), ([file, "--connection", "2:1"], "of several files 2:17"),
        ([file, "--filter", "prt 80", "-f", "csv", "-o", str(other)], "as for tcpdump"),
        ([file, "-o", file], "being read"),
        ([file, file, "--connection", str(1 << 40 | 1)], "of several files 2:17"),
    ):  # fmt: skip
        pcap(*words, code=USAGE)
        err = capsys.readouterr().err
        assert complaint in err.splitlines()[-1] and "Traceback" not in err
    assert other.read_bytes().startswith(b"GIF89a") and Path(file).stat().st_size > 0
    monkeypatch.setitem(sys.modules, "numpy", None)
    for name in [name for name in sys.modules if name.startswith(AT_WORK)]:
        monkeypatch.delitem(sys.modules, name)
    pcap(file, code=PRIVILEGE)
    assert hint("this needs numpy: pip install configtron") in capsys.readouterr().err
