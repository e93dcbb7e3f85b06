# SPDX-License-Identifier: MIT
"""The sealed suite: worlds that nobody who works on a policy has seen, policies of ours and of others, one table."""
