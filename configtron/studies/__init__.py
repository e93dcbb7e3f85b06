# SPDX-License-Identifier: MIT
"""The studies of the papers. They may import everything; only `configtron replay` imports them."""
