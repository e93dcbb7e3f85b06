# SPDX-License-Identifier: MIT
"""A newer Debian package over an older one while agent and manager run and visitors load pages: `__main__`."""
