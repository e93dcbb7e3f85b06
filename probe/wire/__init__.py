# SPDX-License-Identifier: MIT
"""The live world behind the scripts: sockets, captures, isolation, names, evidence files."""
