# SPDX-License-Identifier: MIT
"""What a measured tensor shows: improvement over the default, comparison of configurations, claims of papers."""
