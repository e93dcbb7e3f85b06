"""Site models: small TOML files from which pages are made. The shipped ones lie in pages/."""

from __future__ import annotations

from pathlib import Path

from configtron.lab.bed.pages import Page

FOLDER = Path(__file__).with_name("pages")


def shipped() -> dict[str, Page]:
    """The models that come with configtron, by name."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.toml"))}


def read(path: Path) -> Page:
    """The page of one model file."""
    raise NotImplementedError
