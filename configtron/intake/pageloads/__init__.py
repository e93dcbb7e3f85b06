# SPDX-License-Identifier: MIT
"""Page loads of browsers, joined with the web server's log and the kernel's records of connections; all pure."""
