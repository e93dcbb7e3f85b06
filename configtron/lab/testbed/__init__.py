# SPDX-License-Identifier: MIT
"""The testbed: page loads over the real Linux stack, inside a guest of the lab, mostly in virtual time."""
