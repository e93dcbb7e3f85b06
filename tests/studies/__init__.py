# SPDX-License-Identifier: MIT
"""Studies of `tune evaluate`."""
