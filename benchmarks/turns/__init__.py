# SPDX-License-Identifier: MIT
"""Parts of `benchmarks.turn_taking`: the programs that talk, and the captures of what they sent."""
