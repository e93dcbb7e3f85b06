# SPDX-License-Identifier: MIT
"""One server or unlike ones: on trials made by hand, and on thousands drawn by seed, with what loss does to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from configtron.fingerprint.load_balancing import CONNECTIONS_A, CONNECTIONS_B, across, hints, lacking
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.verdict import canonical
from configtron.model.nouns import Observation, Value

NUMBERS = count()


FEW = "None N"


def trial(knob: str, value: Value, grade: str = "C", **details: Value) -> Observation:
    return Observation(knob, value, None, grade=grade, trace_id=f"v/h/p.{next(NUMBERS)}", details=canonical(details))


def icw(segments: int, mss: int = 536, grade: str = "C") -> Observation:
    return trial("icw", segments, grade, mss=mss, bytes=segments * mss)


def verdict(*trials: Observation) -> Observation | None:
    return merge_all(trials).get("load_balancing")


def text(*trials: Observation) -> str:
    found = verdict(*trials)
    return f"{found.value} {found.grade}" if found is not None else "-"


@pytest.mark.parametrize(("connections", "expected"), [(2, "-"), (3, FEW), (7, FEW), (8, "one B"), (12, "one A")])
def test_one_needs_connections(connections: int, expected: str) -> None:
    assert text(*(icw(10) for _ in range(connections))) == expected


def test_servers_hide_from_so_many_connections_seldom() -> None:
    assert 0.6**CONNECTIONS_B + 0.4**CONNECTIONS_B < 0.02 < 0.6 ** (CONNECTIONS_B - 1) + 0.4 ** (CONNECTIONS_B - 1)


def test_one_needs_windows() -> None:
    """Two servers that differ in it would look alike in everything else."""
    seen = [trial("signature", "4:64") for _ in range(20)]
    ended = [trial("icw", 2, "L", proof="response-ended", mss=536, bytes=1072) for _ in range(20)]
    assert text(*seen) == text(*seen, *ended) == FEW
    assert text(*seen, *ended, *[trial("icw_tls", 10, proof="edge", mss=64, bytes=640)] * 8) == "one B"


@pytest.mark.parametrize(
    "unlike",
    [
        [trial("signature", "4:64:0:1460:a"), trial("signature", "4:128:0:1460:a")],
        [trial("rwin", 29200, server_mss=1460), trial("rwin", 14600, server_mss=1460)],
        [trial("rwin", 29200, server_mss=1460), trial("rwin_ts", 26536, server_mss=1340)],
        [trial("http_version", "h2"), trial("http_version", "http/1.1")],
        [trial("http_version", "h2", certificate="aa"), trial("http_tls", "http/1.1", certificate="bb")],
        [trial("h2_settings", ((3, 100),)), trial("h2_settings", ((3, 128),))],
        [
            trial("http_clear", "http/1.1", server="a", status=200),
            trial("http_clear", "http/1.1", server="b", status=200),
        ],
        [trial("tls_versions", ("1.2",), most="1.3"), trial("tls_versions", ("1.3",), most="1.3")],
        [icw(10), icw(4)],
        [icw(10, mss=1460), icw(4, mss=536)],
        [icw(4), icw(10, grade="L")],
        [icw(10), icw(8)],
        [icw(10, mss=536), icw(10, mss=1460), icw(7, mss=536)],
    ],
)
def test_unlike_facts_are_mixed(unlike: list[Observation]) -> None:
    found = verdict(*unlike)
    assert found is not None and (found.value, found.grade) == ("mixed", "C"), unlike
    assert set(found.trials) == set(unlike)
    again = verdict(*unlike, *unlike)
    assert again is not None and (again.value, again.grade) == ("mixed", "B")


@pytest.mark.parametrize(
    "alike",
    [
        [
            trial("rwin", 29200, server_mss=1460),
            trial("rwin_ts", 28960, server_mss=1460),
            *[trial("signature", "4:64")] * 3,
        ],
        [
            trial("http_clear", "http/1.1", server="a", status=301),
            trial("http_clear", "http/1.1", server="b", status=200),
        ]
        + [icw(10)] * 3,
        [trial("tls_versions", ("1.2",), most="1.2"), trial("tls_versions", ("1.3",), most="1.3"), *[icw(10)] * 3],
        [
            trial("h2_settings", ((0x1A1A, 1),), effective=()),
            trial("h2_settings", ((0x2A2A, 1),), effective=()),
            *[icw(4)] * 3,
        ],
        [icw(10), icw(9, mss=64), icw(10), icw(10, mss=1460)],
        [icw(45, mss=64), icw(5, mss=536), icw(2, mss=1460)],
        [icw(10), trial("icw_tls", 4, mss=64, bytes=256), icw(10)],
        [icw(10), icw(10), icw(10), icw(3, grade="L")],
    ],
)
def test_what_loss_or_another_question_explains_is_not(alike: list[Observation]) -> None:
    assert text(*alike) in (FEW, "-")
    assert text(*alike * 12) == ("one A" if any(t.knob == "icw" and t.grade == "C" for t in alike) else FEW)


def test_one_needs_windows_and_settings_where_there_are_some() -> None:
    seen = [trial("signature", "4:64") for _ in range(9)]
    assert text(*seen, *[icw(10)] * 7) == FEW and text(*seen, *[icw(10)] * 8) == "one B"
    settings = [trial("h2_settings", ())]
    assert text(*[icw(10)] * 8, *settings * 7) == FEW and text(*[icw(10)] * 8, *settings * 8) == "one B"


def test_a_bound_that_others_prove_shows_the_window_too() -> None:
    timer, paced = (
        trial("icw", 10, "L", proof=proof, mss=536, bytes=5360) for proof in ("after-timer", "server-paced")
    )
    assert text(*[icw(10)] * 4, *[timer] * 4) == "one B" and text(*[icw(10)] * 4, *[paced] * 4) == FEW
    assert text(*[timer] * 8) == FEW, "none proves it"


def low(proof: str) -> Observation:
    return trial("icw", 4, "L", proof=proof, mss=536, bytes=2144)


def test_a_low_bound_is_no_low_window() -> None:
    """It may be one: so it asks for more connections."""
    assert text(*[icw(10)] * 8, low("after-timer")) == FEW
    assert text(*[icw(10)] * CONNECTIONS_A, low("after-timer")) == "one A"
    assert text(*[icw(10)] * 8, low("server-paced")) == "one B"


def test_an_odd_window_twice_is_no_accident() -> None:
    assert text(*[icw(10)] * 8, icw(9)) == "one B"
    assert text(*[icw(10)] * 8, icw(9), icw(9)) == "mixed B"
    assert text(*[icw(10)] * 8, icw(9), icw(9, mss=64)) == "one B", "small segments have a reason to"


def test_a_low_window_in_small_segments_counts_twice() -> None:
    many = [trial("icw_tls", 10, mss=64, bytes=640)] * 8
    odd, other = (trial("icw_tls", n, mss=64, bytes=n * 64) for n in (4, 6))
    assert text(*many, odd) == text(*many, odd, other) == FEW and hints([*many, odd])
    assert text(*many, odd, odd) == "mixed B"


def test_what_is_lacking_is_named_until_it_is_reported() -> None:
    assert lacking([icw(10)] * 3) == ("icw",) and lacking([icw(10)] * 8) == ()
    settings = [trial("h2_settings", ())]
    assert lacking([icw(10)] * 7 + settings * 7) == ("icw", "h2_settings") and lacking([]) == ()
    tls = [trial("icw_tls", 10, proof="edge", mss=64, bytes=640)]
    ended = trial("icw", 2, "L", proof="response-ended", mss=536, bytes=1072)
    assert lacking([ended] * 8 + [icw(10)] + tls * 2) == ("icw_tls",), "the page is short"
    assert lacking([icw(10), icw(4)]) == ("icw",) and lacking([icw(10), icw(4)] * 2) == ()
    assert lacking([ended] * 8) == (), "more of them would not show more"


def test_hints_are_what_proves_nothing_yet() -> None:
    assert hints([icw(10), icw(4)]) and hints([icw(10)] * 8 + [low("after-timer")])
    assert not hints([icw(10)] * 3) and not hints([icw(10)] * 8) and not hints([icw(10), icw(4)] * 2) and not hints([])


def test_two_facts_are_two_witnesses() -> None:
    trials = [trial("signature", "4:64"), trial("signature", "4:128"), icw(10), icw(4)]
    found = verdict(*trials)
    assert found is not None and (found.grade, found.detail("differs")) == ("B", ("icw", "signature"))


def test_facts_of_one_connection_are_one_witness() -> None:
    """One SYN-ACK that went another way has another MSS, window and signature: nothing is known of servers."""

    def synack(mss: int) -> list[Observation]:
        name = f"v/h/p.{next(NUMBERS)}"
        return [
            replace(trial("signature", f"4:64:0:{mss}"), trace_id=name),
            replace(trial("rwin_ts", 20 * mss, server_mss=mss), trace_id=name),
        ]

    usual = [reading for _ in range(10) for reading in synack(1460)] + [trial("rwin", 29200, server_mss=1460)]
    assert text(*usual, *synack(1380)) == "mixed C" and text(*usual, *synack(1380), *synack(1380)) == "mixed B"


def test_places_are_reported() -> None:
    trials = [trial("http_clear", "http/1.1", status=200, server="x", place=place) for place in ("fra", "ams") * 4]
    found = verdict(*trials, *[icw(10)] * 8)
    assert found is not None and found.value == "one" and found.detail("places") == ("ams", "fra")


def drawn(rng: Random, servers: list[Mapping[str, int]], loss: float) -> list[Observation]:
    """A target's trials: each connection meets one of the servers by chance; lost tails make bounds."""
    found = []
    for mss in (536, 1460, 536, 536, 1460, 64, 536, 1460):
        window = whole = rng.choice(servers)["icw"]
        while window > 1 and rng.random() < loss:
            window -= 1
        found.append(icw(window, mss, "C" if window == whole else "L"))
    found += [trial("h2_settings", ((3, rng.choice(servers)["streams"]),)) for _ in range(3)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_shares_found_and_false(loss: float) -> None:
    rng = Random(7)
    one = [drawn(rng, [{"icw": rng.choice((4, 10, 24)), "streams": 100}], loss) for _ in range(2000)]
    two = [drawn(rng, [{"icw": 4, "streams": 100}, {"icw": 10, "streams": 128}], loss) for _ in range(2000)]
    false = sum(text(*trials).startswith("mixed") for trials in one) / len(one)
    found = sum(text(*trials).startswith("mixed") for trials in two) / len(two)
    assert false <= 0.01 and found >= 0.95, (false, found)


def test_nothing_is_reported_of_nothing() -> None:
    assert across({}) is None
    silent = Observation("icw", None, "no-synack", grade="N")
    assert across({"icw": [silent], "http_clear": [silent]}) is None
