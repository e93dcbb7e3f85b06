# SPDX-License-Identifier: MIT
"""The group of the web server's workers, which must be able to write to the log socket."""

from __future__ import annotations

import grp
import os
from collections import Counter
from collections.abc import Collection

from configtron.linux.proc import port_holders
from configtron.model.errors import BadInput
from configtron.service.outcomes.readiness import WEB_PORTS

# Groups of web servers' packages: Debian's nginx and Apache, nginx and Apache elsewhere, Arch. A server that is not
# started yet has one of these.
NAMES = ("www-data", "nginx", "apache", "http")


def web_group(name: str = "", ports: Collection[int] = WEB_PORTS, names: Collection[str] = NAMES) -> int | None:
    """Return the GID of the group of that name. Without a name: that of the workers which listen on `ports`, else the
    first of `names` that exists. None: no such group, or this process is not root and cannot give a file to a group.

    Errors: `BadInput` where no group has that name.
    """
    if name:
        try:
            return grp.getgrnam(name).gr_gid
        except KeyError as error:
            raise BadInput(f"--log-group {name[:60]!r}: no group is called that; see: getent group") from error
    if os.geteuid() != 0:
        return None
    # The first process of a server, which starts the workers, runs as root: group 0.
    found = Counter(one.gid for one in port_holders(ports) if one.gid)
    if found:
        return found.most_common(1)[0][0]
    known = {one.gr_name: one.gr_gid for one in grp.getgrall()}
    return next((known[one] for one in names if one in known), None)
