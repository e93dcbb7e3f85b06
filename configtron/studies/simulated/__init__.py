# SPDX-License-Identifier: MIT
"""What the studies of simulated sessions share: worlds, numbers over worlds, replays."""
