# SPDX-License-Identifier: MIT
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import Target
from configtron.probe import targets
from configtron.probe.targets import Source, order


def read(*sources: Any, **more: Any) -> tuple[Target, ...]:
    return tuple(targets.read(*sources, **more))


def shard(*arguments: Any, **more: Any) -> list[Target]:
    return list(targets.shard(*arguments, **more))


def lines(*words: str) -> list[Source]:
    return [Source("", word) for word in words]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Example.COM.", Target("example.com")),
        ("example.com:8080", Target("example.com", port=8080)),
        ("https://example.com/a?b=c", Target("example.com", port=443, path="/a?b=c")),
        ("http://example.com:81", Target("example.com", port=81)),
        ("https://[2001:db8::7]/x", Target("2001:db8::7", "2001:db8::7", 443, "/x")),
        ("example.com/a/b", Target("example.com", path="/a/b")),
        ("192.0.2.7", Target("192.0.2.7", "192.0.2.7")),
        ("192.0.2.7:8080", Target("192.0.2.7", "192.0.2.7", 8080)),
        ("2001:DB8::7", Target("2001:db8::7", "2001:db8::7")),
        ("[2001:db8::7]:443", Target("2001:db8::7", "2001:db8::7", 443)),
        ("192.0.2.7/32", Target("192.0.2.7", "192.0.2.7")),
        ("bücher.example", Target("xn--bcher-kva.example")),
        ("straße.example", Target("xn--strae-oqa.example")),
        ("17,google.com", Target("google.com")),
        ("192.0.2.7, example.com, shop, 8443", Target("example.com", "192.0.2.7", 8443, tag="shop")),
        (", example.com, shop", Target("example.com", tag="shop")),
        ('192.0.2.7,,"a, b"', Target("192.0.2.7", "192.0.2.7", tag="a, b")),
        ("192.0.2.7,,,81", Target("192.0.2.7", "192.0.2.7", 81)),
        ("localhost", Target("localhost")),
    ],
)
def test_forms_of_a_target(text: str, target: Target) -> None:
    assert read(lines(text)) == (target,)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("192.0.2.300", "not an address"),
        ("1.2.3", "not an address"),
        ("example.com:0", "port '0'"),
        ("example.com:65536", "port '65536'"),
        ("example.com:" + "9" * 5000, "ports are 1 to 65535"),
        ("ftp://example.com", "only http and https"),
        ("http://me@example.com", "user name"),
        ("-x.example", "not a host name"),
        ("a..b", "not a host name"),
        ("a b", "not a host name"),
        ("a" * 64 + ".example", "not a host name"),
        ("[2001:db8::7", "write [IPv6]"),
        ("fe80::1%eth0", "zone"),
        ("192.0.2.0/33", "not an address block"),
        ("a,b,c,d,e", "not an address"),
        ("rank,domain", "without a heading"),
        ("http://example.com:99999/", "'http://example.com:99999/': not a URL"),
        ("192.0.2.1,b,c,4,e", "5 columns"),
        (",,x", "neither IP nor DOMAIN"),
        ('192.0.2.7,"x', "not CSV"),
        ("http://example.com/a b", "plain ASCII"),
    ],
)
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


def test_a_path_for_lines_that_name_none() -> None:
    assert [t.path for t in read(lines("a.example", "http://a.example/b"), path="/big")] == ["/big", "/b"]


@pytest.mark.slow
@given(st.text(max_size=60) | st.text(alphabet='aé.:/[]0123456789,# "-%@?', max_size=40))
@example("http://[")
@example("http://a:b")
@example("\ud800.example")
@example("٣.example:٣")
@example("xn--a.example")
@example("1,\r2")
def test_any_text_gives_targets_or_bad_input(text: str) -> None:
    try:
        for target in read([Source("f", text)], most=50):
            assert target.host.isascii() and 1 <= target.port <= 65535 and target.path.startswith(("/", "?"))
    except BadInput as error:
        assert "\n" not in str(error)


SITES = [Target(f"s{n}.example") for n in range(500)]


def test_order_is_the_seeds() -> None:
    assert order(SITES, 1) == order(reversed(SITES), 1) != order(SITES, 2)
    assert sorted(order(SITES, 1), key=lambda t: int(t.host[1:-8])) == SITES


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
