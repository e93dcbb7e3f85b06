"""Where a vantage stands: what it names is kept and checked, what it leaves out comes from the routes."""

import pytest

from configtron.errors import BadInput
from configtron.nouns import Target, Vantage
from configtron.probe.wire.namespaces import own_namespace
from configtron.probe.wire.standing import standing

LOCAL = [Target("127.0.0.1", "127.0.0.1")]


@pytest.mark.parametrize(("given", "source"), [("", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")])
def test_servers_of_this_host_are_met_on_loopback(given: str, source: str) -> None:
    found = standing(Vantage("a", "A", source_address=given), LOCAL)
    assert (found.source_address, found.interface) == (source, "lo")


def test_what_does_not_exist_is_said_at_once() -> None:
    with pytest.raises(BadInput, match="no network namespace 'nope'"):
        standing(Vantage("a", "A", netns="nope"), LOCAL)
    with pytest.raises(BadInput, match="no device 'nope0'"):
        standing(Vantage("a", "A", interface="nope0", source_address="127.0.0.1"), LOCAL)


@pytest.mark.root
def test_a_vantage_of_a_namespace_is_kept() -> None:
    with own_namespace() as (vantage, _):
        assert standing(vantage, []) == vantage
