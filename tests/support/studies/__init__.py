# SPDX-License-Identifier: MIT
"""Parts for the tests of studies."""
