"""What a leaf certificate says about who runs a site. Parsed by the cryptography library, which we do not replace."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def organisation(certificate: bytes) -> str:
    """The subject's organisation (O) in a DER certificate; "" if it names none or cannot be read."""
    # Imported here: 50 ms that a run without TLS does not need.
    from cryptography import x509

    try:
        names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(
            x509.NameOID.ORGANIZATION_NAME
        )
        return str(names[0].value) if names else ""
    except (ValueError, TypeError):
        return ""
