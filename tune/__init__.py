# SPDX-License-Identifier: MIT
"""Set the local stack: a profile for each client prefix, by the kernel module, eBPF, routes or sysctls."""
