# SPDX-License-Identifier: MIT
"""Rules: one way to write them, also by columns, the kernel's way to look them up, differences that lead there.

Plans say all that changes and nothing else, the same for the same; the journal says what is due to an act.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Place, Reach, Rules
from configtron.tune.ipv4_columns import format_ipv4, parse_ipv4
from configtron.tune.journal import (
    BEGUN,
    FORGET,
    GUARD,
    KEPT,
    LEASED,
    NOTHING,
    OPEN,
    REPLACED,
    UNDO,
    UNDOING,
    UNDONE,
    WRITING,
    Transaction,
    due,
)
from configtron.tune.plan import CANARY, UNTOUCHED, Advice, PrefixShare, advise, aim, changes, follow, recognised
from configtron.tune.rules import after, canonical, check, difference, lookup

NAMES = ("a", "b", "c")
PROFILES = {name: Profile(name, (("initcwnd", position + 1),)) for position, name in enumerate(NAMES)}

BITS = (st.integers(0, 2**32 - 1), st.integers(0, 32))
prefixes = st.dictionaries(
    st.builds(lambda bits, length: str(ip_network((bits & 0xFF00FFFF, length), strict=False)), *BITS),
    st.sampled_from(NAMES),
    max_size=12,
)
rules = st.builds(Rules, st.just(PROFILES), prefixes, st.sampled_from(("", *NAMES)))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("192.0.2.0/24", "192.0.2.0/24"), (" 192.0.2.7", "192.0.2.7/32"), ("2001:DB8:0::/48", "2001:db8::/48"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"), ("::/0", "::/0"),
    ],
)  # fmt: skip
def test_a_prefix_is_written_one_way(written: str, meant: str) -> None:
    assert canonical(written) == meant


@given(
    st.lists(st.sampled_from(["0", "00", "01", "1", "128", "255", "256", "\u0663"]), min_size=4, max_size=4),
    st.sampled_from(["0", "08", "8", "16", "24", "31", "32", "33", ""]),
)
def test_the_short_way_to_a_prefix_is_that_of_ipaddress(octets: list[str], length: str) -> None:
    written = f"{'.'.join(octets)}/{length}"
    try:
        meant = str(ip_network(written))
    except ValueError:
        with pytest.raises(BadInput):
            canonical(written)
    else:
        assert canonical(written) == meant


@pytest.mark.parametrize(
    "written",
    ["192.0.2.1/24", "example.org", "", "192.0.2.0/33", "2001:db8::1/48", "fe80::%eth0", "fe80::%x;\nevil;#/128"],
)
def test_what_is_no_prefix_is_refused(written: str) -> None:
    with pytest.raises(BadInput, match="is no prefix"):
        canonical(written)


ODD = (
    "0.0.0.0/0 1.2.3.4/32 255.255.255.255/32 1.2.3.4 010.0.0.0/8 00.0.0.0/8 10.0.0.0/33 10.0.0.0/08 10.0.0.1/24 "
    "256.0.0.0/8 999.0.0.0/8 ::/0 ::ffff:1.2.3.0/120 1.2.3./24 1..2.3/4 .1.2.3/1 1.2.3.4/ 1/2.3.4.0 1.2.3.0.0/24 "
    "1234.0.0.0/8 1.2.3.0/024 1.2.3.0/2x default a.b.c.d/8 1.2.3.0/240 1.2.3.0/24/ -1.2.3.0/24"
).split()


def is_ipv4(text: str) -> bool:
    try:
        return canonical(text) == text and ":" not in text
    except BadInput:
        return False


@pytest.mark.parametrize("seed", range(3))
def test_they_are_taken_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    letters = ["".join(random.choices("0123456789./", k=random.randrange(1, 19))) for _ in range(2000)]
    near = [str(IPv4Network((random.getrandbits(32), random.randrange(33)), strict=False)) for _ in range(2000)]
    broken = [one.replace(random.choice(one), random.choice("01239./"), 1) for one in near]
    texts = [*ODD, *letters, *near, *broken]
    found = parse_ipv4(np.array([text.encode() for text in texts]))
    right = [text for text in texts if is_ipv4(text)]
    assert [text for text, taken in zip(texts, found.rows, strict=True) if taken] == right
    networks = [IPv4Network(text) for text in right]
    assert found.addresses.tolist() == [int(one.network_address) for one in networks]
    assert found.lengths.tolist() == [one.prefixlen for one in networks]
    assert [text.decode() for text in format_ipv4(found.addresses, found.lengths).tolist()] == right


def test_none_is_none() -> None:
    found = parse_ipv4(np.array([b"::/0"]))
    assert not found.rows.any() and len(format_ipv4(found.addresses, found.lengths)) == 0


@pytest.mark.parametrize("wrong", [Rules(PROFILES, {"192.0.2.0/24": "z"}), Rules(PROFILES, default="z")])
def test_names_without_a_profile_are_refused(wrong: Rules) -> None:
    with pytest.raises(BadInput, match="no profile is called 'z'"):
        check(wrong)


@given(rules, st.integers(0, 2**32 - 1))
def test_the_longest_prefix_wins(held: Rules, bits: int) -> None:
    address = ip_address(bits & 0xFF00FFFF)
    holding = [prefix for prefix in held.prefixes if address in ip_network(prefix)]
    best = max(holding, key=lambda prefix: ip_network(prefix).prefixlen, default=None)
    name = held.prefixes[best] if best else held.default
    assert lookup(held, str(address)) == (PROFILES[name] if name else None)
    assert lookup(held, f"::ffff:{address}") == lookup(held, str(address))


@given(rules, rules)
def test_a_difference_leads_where_it_says(have: Rules, want: Rules) -> None:
    changes = difference(have, want)
    assert after(have, changes) == want
    assert bool(changes) == (have != want)
    assert not [prefix for prefix, name in changes.prefixes.items() if have.prefixes.get(prefix) == name]
    assert changes.dropped_prefixes <= have.prefixes.keys()


@pytest.mark.parametrize(
    ("reach", "value", "taken"),
    [
        (Reach("initcwnd", least=1, most=1000), 10, True), (Reach("initcwnd", least=1, most=1000), 0, False),
        (Reach("initcwnd", least=1), "ten", False), (Reach("pacing", values=("pfifo_fast", "fq")), "fq", True),
        (Reach("pacing", values=("pfifo_fast", "fq")), "on", False),
        (Reach("pacing", values=("fq", "lp"), refused=(("lp", "it needs ECN"),)), "lp", False),
    ],
)  # fmt: skip
def test_reach(reach: Reach, value: Value, taken: bool) -> None:
    assert reach.takes(value) == taken


WEB = Profile("web", (("initcwnd", 20), ("tcp_congestion_control", "reno")))
SMALL = Profile("small", (("initcwnd", 4),))
HAVE = Rules({"web": WEB}, {"10.1.0.0/16": "web", "10.2.0.0/16": "web"}, "")
NONE, ALL = PrefixShare("holdback", "s", 0.0), PrefixShare("canary", "s", 1.0)

LETTERS = st.sampled_from(["a", "b", "c", "d"])
KNOB_VALUES = st.dictionaries(st.sampled_from(["initcwnd", "priority", "mark"]), st.integers(0, 3))
PREFIXES = st.sampled_from([f"10.{n}.0.0/16" for n in range(5)] + ["10.0.0.0/8", "2001:db8::/32"])


@st.composite
def rules_in_use(draw: st.DrawFn) -> Rules:
    """Rules as drivers have them: no profile without a client."""
    prefixes = draw(st.dictionaries(PREFIXES, LETTERS))
    default = draw(st.one_of(st.just(""), LETTERS))
    used = sorted({*prefixes.values(), default} - {""})
    return Rules({name: Profile(name, tuple(draw(KNOB_VALUES).items())) for name in used}, prefixes, default)


@given(rules_in_use(), rules_in_use(), st.sets(st.integers(0, 30)))
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


@pytest.mark.parametrize(
    ("status", "in_time", "expired"),
    [(BEGUN, FORGET, FORGET), (WRITING, UNDO, UNDO), (LEASED, GUARD, UNDO), (UNDOING, UNDO, UNDO),
     *((over, NOTHING, NOTHING) for over in (KEPT, UNDONE, REPLACED))],
)  # fmt: skip
def test_due(status: str, in_time: str, expired: str) -> None:
    assert due(status, rebooted=False, expired=False) == in_time
    assert due(status, rebooted=False, expired=True) == expired
    # The kernel that it was set in is gone, and so is all of it.
    assert due(status, rebooted=True, expired=False) == (FORGET if status in OPEN else NOTHING)


def test_an_act_that_is_over_keeps_no_rules() -> None:
    rules = Rules({}, {"10.0.0.0/8": "web"})
    act = Transaction("route", Place(), "", "boot", LEASED, "{}", rules, id=3, watchdog="1 2")
    over = act.closed(UNDONE, "lease ended")
    assert (over.id, over.status, over.why) == (3, UNDONE, "lease ended")
    assert (over.rules, over.before, over.watchdog) == (Rules(), "", "")
