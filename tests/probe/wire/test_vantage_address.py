# SPDX-License-Identifier: MIT
"""Where a vantage stands: what it names is kept and checked, what it leaves out comes from the routes."""

import pytest

from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe.wire.vantage_address import checked_vantage
from tests.support.namespaces import own_namespace

LOCAL = [Target("127.0.0.1", "127.0.0.1")]


@pytest.mark.parametrize("given", ["", "127.0.0.2"])
def test_what_is_left_open_stays_open_for_each_target(given: str) -> None:
    """`route_to` decides: servers of this host are met on loopback (`test_routes.py`)."""
    vantage = Vantage("a", "A", source_address=given)
    assert checked_vantage(vantage, LOCAL) == vantage


def test_an_interface_that_is_named_gives_the_source_address() -> None:
    assert checked_vantage(Vantage("a", "A", interface="lo"), LOCAL).source_address == "127.0.0.1"


def test_what_does_not_exist_is_stated_at_once() -> None:
    with pytest.raises(BadInput, match="no network namespace 'nope'"):
        checked_vantage(Vantage("a", "A", netns="nope"), LOCAL)
    with pytest.raises(BadInput, match="no device 'nope0'"):
        checked_vantage(Vantage("a", "A", interface="nope0", source_address="127.0.0.1"), LOCAL)


@pytest.mark.root
def test_an_address_of_each_version_that_is_asked_for() -> None:
    names = [Target("a.example")]
    with own_namespace() as (vantage, _):
        bare = Vantage("a", "A", netns=vantage.netns, interface="eth0")
        six = checked_vantage(bare, names, (6,))
        assert (six.source_address, six.interface) == ("", "eth0") and six.source_address6.endswith("::2")
        both = checked_vantage(bare, names, (4, 6))
        assert both.source_address.endswith(".2") and both.source_address6.endswith("::2")
        assert checked_vantage(bare, names).source_address6 == ""


@pytest.mark.root
def test_a_vantage_of_a_namespace_is_kept() -> None:
    with own_namespace() as (vantage, _):
        assert checked_vantage(vantage, []) == vantage
