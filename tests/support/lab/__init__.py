# SPDX-License-Identifier: MIT
"""Programs of the lab's tests that run in guests, and a guest that is pretended."""
