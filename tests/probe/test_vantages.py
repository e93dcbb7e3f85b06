# SPDX-License-Identifier: MIT
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import Vantage
from configtron.probe.targets import Source
from configtron.probe.vantages import choose, read_vantages

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


def test_vantages_are_read_in_order() -> None:
    assert read_vantages(Source("v.toml", TWO)) == (
        Vantage("na", "North America", "v-na", "eth0", "10.60.1.2", resolver="10.61.0.53"),
        Vantage("eu", "eu"),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x =", "not TOML"),
        ("", "at least one"),
        ("vantage = 1", "at least one"),
        (TWO + "\n[other]\n", "nothing else"),
        ("[[vantage]]\nregion = 'x'", "needs a name"),
        ("[[vantage]]\nname = 'A b'", "needs a name"),
        ("[[vantage]]\nname = 'a'\nnets = 'b'", "'nets' is unknown; known are name, region"),
        ("[[vantage]]\nname = 'a'\nnetns = 1", "netns is a text"),
        ("[[vantage]]\nname = 'a'\nsource_address = '::1'", "no IPv4 address"),
        ("[[vantage]]\nname = 'a'\nsource_address6 = 'x'", "source_address6"),
        (TWO + "[[vantage]]\nname = 'eu'", "twice"),
        ("vantage = [1]", "not a table"),
    ],
)
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


@given(st.text(max_size=40))
def test_any_text_is_read_or_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        read_vantages(Source("f", text))
