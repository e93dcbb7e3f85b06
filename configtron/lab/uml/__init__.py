# SPDX-License-Identifier: MIT
"""Virtual hosts: guest kernels, built here and booted in virtual or real time (User-Mode Linux, QEMU, namespaces)."""
