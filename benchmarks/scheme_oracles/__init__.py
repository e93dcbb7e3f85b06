# SPDX-License-Identifier: MIT
"""Other people's programs of the schemes in configtron/lab/schemes, fetched and built when asked, beside ours."""
