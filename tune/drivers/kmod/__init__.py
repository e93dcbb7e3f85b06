# SPDX-License-Identifier: MIT
"""The driver `kmod`: profiles by the kernel module."""
