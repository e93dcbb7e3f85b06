# SPDX-License-Identifier: MIT
"""The provider of a site, read from its leaf certificate by the cryptography library."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from configtron.model.nouns import Value

# Names under which a certificate holds: some hold hundreds; so many show whose they are.
NAMES_MOST = 5


@lru_cache(maxsize=4096)
def identity(certificate: bytes) -> tuple[tuple[str, Value], ...]:
    """Return the identity of a DER certificate as details: `sha256` always, the rest if it parses.

    organisation, subject   O and CN of the subject; "" if it has none
    issuer                  CN of the issuer, or its O
    names, names_count      the first names it holds for, and how many there are
    key                     "ec-256", "rsa-2048", "ed25519"
    expires                 the last day, as 2026-11-21
    """
    # Imported here: 50 ms that a run without TLS does not need.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
    from cryptography.x509.oid import NameOID

    def named(name: x509.Name, oid: x509.ObjectIdentifier) -> str:
        return next((str(attribute.value) for attribute in name.get_attributes_for_oid(oid)), "")

    def kind(key: CertificatePublicKeyTypes) -> str:
        size = getattr(key, "key_size", 0)
        name = type(key).__name__.lower().lstrip("_").removesuffix("publickey").replace("ellipticcurve", "ec")
        return f"{name}-{size}" if size else name

    found: dict[str, Value] = {"sha256": sha256(certificate).hexdigest()}
    try:
        leaf = x509.load_der_x509_certificate(certificate)
        found["organisation"] = named(leaf.subject, NameOID.ORGANIZATION_NAME)
        found["subject"] = named(leaf.subject, NameOID.COMMON_NAME)
        issuer = leaf.issuer
        found["issuer"] = named(issuer, NameOID.COMMON_NAME) or named(issuer, NameOID.ORGANIZATION_NAME)
        found["expires"] = leaf.not_valid_after_utc.date().isoformat()
        found["key"] = kind(leaf.public_key())
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = alternative.get_values_for_type(x509.DNSName)
        found["names"], found["names_count"] = tuple(names[:NAMES_MOST]), len(names)
    except (
        ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.ExtensionNotFound,
        x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
    ):  # fmt: skip
        # Return the details read so far.
        pass
    return tuple(sorted(found.items()))
