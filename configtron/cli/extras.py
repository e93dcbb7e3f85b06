"""Packages that only some commands need, and how to get one that is absent."""

from __future__ import annotations

from configtron.errors import Missing

# Package as imported -> Debian's name of it. They are the extra `learn` (setup.cfg).
LEARN = {"numpy": "python3-numpy", "scipy": "python3-scipy", "sklearn": "python3-sklearn"}


def missing(error: ModuleNotFoundError) -> Missing:
    """What to say of an import that found nothing; the error again, if it is of no package of an extra."""
    package = (error.name or "").partition(".")[0]
    if package not in LEARN:
        raise error
    return Missing(f"this needs {package}: pip install 'configtron[learn]', or apt install {LEARN[package]}")
