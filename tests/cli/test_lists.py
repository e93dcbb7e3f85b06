# SPDX-License-Identifier: MIT
from configtron.probe.targets import hostname, read
from configtron.service.lists import bundled, list_source


def test_the_thousand_names() -> None:
    source = list_source("alexa-top1k")
    names = [line for line in source.text.splitlines() if line and not line.startswith("#")]
    assert len(names) == len(set(names)) == 1000
    assert [hostname(name) for name in names] == names
    assert all("." in name for name in names)
    assert [target.host for target in read([source])] == names


def test_the_list_says_what_it_is_not() -> None:
    about = list_source("alexa-top1k").text
    assert "2026-11-21" in about and "not the Alexa list" in about
    assert "alexa-top1k" in bundled()
