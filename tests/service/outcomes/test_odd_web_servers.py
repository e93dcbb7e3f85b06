# SPDX-License-Identifier: MIT
"""`learn serve --setup` with nginx's files as humans and kills leave them."""

from __future__ import annotations

import pytest

from tests.support.apart import apart_in_folder
from tests.support.real_servers import absent


@pytest.mark.root
@pytest.mark.slow
def test_setup_of_nginx_survives_kills_and_humans() -> None:
    """A kill left a site's file cut short; a file deleted by hand left neither --setup nor --undo a way."""
    if reason := absent("nginx"):
        pytest.skip(reason)
    seen = apart_in_folder("tests.support.odd_web_servers")
    assert seen["setup"][:-1] == seen["undo"][:-1] == [], seen
    assert all(int(seen[key][-1].split()[0]) > 4 for key in ("setup", "undo")), seen
    missing, undone, same = seen["without own file"]
    assert "configtron-location.conf" in missing and undone == "" and same, seen
    assert "include /etc/nginx/conf.d/*.conf;" in seen["without conf.d"]
    assert seen["same"]
