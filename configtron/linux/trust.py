# SPDX-License-Identifier: MIT
"""Whether a file is only root's and our own: what is loaded into the kernel, or started as root, must be.

Source     path_resolution(7); inode(7) for the sticky bit
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def others(path: Path, user: int | None = None) -> str:
    """Return who but root and a user (else we ourselves) could have written a path's content; "" for none.

    What is not there yet is judged by the folders above it, and a link by both of its ends. A folder with the sticky
    bit (/tmp) lets no user exchange the files of another.
    """
    ours = os.geteuid() if user is None else user
    whole = path.absolute()
    for each in dict.fromkeys((*whole.parents[::-1], whole, *whole.resolve().parents[::-1], whole.resolve())):
        try:
            found = each.stat()
        except OSError:
            continue
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, ours):
            return f"{each} belongs to user {found.st_uid}"
        if found.st_mode & _OTHERS_WRITE and not sticky:
            return f"{each} can be written by others"
    return ""
