# SPDX-License-Identifier: MIT
"""A plan says all that changes and nothing else, the same for the same; following it leads there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune.plan import CANARY, UNTOUCHED, Advice, PrefixShare, advise, aim, changes, follow, recognised
from configtron.tune.rules import after, lookup

WEB = Profile("web", (("initcwnd", 20), ("tcp_congestion_control", "reno")))
SMALL = Profile("small", (("initcwnd", 4),))
HAVE = Rules({"web": WEB}, {"10.1.0.0/16": "web", "10.2.0.0/16": "web"}, "")
NONE, ALL = PrefixShare("holdback", "s", 0.0), PrefixShare("canary", "s", 1.0)

NAMES = st.sampled_from(["a", "b", "c", "d"])
KNOB_VALUES = st.dictionaries(st.sampled_from(["initcwnd", "priority", "mark"]), st.integers(0, 3))
PREFIXES = st.sampled_from([f"10.{n}.0.0/16" for n in range(5)] + ["10.0.0.0/8", "2001:db8::/32"])


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """Rules as drivers have them: no profile without a client."""
    prefixes = draw(st.dictionaries(PREFIXES, NAMES))
    default = draw(st.one_of(st.just(""), NAMES))
    used = sorted({*prefixes.values(), default} - {""})
    return Rules({name: Profile(name, tuple(draw(KNOB_VALUES).items())) for name in used}, prefixes, default)


@given(rules(), rules(), st.sets(st.integers(0, 30)))
def test_following_the_advice_leads_to_the_target(have: Rules, target: Rules, muted: set[int]) -> None:
    """Of a part, too: what is muted stays as it was, and no client is left with a profile that is not there."""
    advices = advise("memory", have, target)
    assert follow(have, advices) == target
    assert after(have, changes(have, target)) == target
    assert all(advice.was != advice.to for advice in advices), "an action of the form X -> X"
    assert len({advice.id for advice in advices}) == len(advices)
    assert bool(advices) == (have != target)
    led = follow(have, [advice for n, advice in enumerate(advices) if n not in muted])
    assert {*led.prefixes.values(), led.default} - {""} <= led.profiles.keys()
    left_out = {advice.scope for n, advice in enumerate(advices) if n in muted}
    for prefix in left_out & have.prefixes.keys():
        assert led.prefixes[prefix] == have.prefixes[prefix]


def test_ids_are_those_of_yesterday() -> None:
    advice = Advice("route", "10.1.0.0/16", "profile", None, "web")
    assert advice.id == "5df7ee249af84dfd"
    others = {"driver": "kmod", "scope": "10.2.0.0/16", "knob": "x", "was": "web", "to": "small"}
    differing = [advice, advice._replace(to=None), *(advice._replace(**{name: to}) for name, to in others.items())]
    assert len({one.id for one in differing}) == 7


def test_a_plan_that_is_out_of_date_is_refused() -> None:
    (advice,) = advise("memory", HAVE, replace(HAVE, prefixes={"10.1.0.0/16": "web"}))
    with pytest.raises(Refused, match="out of date.*is none now"):
        follow(replace(HAVE, prefixes={}), [advice])


def test_profiles_that_no_one_has_are_not_applied() -> None:
    assert aim(Rules(), replace(HAVE, profiles={"web": WEB, "small": SMALL}), NONE, ALL) == HAVE


MANY = Rules({"web": WEB}, {f"10.{n >> 8}.{n & 255}.0/24": "web" for n in range(4000)}, "")


def drawn(what: str, salt: str, share: float) -> set[str]:
    return {prefix for prefix in MANY.prefixes if PrefixShare(what, salt, share).holds(prefix)}


def test_a_share_is_always_the_same_and_as_large_as_it_says() -> None:
    held = drawn("holdback", "salt", 0.05)
    # Binomial: 200 expected, standard deviation 14.
    assert 140 < len(held) < 260
    assert held == drawn("holdback", "salt", 0.05) and held < drawn("holdback", "salt", 0.1)
    assert held != drawn("canary", "salt", 0.05) and held != drawn("holdback", "pepper", 0.05)


def test_who_is_held_back_gets_the_untouched_stack() -> None:
    share = PrefixShare("holdback", "pepper", 0.5)
    alone = aim(Rules(), MANY, share, ALL)
    assert alone.prefixes.keys() == {prefix for prefix in MANY.prefixes if not share.holds(prefix)}
    for wider in (replace(MANY, default="web"), replace(MANY, prefixes={**MANY.prefixes, "10.0.0.0/8": "web"})):
        assert not share.holds("10.0.0.0/8"), "choose another salt"
        covered = aim(Rules(), wider, share, ALL)
        for prefix in list(MANY.prefixes)[:200]:
            found = lookup(covered, prefix.partition("/")[0])
            assert found == (Profile(UNTOUCHED) if share.holds(prefix) else WEB), prefix


def test_only_the_canary_moves() -> None:
    share = PrefixShare("canary", "salt", 0.1)
    newer = replace(WEB, settings=(("initcwnd", 30),))
    want = replace(MANY, profiles={"web": newer})
    target = aim(MANY, want, NONE, share)
    moved = {prefix for prefix in MANY.prefixes if share.holds(prefix)}
    theirs = replace(newer, name="web" + CANARY)
    for prefix in MANY.prefixes:
        assert lookup(target, prefix.partition("/")[0]) == (theirs if prefix in moved else WEB)
    assert {advice.scope for advice in advise("m", MANY, target)} == moved | {"profile:web" + CANARY}
    # Then everybody: the canary's own profile goes.
    assert aim(target, want, NONE, ALL) == want
    assert aim(Rules(), want, NONE, share).prefixes.keys() == moved


def test_a_canary_of_all_is_no_canary_and_one_of_nearly_all_is() -> None:
    """At 1 the default goes to the wanted one and no profile gets a second name; below 1, however little, neither."""
    newer = replace(WEB, settings=(("initcwnd", 30),))
    want = replace(HAVE, profiles={"web": newer, "small": SMALL}, default="small")
    assert aim(HAVE, want, NONE, PrefixShare("canary", "s", 1.0)) == want
    nearly = aim(HAVE, want, NONE, PrefixShare("canary", "s", 1 - 2**-53))
    assert nearly.default == HAVE.default == "" and set(nearly.prefixes.values()) == {"web"}
    assert nearly.profiles == {"web": newer}, "all prefixes are drawn, so no client keeps the old one"
    for share in (0.0, 0.5):
        assert aim(HAVE, want, NONE, PrefixShare("canary", "s", share)).default == ""


def test_a_driver_that_forgets_names_is_understood() -> None:
    found = Rules({"p1": replace(WEB, name="p1")}, dict.fromkeys(HAVE.prefixes, "p1"), "")
    assert recognised(found, [HAVE]) == HAVE
    assert recognised(HAVE, [HAVE]) == HAVE
    foreign = Rules({"p1": Profile("p1", (("initcwnd", 99),))}, {"10.1.0.0/16": "p1"}, "")
    assert recognised(foreign, [HAVE]) == foreign
