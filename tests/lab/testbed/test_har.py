# SPDX-License-Identifier: MIT
"""Models from HTTP archives: who asked for what, when, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.__main__ import main
from configtron.lab.testbed import har, model
from configtron.model.errors import BadInput

PAGE, CDN = "https://www.site.example", "https://cdn.example"


def entry(url: str, begin_ms: int, time_ms: int, mime: str, size: int, **more: Any) -> dict[str, Any]:
    """A row as Chrome writes it; the last half of its time it receives."""
    seconds, rest = divmod(begin_ms, 1000)
    return {
        "startedDateTime": f"2026-01-02T03:04:{seconds:02}.{rest:03}Z",
        "time": time_ms,
        "request": {"url": url, "headers": more.pop("headers", [])},
        "response": {
            "status": more.pop("status", 200), "bodySize": size, "content": {"size": 3 * size, "mimeType": mime},
        },
        "timings": {"receive": time_ms / 2},
        **more,
    }  # fmt: skip


def archive(*entries: dict[str, Any]) -> str:
    return json.dumps({"log": {"entries": list(entries)}})


RECORDED = archive(
    entry(f"{PAGE}/old", 0, 50, "text/html", 0, status=301),
    entry(f"{PAGE}/", 100, 200, "text/html; charset=utf-8", 40_000),
    entry(f"{PAGE}/s.css", 250, 60, "text/css", 8_000, _initiator={"type": "parser", "url": f"{PAGE}/"}),
    entry(
        f"{CDN}/a.js", 250, 100, "application/javascript", 30_000, headers=[{"name": "Referer", "value": f"{PAGE}/"}]
    ),
    entry(f"{CDN}/f.woff2", 330, 60, "font/woff2", 20_000, _initiator={"type": "parser", "url": f"{PAGE}/s.css"}),
    entry(
        f"{PAGE}/list", 400, 60, "application/json", 500,
        _initiator={"type": "script", "stack": {"callFrames": [], "parent": {"callFrames": [{"url": f"{CDN}/a.js"}]}}},
    ),
    entry(f"{CDN}/gone.png", 400, 10, "image/png", 900, status=404),
    entry(f"{CDN}/later.png", 5460, 60, "image/png", 70_000, _initiator={"type": "script", "url": f"{CDN}/a.js"}),
)  # fmt: skip


def test_a_recording_becomes_a_page() -> None:
    page = model.from_toml(har.model(RECORDED, "site"))
    assert page.origins == ("www.site.example", "cdn.example") and page.gaps_ms == (5000.0,)
    found = [(t.kind, t.size, t.origin, t.parent, t.wave) for t in page.objects]
    assert found == [
        ("html", 40_000, 0, -1, 0), ("style", 8_000, 0, 0, 0), ("script", 30_000, 1, 0, 0),
        ("font", 20_000, 1, 1, 0), ("json", 500, 0, 2, 0), ("image", 70_000, 1, 2, 1),
    ]  # fmt: skip
    # the style was asked for when half of the document's receiving time had passed
    assert page.objects[1].offset == 20_000
    assert [t.delay_ms for t in page.objects[3:]] == [20.0, 50.0, 0.0]


@pytest.mark.parametrize("text", ["", "{}", '{"log": {"entries": [1]}}', '{"log": {"entries": []}}', archive(), "[1]"])
def test_what_is_no_archive_is_reported(text: str) -> None:
    with pytest.raises(BadInput):
        har.model(text, "site")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"time": 200', '"time": NaN', "no number"), ('"bodySize": 40000', '"bodySize": Infinity', "no HTTP archive"),
        ('"time": 200', '"time": null', "no HTTP archive"), ("www.site.example", "[::1]", "host name"),
        ("https://www.site.example/", "https://[::", "no HTTP archive"),
        ("2026-01-02T03:04:00.100Z", "yesterday", "no HTTP archive"),
        ("2026-01-02T03:04:00.100Z", "2026-01-02T03:04:00.100", "no HTTP archive"),
    ],
)  # fmt: skip
def test_what_makes_no_page_is_reported(old: str, new: str, fault: str) -> None:
    assert old in RECORDED
    with pytest.raises(BadInput, match=fault):
        har.model(RECORDED.replace(old, new), "site")


def test_a_name_that_no_page_can_have_is_reported() -> None:
    with pytest.raises(BadInput, match="small letters"):
        har.model(RECORDED, "My site")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "site.har"
    file.write_text(RECORDED)
    assert main(["har", str(file)]) == 0
    assert model.from_toml(capsys.readouterr().out).name == "site"
    assert main(["har", str(tmp_path / "none.har")]) == 2
    assert "No such file" in capsys.readouterr().err
