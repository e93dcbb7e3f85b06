# SPDX-License-Identifier: MIT
from configtron.model.nouns import Target
from configtron.report.target_results import found_in, rows_of
from tests.support.sample_results import reading, result, run


def test_results_are_merged_by_site_and_vantage() -> None:
    found = list(found_in(run()))
    assert [(item.site, item.vantage) for item in found] == [
        ("a.example", "eu"), ("a.example", "na"), ("b.example", "eu"), ("b.example", "na"),
    ]  # fmt: skip
    assert found[0].verdicts["icw"].value == 4 and found[0].verdicts["icw"].grade == "B"
    assert found[2].verdicts["icw"].reason == "too-short" and not found[2].empty
    assert found[3].verdicts["icw"].text == ">= 3"
    assert len(found[0].evidence) == 2


def test_the_target_is_the_one_that_was_named() -> None:
    elsewhere = Target("www.a.example", "192.0.2.9", 443, provider="A")
    led = result("a.example", "na", 1)._replace(target=elsewhere)
    (item,) = found_in([led, result("a.example", "na", 2)])
    assert item.fingerprint.target == Target("a.example", "192.0.2.1", 80, provider="A")


def test_a_target_without_any_value_is_empty() -> None:
    (item,) = found_in([result("a.example", "na", 1, reading("icw", "!no-synack"))])
    assert item.empty


def test_rows_of_the_summary() -> None:
    row, timer = rows_of(list(found_in(run())), ["icw", "rwin", "synack_rto"], "na")
    assert (row.known, row.compared, row.differing, row.undetermined) == (1, 1, 1, 1)
    assert (timer.compared, timer.differing) == (2, 0)


def test_a_mixed_site_is_in_no_row() -> None:
    mixed = result("a.example", "na", 9, reading("load_balancing", "mixed", "C", ""))
    ordered = sorted([*run(), mixed], key=lambda r: (r.site, r.vantage))
    (row,) = rows_of(list(found_in(ordered)), ["icw"], "na")
    assert (row.known, row.compared, row.differing, row.mixed) == (0, 0, 0, 1)
