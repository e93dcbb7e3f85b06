"""One server or unlike ones: on trials made by hand, and on thousands drawn by seed, with what loss does to them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from random import Random

import pytest

from configtron.fingerprint.load_balancing import across
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.verdict import canonical
from configtron.nouns import Observation, Value

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


@pytest.mark.parametrize(("connections", "said"), [(2, "-"), (3, FEW), (5, FEW), (6, "one B"), (8, "one A")])
def test_one_needs_connections(connections: int, said: str) -> None:
    assert text(*(trial("signature", "4:64") for _ in range(connections))) == said


@pytest.mark.parametrize(
    "unlike",
    [
        [trial("signature", "4:64:0:1460:a"), trial("signature", "4:128:0:1460:a")],
        [trial("rwin", 29200, server_mss=1460), trial("rwin", 14600, server_mss=1460)],
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
            trial("rwin", 26800, server_mss=1340),
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
        [icw(10), icw(9), icw(8), icw(10)],
        [icw(45, mss=64), icw(5, mss=536), icw(2, mss=1460)],
        [icw(10), icw(10), icw(10), icw(3, grade="L")],
    ],
)
def test_what_loss_or_another_question_explains_is_not(alike: list[Observation]) -> None:
    assert text(*alike) in (FEW, "-")
    assert text(*alike, *alike, *alike) in ("one A", "one B")


def test_one_needs_windows_and_settings_where_there_are_some() -> None:
    seen = [trial("signature", "4:64") for _ in range(9)]
    assert text(*seen, *[icw(10)] * 5) == FEW and text(*seen, *[icw(10)] * 6) == "one B"
    assert text(*seen, *[trial("h2_settings", ())] * 3) == FEW
    paused = [trial("icw", n, "L", proof="server-paced", mss=536, bytes=n * 536) for n in (1, 4, 20, 20, 20)]
    assert text(*seen, *paused) == FEW, "three runs would have shown a window of less than 20"


def test_a_low_bound_is_no_low_window() -> None:
    low = trial("icw", 4, "L", proof="after-timer", mss=536, bytes=2144)
    assert text(*[icw(10)] * 6, low, low) == FEW, "it may be one"
    paced = trial("icw", 4, "L", proof="server-paced", mss=536, bytes=2144)
    assert text(*[icw(10)] * 6, paced) == "one B"


def test_two_facts_are_two_witnesses() -> None:
    trials = [trial("signature", "4:64"), trial("signature", "4:128"), icw(10), icw(4)]
    found = verdict(*trials)
    assert found is not None and (found.grade, found.detail("differs")) == ("B", ("icw", "signature"))


def test_places_are_told() -> None:
    trials = [trial("http_clear", "http/1.1", status=200, server="x", place=place) for place in ("fra", "ams") * 3]
    found = verdict(*trials)
    assert found is not None and found.value == "one" and found.detail("places") == ("ams", "fra")


def drawn(rng: Random, servers: list[Mapping[str, int]], loss: float) -> list[Observation]:
    """A target's trials: each connection meets one of the servers by chance; flights lose their tails."""
    found = []
    for mss in (536, 1460, 536, 536, 1460, 64):
        window = rng.choice(servers)["icw"]
        while window > 1 and rng.random() < loss:
            window -= 1
        found.append(icw(window, mss))
    found += [trial("h2_settings", ((3, rng.choice(servers)["streams"]),)) for _ in range(3)]
    return found


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_shares_found_and_false(loss: float) -> None:
    rng = Random(7)
    one = [drawn(rng, [{"icw": rng.choice((4, 10, 24)), "streams": 100}], loss) for _ in range(2000)]
    two = [drawn(rng, [{"icw": 4, "streams": 100}, {"icw": 10, "streams": 128}], loss) for _ in range(2000)]
    false = sum(text(*trials).startswith("mixed") for trials in one) / len(one)
    found = sum(text(*trials).startswith("mixed") for trials in two) / len(two)
    assert false <= 0.01 and found >= 0.95, (false, found)


def test_nothing_is_said_of_nothing() -> None:
    assert across({}) is None
    silent = Observation("icw", None, "no-synack", grade="N")
    assert across({"icw": [silent], "http_clear": [silent]}) is None
