# SPDX-License-Identifier: MIT
"""The provider of a site: the certificate's organisation, or else the registered domain.

Question   Which sites belong to one operator, so that their settings can be compared?
Method     The subject's organisation (O) of the leaf certificate, when it names one; most certificates are only
           domain-validated and name none: then the part of the name that was registered (public suffix + one label).
Differs    from looking up the address's network: a network names the carrier of a site, often not the operator who
configures it.
Source     publicsuffix.org; the list is a snapshot inside the publicsuffixlist package.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def provider(host: str, organisation: str = "") -> str:
    """Return the provider of that host, given its certificate's organisation ("" if it has none)."""
    return " ".join(organisation.split()) or registered_domain(host)


def registered_domain(host: str) -> str:
    """Return the registered part of a name; the name itself if it is a public suffix, a bare word or an address."""
    name = host.lower().removesuffix(".")
    if ":" in name or name.rpartition(".")[2].isdigit():
        return name
    return str(_suffixes().privatesuffix(name) or name)


@cache
def _suffixes() -> PublicSuffixList:
    # Imported here: reading the list takes 30 ms, which `--help` shall not pay.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
