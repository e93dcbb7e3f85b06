# SPDX-License-Identifier: MIT
"""Studies of `configtron tune evaluate`: a paper's figures beside those of this bed. One file a study."""
