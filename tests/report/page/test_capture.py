# SPDX-License-Identifier: MIT
"""The page of a capture: events stand where they happened, none is lost by thinning, strangers' names stay text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from configtron.cli.outermost import run
from configtron.model.errors import DONE
from configtron.model.nouns import ACK, FIN, PSH, RST, Segment
from configtron.model.wording import visible
from configtron.probe.wire.frames import Envelope, build, packed
from configtron.report.page.course import _line
from tests.report.page.test_markup import HOSTILE, Reader
from tests.support import capture_bytes as write
from tests.support.headless import HeadlessPage, looked_at
from tests.support.made_capture import FULL, acked, flight, says, talk, written
from tests.support.synthetic_capture import write_refused

# At 0.2 s ten segments, of which the third is lost; 0.6 s later it comes again; a reset at 1.1 s.
STEPS = (
    flight(0.2, 0, 10, skip=(2,)), acked(2, 0.3), acked(2, 0.301, sack=(1 + 3 * FULL, 1 + 10 * FULL)),
    says(1, 0.9, ACK, 1 + 2 * FULL, 101, FULL), acked(10, 1.0), says(1, 1.1, RST, 1 + 10 * FULL, 101),
)  # fmt: skip
ROWS = "[...document.querySelectorAll('table.list tbody tr')].map(r => r.cells[0].textContent).join()"
# A ClientHello: record, handshake, versions and random numbers, one suite; then one extension, the server's name.
HELLO = b"\x16\3\1%b\1\0%b\3\3" + bytes(33) + b"\0\2\x13\1\1\0%b\0\0%b%b\0%b%b"


def page_of(capture: Path) -> str:
    assert run(["fingerprint", "pcap", str(capture), "-o", str(capture.with_suffix(".html"))]) == DONE
    return capture.with_suffix(".html").read_text()


def test_events_stand_where_they_happened(tmp_path: Path) -> None:
    page = page_of(written(talk(*STEPS).frames, tmp_path))
    assert "/<wbr>conversation.pcap</h1>" in page and ", frame 3)" in page
    assert "sent 9.88 kB within 1.1 s; 1 × repeat after a timeout; 1 × gap before the segment; 1 × reset; at" in page
    assert "at most 9.88 kB in flight; receive window up to 65.5 kB; round trips from 99.9 ms to 99.9 ms" in page
    assert "Captured at the client: lost segments did not come by; a capture at the server shows more." in page
    assert re.findall(r"td.:nth-child.(\d+)", page) == ["7", "10", "13", "14", "16"], "columns that are empty"
    flag = written(talk(flight(0.2, 0, 1), says(1, 0.21, FIN | ACK, 1 + FULL, 101, 999 - FULL)).frames, tmp_path)
    assert "The server sent 999 B within 210 ms; at most 999 B in flight" in page_of(flag)
    height = round(240 * (1 - (1 + 3 * FULL) / (1 + 10 * FULL) / 1.06))
    for at_s, y, tall, kind in ((0.9, height, 0, "e-timer"), (0.9, 0, 7, "e-timer lane"), (0.2002, 0, 7, "e-gap lane")):
        assert f'<path d="M0 0m{round(900 * at_s / 1.1)} {y}v{tall}" class="{kind}">' in page


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), min_size=1))
def test_a_thinned_line_keeps_the_least_and_the_most_of_each_column(points: list[tuple[int, int]]) -> None:
    points.sort(key=lambda point: point[0])
    seen = [points[0]]
    for sign, number in re.findall(r"([hv])(-?\d+)", _line(*np.array(points).T)):
        x, y = seen[-1]
        seen.append((x + int(number), y) if sign == "h" else (x, y + int(number)))
    for column in {at for at, _ in seen}:
        (found, values) = ([place for at, place in some if at == column] for some in (seen, points))
        assert max(found) >= max(values) and min(found) <= min(values) and found[-1] == values[-1]


def test_names_of_strangers_stay_text_and_the_page_fits(tmp_path: Path) -> None:
    name = HOSTILE.encode()
    data = HELLO % (*((len(name) + more).to_bytes(2, "big") for more in (56, 52, 9, 5, 3, 0)), name)
    frames = write.conversation(segments=30)
    ends = Envelope(packed("192.0.2.1"), packed("198.51.100.2"), 40000, 80)
    asks = Segment(ACK | PSH, 1, 1, 502, (), data, len(data))
    frames[3] = (frames[3][0], build(ends, asks, 4_294_967_001, 78))
    more = talk(*STEPS, acked(10, 5.0), port=40001, start_s=1_700_000_009.0).frames
    text, found = page_of(written([*frames, *more], tmp_path)), Reader()
    found.feed(text)
    assert found.tags.count("script") == 1 and "img" not in found.tags and visible(HOSTILE)[:50] in found.text
    assert re.findall(r'href="#(c\d+)"', text) == re.findall(r'<details id="(c\d+)"', text) == ["c38", "c1"]
    assert text.count("The first 12 round trips") == 1 and text.count('M0 0m736 0v7" class="e-timer lane"') == 2
    for width in (390, 1400):
        with HeadlessPage(tmp_path / "conversation.html", width) as page:
            assert looked_at(page, width) == [] and len(page.requested) == 1
            assert page.value(ROWS) == "38,1", "worst first"
            page.value("(s => { s.value = 0; s.onchange() })(document.getElementById('sort'))")
            assert page.value(ROWS) == "1,38"
            page.value("(f => { f.value = '40001'; f.oninput() })(document.getElementById('filter'))")
            assert page.value(ROWS) == "38"


def test_a_page_is_bounded(tmp_path: Path) -> None:
    write_refused(tmp_path / "scan.pcap", 1500)
    page = page_of(tmp_path / "scan.pcap")
    assert "Worst first: 1000 of 1500." in page and len(page) < 2_000_000
    assert page.count("<tr>") == 1001 and page.count("<details") == 40
