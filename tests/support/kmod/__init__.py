# SPDX-License-Identifier: MIT
"""The kernel module under debug kernels: networks, planted mistakes, stress."""
