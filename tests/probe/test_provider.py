# SPDX-License-Identifier: MIT
import pytest

from configtron.probe.provider import provider, registered_domain


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.bbc.co.uk", "bbc.co.uk"), ("Mail.Google.com.", "google.com"), ("a.b.c.tokyo.jp", "c.tokyo.jp"),
        ("someone.github.io", "someone.github.io"), ("co.uk", "co.uk"), ("localhost", "localhost"),
        ("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1"),
    ],
)  # fmt: skip
def test_registered_domain(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


def test_the_certificates_organisation_goes_first() -> None:
    assert provider("www.example.com", " Example\n Trust,  Inc. ") == "Example Trust, Inc."
    assert provider("www.example.com", " ") == provider("www.example.com") == "example.com"
