# SPDX-License-Identifier: MIT
"""Runs of a study of flows as folders with manifests, and the static site that shows them."""
