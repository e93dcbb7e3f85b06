# SPDX-License-Identifier: MIT
"""Packages that a command needs beyond the standard library, and how to get one that is absent."""

from __future__ import annotations

from typing import NamedTuple

from configtron.model.errors import Missing


class Package(NamedTuple):
    """One distribution: its name on PyPI, the extra of setup.cfg that brings it ("" for none), Debian 12's name ("" if
    Debian has none, or one that is older than setup.cfg asks for).
    """

    distribution: str
    extra: str = ""
    debian: str = ""


# Module as imported -> the package that holds it.
PACKAGES: dict[str, Package] = {
    "click": Package("click", debian="python3-click"),
    "rich": Package("rich", debian="python3-rich"),
    "idna": Package("idna", debian="python3-idna"),
    "dns": Package("dnspython"),
    "publicsuffixlist": Package("publicsuffixlist"),
    "hyperframe": Package("hyperframe"),
    "hpack": Package("hpack", debian="python3-hpack"),
    "cryptography": Package("cryptography", debian="python3-cryptography"),
    "numpy": Package("numpy", debian="python3-numpy"),
    "maxminddb": Package("maxminddb", debian="python3-maxminddb"),
    "zstandard": Package("zstandard", debian="python3-zstandard"),
    "lazy_loader": Package("lazy_loader"),
    "scapy": Package("scapy", "craft", "python3-scapy"),
    "h2": Package("h2", "lab", "python3-h2"),
    "scipy": Package("scipy", "learn", "python3-scipy"),
    "sklearn": Package("scikit-learn", "learn", "python3-sklearn"),
    "pyarrow": Package("pyarrow", "parquet"),
    "distributed": Package("distributed", "dask"),
    "GPyOpt": Package("GPyOpt", "gpyopt"),
    "zmq": Package("pyzmq", "fleet", "python3-zmq"),
    "msgspec": Package("msgspec", "fleet"),
    "nacl": Package("PyNaCl", "fleet", "python3-nacl"),
}


def missing(error: ModuleNotFoundError) -> Missing:
    """Return how to install the package that an import lacked; raise `error` again if it names no package of ours."""
    module = (error.name or "").partition(".")[0]
    if module not in PACKAGES:
        raise error
    package = PACKAGES[module]
    wanted = f"'configtron[{package.extra}]'" if package.extra else "configtron"
    apt = f", or apt install {package.debian}" if package.debian else ""
    return Missing(f"this needs {package.distribution}: pip install {wanted}{apt}")
