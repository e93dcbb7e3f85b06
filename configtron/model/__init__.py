# SPDX-License-Identifier: MIT
"""The model: nouns, knobs, protocols, errors and file formats that every other package shares.

Layer 0. Standard library and numpy only; it imports nothing of configtron but itself.
"""
