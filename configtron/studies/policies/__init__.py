# SPDX-License-Identifier: MIT
"""Policies of the papers and of the literature that the product does not serve; same form as `learner/policies/`."""
