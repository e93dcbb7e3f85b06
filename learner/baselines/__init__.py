# SPDX-License-Identifier: MIT
"""The policies a learner is held against, as policies like any other."""
