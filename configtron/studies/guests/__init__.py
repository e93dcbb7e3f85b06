# SPDX-License-Identifier: MIT
"""Parts of a study that run in lab hosts, each a boot."""
