# SPDX-License-Identifier: MIT
"""The closed loop on kernels that draw: web servers, emulated continents, real page loads, a manager that learns."""
