# SPDX-License-Identifier: MIT
"""Lists that a user gives: targets, blocklists, vantages; and their order, in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import Target
from configtron.probe import targets
from configtron.probe.blocklist import Blocklist
from configtron.probe.special import SPECIAL
from configtron.probe.targets import Source, order
from configtron.probe.vantages import choose, read_vantages
from configtron.probe.wire.listing import listed, write_listing


def read(*sources: Any, **more: Any) -> tuple[Target, ...]:
    return tuple(targets.read(*sources, **more))


def shard(*arguments: Any, **more: Any) -> list[Target]:
    return list(targets.shard(*arguments, **more))


def lines(*words: str) -> list[Source]:
    return [Source("", word) for word in words]


@pytest.mark.parametrize(("text", "target"), [
    ("Example.COM.", Target("example.com")), ("example.com:8080", Target("example.com", port=8080)),
    ("https://example.com/a?b=c", Target("example.com", port=443, path="/a?b=c")),
    ("http://example.com:81", Target("example.com", port=81)),
    ("https://[2001:db8::7]/x", Target("2001:db8::7", "2001:db8::7", 443, "/x")),
    ("example.com/a/b", Target("example.com", path="/a/b")), ("192.0.2.7", Target("192.0.2.7", "192.0.2.7")),
    ("192.0.2.7:8080", Target("192.0.2.7", "192.0.2.7", 8080)),
    ("2001:DB8::7", Target("2001:db8::7", "2001:db8::7")),
    ("[2001:db8::7]:443", Target("2001:db8::7", "2001:db8::7", 443)),
    ("192.0.2.7/32", Target("192.0.2.7", "192.0.2.7")), ("bücher.example", Target("xn--bcher-kva.example")),
    ("straße.example", Target("xn--strae-oqa.example")), ("17,google.com", Target("google.com")),
    ("192.0.2.7, example.com, shop, 8443", Target("example.com", "192.0.2.7", 8443, tag="shop")),
    (", example.com, shop", Target("example.com", tag="shop")),
    ('192.0.2.7,,"a, b"', Target("192.0.2.7", "192.0.2.7", tag="a, b")),
    ("192.0.2.7,,,81", Target("192.0.2.7", "192.0.2.7", 81)), ("localhost", Target("localhost")),
    ("192.0.2.7,,tag#1,8443", Target("192.0.2.7", "192.0.2.7", 8443, tag="tag#1")),
    ("\t192.0.2.7,example.com,#2,81 # the second", Target("example.com", "192.0.2.7", 81, tag="#2")),
    ("https://example.com/a#b", Target("example.com", "", 443, "/a")),
])  # fmt: skip
def test_forms_of_a_target(text: str, target: Target) -> None:
    assert read(lines(text)) == (target,)


@pytest.mark.parametrize(("text", "complaint"), [
    ("192.0.2.300", "not an address"), ("1.2.3", "not an address"), ("example.com:0", "port '0'"),
    ("example.com:65536", "port '65536'"), ("example.com:" + "9" * 5000, "ports are 1 to 65535"),
    ("ftp://example.com", "only http and https"), ("http://me@example.com", "user name"),
    ("-x.example", "not a host name"), ("a..b", "not a host name"), ("a b", "not a host name"),
    ("a" * 64 + ".example", "not a host name"), ("[2001:db8::7", "write [IPv6]"), ("fe80::1%eth0", "zone"),
    ("192.0.2.0/33", "not an address block"), ("a,b,c,d,e", "not an address"), ("rank,domain", "without a heading"),
    ("http://example.com:99999/", "'http://example.com:99999/': not a URL"), ("192.0.2.1,b,c,4,e", "5 columns"),
    (",,x", "neither IP nor DOMAIN"), ('192.0.2.7,"x', "not CSV"), ("http://example.com/a b", "plain ASCII"),
])  # fmt: skip
def test_bad_lines_say_where_and_what(text: str, complaint: str) -> None:
    with pytest.raises(BadInput) as caught:
        read([Source("sites.csv", f"ok.example\n{text}\n")])
    message = str(caught.value)
    assert complaint in message or text == "a,b,c,d,e"
    assert message.startswith("sites.csv:2: ")
    assert "\n" not in message


def test_comments_blank_lines_and_repeats() -> None:
    text = "\ufeff# list\r\n\r\na.example # first\r\nb.example\r\na.example\r\n"
    found = read([Source("f", text), Source("g", "b.example\nc.example")])
    assert [t.host for t in found] == ["a.example", "b.example", "c.example"]


def test_blocks_are_expanded() -> None:
    assert [t.address for t in read(lines("192.0.2.8/30", "2001:db8::/127"))] == [
        "192.0.2.8", "192.0.2.9", "192.0.2.10", "192.0.2.11", "2001:db8::", "2001:db8::1",
    ]  # fmt: skip
    assert [t.port for t in read(lines("192.0.2.8/31,,tag,8080"))] == [8080, 8080]


@pytest.mark.slow
def test_a_block_is_bounded_unless_a_number_is_given() -> None:
    assert len(read(lines("198.18.0.0/16"))) == 65536
    with pytest.raises(BadInput, match="--max-targets"):
        read(lines("198.18.0.0/15"))
    assert len(read(lines("::/0"), most=10)) == 10
    assert read(lines("a.example"), most=0) == ()


SITES = [Target(f"s{n}.example") for n in range(500)]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_part_the_list_and_keep_its_order(count: int) -> None:
    shards = [shard(SITES, index, count, seed=1) for index in range(count)]
    assert sorted(t.host for part in shards for t in part) == sorted(t.host for t in SITES)
    assert all(len(part) > 500 / count * 0.6 for part in shards)
    whole = order(SITES, 3)
    assert order(shards[0], 3) == [t for t in whole if t in shards[0]]
    with pytest.raises(BadInput, match=f"0 to {count - 1}"):
        shard(SITES, count, count, seed=1)


def test_a_name_has_one_address() -> None:
    """Two would be one target by its name, and their answers could not be distinguished."""
    alike = "192.0.2.1,a.example\n192.0.2.1,a.example\na.example\n192.0.2.2,,\n192.0.2.2\n"
    assert len(read([Source("f", alike)])) == 2
    for text in ("192.0.2.1,a.example\n192.0.2.2,a.example", "a.example\n192.0.2.2,a.example"):
        with pytest.raises(BadInput, match=r"f:2: a\.example again, with another address"):
            read([Source("f", text)])
    assert len(read([Source("f", "192.0.2.1,a.example\n192.0.2.2,a.example,,8080")])) == 2


def test_the_order_on_disk_is_the_one_in_memory(tmp_path: Path) -> None:
    some = [Target(f"{n}.example", path=f"/{n % 3}", tag="ä") for n in range(50)]
    found = write_listing([*some, *some[:20]], tmp_path / "list", 5, chunk_size=7)
    assert list(listed(tmp_path / "list")) == order(some, 5) != order(some, 6)
    assert found.size == 50


def read_blocklist(source: Source) -> object:
    return Blocklist([source])


@pytest.mark.parametrize("reader", [lambda source: read([source], most=50), read_blocklist, read_vantages])
@given(st.text(max_size=60) | st.text(alphabet='aé.:/[]0123456789,# "-%@?*', max_size=40))
@example("http://[")
@example("http://a:b")
@example("\ud800.example")
@example("٣.example:٣")
@example("xn--a.example")
@example("1,\r2")
def test_any_text_is_read_or_bad_input(reader: Callable[[Source], Any], text: str) -> None:
    try:
        found = reader(Source("f", text))
        assert reader is not read_vantages, "any text is no table"
        for target in () if reader is read_blocklist else found:
            assert target.host.isascii() and 1 <= target.port <= 65535 and target.path.startswith(("/", "?"))
    except BadInput as error:
        assert "\n" not in str(error)


DEFAULT = Blocklist()
FILE = Source("blocked.txt", "# by mail\n1.2.3.0/24\n2606:4700::/32 # v6\n*.example.org\n4.4.4.4\n")
OURS, LAB = Blocklist([FILE]), Blocklist([FILE], special=False)
ALLOWED = Blocklist([FILE], allowed=[Source("allow.txt", "10.0.0.0/8\n1.2.3.0/24\n")])


@pytest.mark.parametrize("block", [ip_network(block) for block, _, _ in SPECIAL])
def test_each_special_range_is_blocked_to_its_edges(block: Any) -> None:
    assert DEFAULT.address(str(block.network_address)) and DEFAULT.address(str(block.broadcast_address))


@given(st.ip_addresses())
def test_agrees_with_a_search_through_the_table_and_with_python(address: Any) -> None:
    blocked = any(address in ip_network(block) for block, _, _ in SPECIAL)
    assert bool(DEFAULT.address(str(address))) == blocked
    if address.is_private or address.is_multicast or address.is_reserved and address.version == 4:
        assert blocked


@pytest.mark.parametrize(("blocklist", "word", "why"), [
    (DEFAULT, "192.168.1.1", "192.168.0.0/16 (private use, RFC 1918)"),
    *((DEFAULT, free, "") for free in ("1.1.1.1", "9.255.255.255", "11.0.0.0", "172.32.0.0", "223.255.255.255")),
    (DEFAULT, "2606:4700::1", ""), (OURS, "1.2.3.4", "1.2.3.0/24 (blocked.txt:2)"),
    (OURS, "4.4.4.4", "4.4.4.4 (blocked.txt:5)"), (OURS, "4.4.4.5", ""),
    (OURS, "a.b.example.org", "example.org (blocked.txt:4)"), (OURS, "Example.ORG.", "example.org (blocked.txt:4)"),
    (OURS, "notexample.org", ""), (OURS, "2606:4700::1", "2606:4700::/32 (blocked.txt:3)"),
    (OURS, "127.0.0.1", "127.0.0.0/8 (loopback, RFC 1122)"),
    # a lab has no special ranges
    (LAB, "10.0.0.1", ""), (LAB, "1.2.3.4", "1.2.3.0/24 (blocked.txt:2)"),
    # an allowlist exempts from special ranges, but not from the blocklist
    (ALLOWED, "10.1.2.3", ""), (ALLOWED, "1.2.3.4", "1.2.3.0/24 (blocked.txt:2)"),
    (ALLOWED, "8.8.8.8", "not in the allowlist"),
])  # fmt: skip
def test_what_is_blocked_and_why(blocklist: Blocklist, word: str, why: str) -> None:
    assert blocklist.host(word) == why
    if word[0].isdigit():
        assert blocklist.address(word) == why


@pytest.mark.parametrize(
    "line", ["300.1.1.1", "1.2.3.4/40", "a b", "::g", "-", "a.example", "*.b.example", "localhost"]
)
def test_bad_lines_of_a_blocklist_say_where(line: str) -> None:
    """A name is bad in an allowlist alone, which would not allow it."""
    with pytest.raises(BadInput, match="^b.txt:2: "):
        Blocklist(allowed=[Source("b.txt", f"\n{line}")])


TWO = """
[[vantage]]
name = "na"
region = "North America"
netns = "v-na"
interface = "eth0"
source_address = "10.60.1.2"
resolver = "10.61.0.53"
[[vantage]]
name = "eu"
"""


@pytest.mark.parametrize(("text", "complaint"), [
    ("x =", "not TOML"), ("", "at least one"), ("vantage = 1", "at least one"),
    (TWO + "\n[other]\n", "nothing else"), ("[[vantage]]\nregion = 'x'", "needs a name"),
    ("[[vantage]]\nname = 'A b'", "needs a name"),
    ("[[vantage]]\nname = 'a'\nnets = 'b'", "'nets' is unknown; known are name, region"),
    ("[[vantage]]\nname = 'a'\nnetns = 1", "netns is a text"),
    ("[[vantage]]\nname = 'a'\nsource_address = '::1'", "no IPv4 address"),
    ("[[vantage]]\nname = 'a'\nsource_address6 = 'x'", "source_address6"),
    (TWO + "[[vantage]]\nname = 'eu'", "twice"), ("vantage = [1]", "not a table"),
])  # fmt: skip
def test_mistakes_are_named(text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint) as caught:
        read_vantages(Source("v.toml", text))
    assert str(caught.value).startswith("v.toml: ")


def test_choosing_by_name_or_region() -> None:
    vantages = read_vantages(Source("v.toml", TWO))
    assert choose(vantages, "") == vantages
    assert [v.name for v in choose(vantages, "eu")] == ["eu"]
    assert [v.name for v in choose(vantages, " North America, EU")] == ["na", "eu"]
    with pytest.raises(BadInput, match="'mars': not among the vantages: na"):
        choose(vantages, "mars")
