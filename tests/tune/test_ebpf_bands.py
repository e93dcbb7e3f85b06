# SPDX-License-Identifier: MIT
"""The round trip of a handshake before the first window: exact, too long or unknown by the way that it was made.

In the lab's guest, in virtual time: what netem delays lasts exactly as long.
"""

from __future__ import annotations

from typing import Any

import pytest

from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.tune.banded import BANDS, CLIENTS, LOST_S, RTTS_MS, THOUGHT_S, WINDOWS
from tests.support.tune.in_guest import in_guest

pytestmark = [pytest.mark.root, pytest.mark.lab]
UNTOUCHED = [None, None, 10, False]
# The low six bits of a cookie's timestamp carry options (net/ipv4/syncookies.c), one each ms.
COOKIE_US = 64_000


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return in_guest(UmlVirtual(), tmp_path_factory.mktemp("bands"), "banded.py")


def band_of(rtt_us: int) -> int | None:
    """The band of a round trip, from 1."""
    return next((number for number, (end, _) in enumerate(BANDS, 1) if rtt_us <= end), None)


def window(rtt_us: int) -> int:
    """The window of the band of a round trip."""
    return next((WINDOWS[name] for end, name in BANDS if rtt_us <= end), 10)


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
def test_a_plain_handshake_is_exact(seen: Any, rtt_ms: int) -> None:
    for rtt_us, band, cwnd, cut in seen[f"{rtt_ms} plain"]:
        assert rtt_ms * 1000 <= rtt_us <= rtt_ms * 1000 + 10
        assert (band, cwnd, cut) == (1 + RTTS_MS.index(rtt_ms), window(rtt_us), False)


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
@pytest.mark.parametrize("way", ["cookie, no timestamps", "fast open"])
def test_an_unknown_round_trip_is_no_band(seen: Any, rtt_ms: int, way: str) -> None:
    assert seen[f"{rtt_ms} {way}"] == [UNTOUCHED] * CLIENTS


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
def test_a_cookie_with_timestamps_makes_it_longer(seen: Any, rtt_ms: int) -> None:
    for rtt_us, _, cwnd, cut in seen[f"{rtt_ms} cookie"]:
        assert rtt_ms * 1000 - 1000 <= rtt_us <= rtt_ms * 1000 + COOKIE_US
        assert (cwnd, cut) == (window(rtt_us), False)


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
@pytest.mark.parametrize("way", LOST_S)
def test_timestamps_measure_a_repeated_syn_ack(seen: Any, rtt_ms: int, way: str) -> None:
    """A window that the kernel cuts stays cut and is recorded. One lost SYN-ACK may be repeated twice, by the server's
    timer and for the client's repeated SYN, which come at the same time."""
    for rtt_us, band, cwnd, cut in seen[f"{rtt_ms} {way}"]:
        assert abs(rtt_us - rtt_ms * 1000) <= 1000 and band == band_of(rtt_us)
        assert cwnd == (1 if cut else window(rtt_us))
        assert cut or LOST_S[way] == min(LOST_S.values())


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
@pytest.mark.parametrize("way", LOST_S)
def test_without_timestamps_a_repeated_syn_ack_measures_nothing(seen: Any, rtt_ms: int, way: str) -> None:
    """No class, so no profile whose window is withheld: the untouched stack's, cut or not."""
    for rtt_us, band, cwnd, cut in seen[f"{rtt_ms} {way}, no timestamps"]:
        assert (rtt_us, band, cut) == (None, None, False) and cwnd in (1, 10)


@pytest.mark.parametrize("rtt_ms", RTTS_MS)
def test_a_deferred_accept_counts_the_clients_thinking(seen: Any, rtt_ms: int) -> None:
    for rtt_us, band, cwnd, cut in seen[f"{rtt_ms} deferred"]:
        assert rtt_us >= THOUGHT_S * 1e6
        assert (band, cwnd, cut) == (None, 10, False)
