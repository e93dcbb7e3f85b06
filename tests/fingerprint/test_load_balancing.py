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
Trials = list[Observation]


def trial(knob: str, value: Value, grade: str = "C", **details: Value) -> Observation:
    return Observation(knob, value, None, grade=grade, trace_id=f"v/h/p.{next(NUMBERS)}", details=canonical(details))


def icw(segments: int, mss: int = 536, grade: str = "C", **more: Value) -> Observation:
    return trial("icw", segments, grade, mss=mss, bytes=segments * mss, **more)


def tls(segments: int) -> Observation:
    return trial("icw_tls", segments, mss=64, bytes=segments * 64)


def clear(server: str, status: int = 200, **more: Value) -> Observation:
    return trial("http_clear", "http/1.1", server=server, status=status, **more)


def verdict(*trials: Observation) -> Observation | None:
    return merge_all(trials).get("load_balancing")


def text(*trials: Observation) -> str:
    found = verdict(*trials)
    return f"{found.value} {found.grade}" if found is not None else "-"


SYN = [trial("signature", "4:64"), trial("signature", "4:128")]
SETTINGS = trial("h2_settings", ())
TEN, PROVEN_TLS = icw(10), trial("icw_tls", 10, proof="edge", mss=64, bytes=640)
ENDED = icw(2, grade="L", proof="response-ended")
TIMER, PACED = (icw(10, grade="L", proof=proof) for proof in ("after-timer", "server-paced"))
LOW_TIMER, LOW_PACED = (icw(4, grade="L", proof=proof) for proof in ("after-timer", "server-paced"))


@pytest.mark.parametrize(("trials", "expected"), [
    # "one" needs connections
    *(([icw(10) for _ in range(n)], found) for n, found in ((2, "-"), (3, FEW), (7, FEW), (8, "one B"), (12, "one A"))),
    # and windows: two servers that differ in it would look alike in everything else
    (SYN[:1] * 20, FEW),
    (SYN[:1] * 20 + [ENDED] * 20, FEW),
    (SYN[:1] * 20 + [ENDED] * 20 + [PROVEN_TLS] * 8, "one B"),
    (SYN[:1] * 9 + [TEN] * 7, FEW),
    (SYN[:1] * 9 + [TEN] * 8, "one B"),
    # and settings, where there are some
    ([TEN] * 8 + [SETTINGS] * 7, FEW),
    ([TEN] * 8 + [SETTINGS] * 8, "one B"),
    # a bound that others prove shows the window too
    ([TEN] * 4 + [TIMER] * 4, "one B"),
    ([TEN] * 4 + [PACED] * 4, FEW),
    ([TIMER] * 8, FEW),
    ([icw(1)] * 4 + [icw(1, grade="L", proof="after-timer")] * 4, FEW),
    # a low bound is no low window; it may be one, so it asks for more connections
    ([TEN] * 8 + [LOW_TIMER], FEW),
    ([TEN] * CONNECTIONS_A + [LOW_TIMER], "one A"),
    ([TEN] * 8 + [LOW_PACED], "one B"),
    # an odd window twice is no accident; small segments have a reason to, and a low window in them counts twice
    ([TEN] * 8 + [icw(9)], "one B"),
    ([TEN] * 8 + [icw(9), icw(9)], "mixed B"),
    ([TEN] * 8 + [icw(9), icw(9, mss=64)], "one B"),
    ([tls(10)] * 8 + [tls(4)], FEW),
    ([tls(10)] * 8 + [tls(4), tls(6)], FEW),
    ([tls(10)] * 8 + [tls(4), tls(4)], "mixed B"),
])  # fmt: skip
def test_what_so_many_connections_show(trials: Trials, expected: str) -> None:
    assert text(*trials) == expected


def test_servers_hide_from_so_many_connections_seldom() -> None:
    assert 0.6**CONNECTIONS_B + 0.4**CONNECTIONS_B < 0.02 < 0.6 ** (CONNECTIONS_B - 1) + 0.4 ** (CONNECTIONS_B - 1)


@pytest.mark.parametrize("unlike", [
    [trial("signature", "4:64:0:1460:a"), trial("signature", "4:128:0:1460:a")],
    [trial("rwin", 29200, server_mss=1460), trial("rwin", 14600, server_mss=1460)],
    [trial("rwin", 29200, server_mss=1460), trial("rwin_ts", 26536, server_mss=1340)],
    [trial("http_version", "h2"), trial("http_version", "http/1.1")],
    [trial("http_version", "h2", certificate="aa"), trial("http_tls", "http/1.1", certificate="bb")],
    [trial("h2_settings", ((3, 100),)), trial("h2_settings", ((3, 128),))],
    [clear("a"), clear("b")],
    [trial("tls_versions", ("1.2",), most="1.3"), trial("tls_versions", ("1.3",), most="1.3")],
    [icw(10), icw(4)],
    [icw(10, mss=1460), icw(4, mss=536)],
    [icw(4), icw(10, grade="L")],
    [icw(10), icw(8)],
    [icw(10, mss=536), icw(10, mss=1460), icw(7, mss=536)],
])  # fmt: skip
def test_unlike_facts_are_mixed(unlike: Trials) -> None:
    found = verdict(*unlike)
    assert found is not None and (found.value, found.grade) == ("mixed", "C"), unlike
    assert set(found.trials) == set(unlike)
    assert text(*unlike, *unlike) == "mixed B"


@pytest.mark.parametrize("alike", [
    [trial("rwin", 29200, server_mss=1460), trial("rwin_ts", 28960, server_mss=1460), *SYN[:1] * 3],
    [clear("a", 301), clear("b", 200), *[TEN] * 3],
    [trial("tls_versions", ("1.2",), most="1.2"), trial("tls_versions", ("1.3",), most="1.3"), *[TEN] * 3],
    [*(trial("h2_settings", ((grease, 1),), effective=()) for grease in (0x1A1A, 0x2A2A)), *[icw(4)] * 3],
    [icw(10), icw(9, mss=64), icw(10), icw(10, mss=1460)],
    [icw(45, mss=64), icw(5, mss=536), icw(2, mss=1460)],
    [icw(10), tls(4), icw(10)],
    [icw(10), icw(10), icw(10), icw(3, grade="L")],
])  # fmt: skip
def test_what_loss_or_another_question_explains_is_not(alike: Trials) -> None:
    assert text(*alike) in (FEW, "-")
    assert text(*alike * 12) == ("one A" if any(t.knob == "icw" and t.grade == "C" for t in alike) else FEW)


@pytest.mark.parametrize(("trials", "missing"), [
    ([TEN] * 3, ("icw",)),
    ([TEN] * 8, ()),
    ([TEN] * 7 + [SETTINGS] * 7, ("icw", "h2_settings")),
    ([], ()),
    # the page is short
    ([ENDED] * 8 + [TEN] + [PROVEN_TLS] * 2, ("icw_tls",)),
    ([TEN, icw(4)], ("icw",)),
    ([TEN, icw(4)] * 2, ()),
    # more of them would not show more
    ([ENDED] * 8, ()),
])  # fmt: skip
def test_what_is_lacking_is_named_until_it_is_reported(trials: Trials, missing: tuple[str, ...]) -> None:
    assert lacking(trials) == missing


def test_hints_are_what_proves_nothing_yet() -> None:
    assert hints([TEN, icw(4)]) and hints([TEN] * 8 + [LOW_TIMER]) and hints([tls(10)] * 8 + [tls(4)])
    assert not any(map(hints, ([TEN] * 3, [TEN] * 8, [TEN, icw(4)] * 2, [])))


def test_two_facts_are_two_witnesses_and_those_of_one_connection_are_one() -> None:
    """One SYN-ACK that went another way has another MSS, window and signature: nothing is known of servers."""

    def synack(mss: int) -> Trials:
        facts = trial("signature", f"4:64:0:{mss}"), trial("rwin_ts", 20 * mss, server_mss=mss)
        return [replace(fact, trace_id=facts[0].trace_id) for fact in facts]

    found = verdict(*SYN, icw(10), icw(4))
    assert found is not None and (found.grade, found.detail("differs")) == ("B", ("icw", "signature"))
    usual = [reading for _ in range(10) for reading in synack(1460)] + [trial("rwin", 29200, server_mss=1460)]
    assert text(*usual, *synack(1380)) == "mixed C" and text(*usual, *synack(1380), *synack(1380)) == "mixed B"


def test_places_are_reported_and_nothing_of_nothing() -> None:
    found = verdict(*(clear("x", place=place) for place in ("fra", "ams") * 4), *[TEN] * 8)
    assert found is not None and found.value == "one" and found.detail("places") == ("ams", "fra")
    silent = Observation("icw", None, "no-synack", grade="N")
    assert across({}) is None and across({"icw": [silent], "http_clear": [silent]}) is None


def drawn(rng: Random, servers: list[Mapping[str, int]], loss: float) -> Trials:
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
    false, found = (sum(text(*trials).startswith("mixed") for trials in many) / 2000 for many in (one, two))
    assert false <= 0.01 and found >= 0.95, (false, found)
