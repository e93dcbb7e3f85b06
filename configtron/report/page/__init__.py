# SPDX-License-Identifier: MIT
"""A page of HTML that needs nothing beside itself: no script, no network, drawings as SVG within it."""
