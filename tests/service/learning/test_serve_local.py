# SPDX-License-Identifier: MIT
"""`learn serve --local` with the driver ebpf on this kernel: set up by `--setup`, web server, browser, rows; draws; and
killed, it leaves Default."""

from __future__ import annotations

import shutil

import pytest

from configtron.model.errors import INTERRUPTED, REFUSED
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.fleet_units import SERVE
from tests.support.apart import apart_in_folder
from tests.support.headless import NAMES
from tests.support.real_servers import absent

# Some five epochs; a busy machine takes longer.
SECONDS = 240
# Users of the processes that Debian's configurations start.
USERS = {"nginx": ["root", "www-data"], "apache": ["root", "www-data"], "haproxy": ["haproxy"]}


@pytest.mark.root
@pytest.mark.parametrize("server", [
    pytest.param("nginx", marks=pytest.mark.proof),
    pytest.param("apache", marks=pytest.mark.slow),
    pytest.param("haproxy", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_server_of_debian_set_up_by_one_command_and_a_browser_bring_rows(server: str) -> None:
    """By the documents no line came, for ever: the log socket was root's, and the web server's workers are not root."""
    reasons = EbpfDriver(Place()).missing(), absent(server), lacking("ps"), lacking(*NAMES)
    if reason := next(filter(None, reasons), ""):
        pytest.skip(reason)
    seen = apart_in_folder("tests.support.served_by_setup", server)
    assert len(seen["rows"]) == 2 and {why for _, why in seen["rows"]} <= {"", "turn"}, seen
    assert seen["users"] == USERS[server]
    assert "--no-stages --sites=*.a.org,b.org" in seen["unit"]
    assert "nothing to change" in seen["again"] and "wrote " not in seen["again"]
    assert seen["refused"][0] == REFUSED and "was changed by hand" in seen["refused"][1] and seen["kept"]
    assert seen["same"] and f"stopped and disabled {SERVE}\nremoved " in seen["undone"], seen["undone"]
    assert seen["stopped"] == INTERRUPTED and "another one is started" not in seen["log"], seen["log"]
    assert SERVE not in seen["undone again"] and "daemon-reload" not in seen["undone again"]
    assert "2 beacons, 2 accepted" in seen["log"], seen["log"]


def lacking(*programs: str) -> str:
    return "" if any(map(shutil.which, programs)) else f"needs {programs[0]}"


@pytest.mark.root
@pytest.mark.slow
def test_the_loop_tunes_this_kernel_and_a_kill_leaves_default() -> None:
    if reason := EbpfDriver(Place()).missing() or absent("nginx"):
        pytest.skip(reason)
    seen = apart_in_folder("tests.support.served_locally", "ebpf", str(SECONDS))
    # Rows teach, arms are drawn, a fifth of the clients is held back, and every propensity is of its own map.
    assert seen["teach"] > 300 and seen["without rtt"] < seen["rows"] / 10, seen
    assert set(seen["why"]) <= {"turn", "reused-connection", "undrawn"}, seen["why"]
    assert len(seen["drawn"]) > 3 and seen["held"] > 0 and seen["epochs"] > 2
    assert "propensity-differs" not in seen["log"] and "map-unknown" not in seen["log"]
    # Some clients' connections have another window or congestion control than before, and none after the lease.
    (untouched,) = seen["before"]
    assert set(seen["during"]) - {untouched}
    control, window = untouched.split("/")
    settings = [one.split("/") for one in seen["after"]]
    assert not [one for one in settings if one[0] != control or int(one[1]) < int(window)], seen["after"]
