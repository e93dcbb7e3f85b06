# SPDX-License-Identifier: MIT
"""Made-up tensors and parts for the tests of studies."""
