# SPDX-License-Identifier: MIT
"""Lines of access logs as servers write them, and the devices that they name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint.device import CLASSES, LogLine, device_of, logged

AGENTS = {
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1":
        "phone",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0.0.0 Mobile Safari/537.36": "phone",
    "Mozilla/5.0 (Linux; Android 13; SM-X200) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36": "tablet",
    "Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X) AppleWebKit/605.1.15 Version/12.1.2 Mobile/15E148 Safari/604.1":
        "tablet",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0": "computer",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15": "computer",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0": "computer",
    "Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 Version/7.0 TV Safari/537.36": "tv",
    "Mozilla/5.0 (PlayStation; PlayStation 5/2.26) AppleWebKit/605.1.15 Version/13.0 Safari/605.1.15": "tv",
    "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) Chrome/W Mobile Safari/537.36 (compatible; Googlebot/2.1)": "program",
    "curl/7.88.1": "program", "Go-http-client/2.0": "program", "python-requests/2.31.0": "program",
    "-": "", "Mosaic": "",
}  # fmt: skip


@pytest.mark.parametrize(("agent", "device"), AGENTS.items())
def test_devices(agent: str, device: str) -> None:
    assert device_of(agent) == device
    assert device in ("", *CLASSES)


TAIL = '[21/Nov/2026:14:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/7.88.1"'


@pytest.mark.parametrize(("line", "found"), [
    (f"192.0.2.7 - - {TAIL}", LogLine("192.0.2.7", "curl/7.88.1")),
    (f"2001:db8::7 - frank {TAIL}", LogLine("2001:db8::7", "curl/7.88.1")),
    (f"www.example.com:443 192.0.2.7 - - {TAIL}", LogLine("192.0.2.7", "curl/7.88.1")),
    (f"192.0.2.7, 10.0.0.2 - - {TAIL}", LogLine("192.0.2.7", "curl/7.88.1")),
    (f"192.0.2.7 - - {TAIL} extra 0.003", LogLine("192.0.2.7", "curl/7.88.1")),
    (r'192.0.2.7 - - [x] "GET /\"a HTTP/1.1" 404 - "http://b/" "a \"b\" c"', LogLine("192.0.2.7", r"a \"b\" c")),
    (r'192.0.2.7 - - [x] "\x16\x03" 400 150 "-" "-"', LogLine("192.0.2.7", "")),
    ('192.0.2.7 - - [x] "GET / HTTP/1.1" 200 512', None),
    ("", None), ("{}", None), ("# a comment", None),
])  # fmt: skip
def test_lines(line: str, found: LogLine | None) -> None:
    assert logged(line) == found


@given(st.text(max_size=300))
def test_any_line_is_read(line: str) -> None:
    logged(line)
    logged(f'192.0.2.7 - - [x] "{line}" 200 1 "{line}" "{line}"')
    device_of(line)
