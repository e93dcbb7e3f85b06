# SPDX-License-Identifier: MIT
"""The sealed suite: all policies, ours and other libraries', on worlds that their authors never saw; one table."""
