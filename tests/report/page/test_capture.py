# SPDX-License-Identifier: MIT
"""The page of a capture: events stand where they happened, none is lost by thinning, strangers' names stay text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.cli.outermost import run
from configtron.model.errors import DONE, USAGE
from configtron.model.nouns import ACK, PSH, RST, Segment
from configtron.probe.wire.frames import Envelope, build, packed
from configtron.report.files import visible
from configtron.report.page.capture import MOST_LISTED
from configtron.report.page.course import TIME_COLUMNS, _line
from tests.report.page.test_markup import HOSTILE, Reader
from tests.support import capture_bytes as write
from tests.support.headless import HeadlessPage, looked_at
from tests.support.made_capture import FULL, acked, flight, says, talk, written
from tests.support.synthetic_capture import write_refused

# From the handshake, 0.1 s: ten segments, of which the third is lost and repeated by a timer; a closed window; a reset.
STEPS = (
    flight(0.2, 0, 10, skip=(2,)), acked(2, 0.3), acked(2, 0.301, sack=(1 + 3 * FULL, 1 + 10 * FULL)),
    says(1, 0.9, ACK, 1 + 2 * FULL, 101, FULL), acked(10, 1.0), says(1, 1.1, RST, 1 + 10 * FULL, 101),
)  # fmt: skip


def page_of(capture: Path, *words: str, code: int = DONE) -> str:
    page = capture.with_suffix(".html")
    assert run(["fingerprint", "pcap", str(capture), "-o", str(page), *words]) == code
    return page.read_text() if code == DONE else ""


def hello(name: bytes) -> bytes:
    """A ClientHello with that server name."""
    sizes = [(len(name) + more).to_bytes(2, "big") for more in (9, 5, 3, 0)]
    body = b"\3\3" + bytes(33) + b"\0\2\x13\1\1\0" + sizes[0] + b"\0\0" + sizes[1] + sizes[2] + b"\0" + sizes[3] + name
    return b"\x16\3\1" + (len(body) + 4).to_bytes(2, "big") + b"\1" + len(body).to_bytes(3, "big") + body


def test_events_stand_where_they_happened(tmp_path: Path) -> None:
    page = page_of(written(talk(*STEPS).frames, tmp_path))
    words = (
        "sent 9.88 kB within 1.1 s; 1 × repeat after a timeout; 1 × gap before the segment; 1 × reset; at most 9.88 kB"
    )
    assert words in page and "receive window up to 65.5 kB" in page
    places = {
        kind: re.findall(rf'd="M0 0m(\d+) (\d+)v(\d+)" class="{kind}"', page) for kind in ("e-timer", "e-gap lane")
    }
    at, top = (round(TIME_COLUMNS * 0.9 / 1.1), round(240 * (1 - (1 + 3 * FULL) / (1 + 10 * FULL) / 1.06)))
    assert places == {
        "e-timer": [(str(at), str(top), "0")],
        "e-gap lane": [(str(round(TIME_COLUMNS * 0.2002 / 1.1)), "17", "7")],
    }


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), min_size=1))
def test_a_thinned_line_keeps_the_least_and_the_most_of_each_column(points: list[tuple[int, int]]) -> None:
    points.sort(key=lambda point: point[0])
    seen = [points[0]]
    for sign, number in re.findall(r"([hv])(-?\d+)", _line(*np.array(points).T)):
        x, y = seen[-1]
        seen.append((x + int(number), y) if sign == "h" else (x, y + int(number)))
    for column in {at for at, _ in seen}:
        values = [value for at, value in points if at == column]
        found = [place for at, place in seen if at == column]
        assert max(found) >= max(values) and min(found) <= min(values) and found[-1] == values[-1]


def test_names_of_strangers_stay_text_and_the_page_fits(tmp_path: Path) -> None:
    ends = packed("192.0.2.1"), packed("198.51.100.2")
    frames, data = write.conversation(segments=30), hello(HOSTILE.encode())
    asks = build(Envelope(*ends, 40000, 80), Segment(ACK | PSH, 1, 1, 502, (), data, len(data)), 4_294_967_001, 78)
    frames[3] = (frames[3][0], asks)
    more = talk(*STEPS, port=40001, start_s=1_700_000_009.0).frames
    text = page_of(written([*frames, *more], tmp_path))
    found = Reader()
    found.feed(text)
    assert found.tags.count("script") == 1 and "img" not in found.tags and visible(HOSTILE)[:50] in found.text
    assert re.findall(r'href="#(c\d+)"', text) == re.findall(r'<details id="(c\d+)"', text) == ["c38", "c1"]
    for width in (390, 1400):
        with HeadlessPage(tmp_path / "conversation.html", width) as page:
            assert looked_at(page, width) == [] and len(page.requested) == 1
            rows = "[...document.querySelectorAll('table.list tbody tr')].map(r => r.cells[0].textContent).join()"
            assert page.value(rows) == "38,1", "worst first"
            page.value("(() => { const s = document.getElementById('sort'); s.value = 0; s.onchange() })()")
            assert page.value(rows) == "1,38"
            page.value("(() => { const f = document.getElementById('filter'); f.value = '40001'; f.oninput() })()")
            assert (
                page.value(rows) == "38" and page.value("document.getElementById('said').textContent") == "1 of 1 shown"
            )


@pytest.mark.slow
def test_a_page_is_bounded(tmp_path: Path) -> None:
    write_refused(tmp_path / "scan.pcap", MOST_LISTED + 500)
    page = page_of(tmp_path / "scan.pcap")
    assert f"The first {MOST_LISTED} of {MOST_LISTED + 500} are listed" in page and len(page) < 2_000_000
    assert page.count("<tr>") == MOST_LISTED + 1 and page.count("<details") == 40


def test_what_a_page_cannot_show_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.pcap").write_bytes(write.pcap(write.conversation(4)[:2], snap=30))
    page_of(tmp_path / "none.pcap", "--servers", code=USAGE)
    assert "leave out --servers" in capsys.readouterr().err
