# SPDX-License-Identifier: MIT
"""Other people's programs of the schemes in configtron/schemes, fetched and built when asked, beside ours."""
