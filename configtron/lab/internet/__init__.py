# SPDX-License-Identifier: MIT
"""The lab internet: sites, servers, links and middleboxes of known settings, drawn by seed."""
