# SPDX-License-Identifier: MIT
"""The provider that a certificate named is the target's, in every output."""

from configtron.model.nouns import Observation
from configtron.report.target_results import found_in
from tests.support.sample_results import reading, result


def test_the_certificate_names_the_provider() -> None:
    seen = Observation("provider", "Some CDN", None, "", "certificate organisation", "C")
    (found,) = found_in([result("a.example", "na", 1, reading("icw", 10)), result("a.example", "na", 2, seen)])
    assert found.fingerprint.target.provider == "Some CDN"
