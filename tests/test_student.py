# SPDX-License-Identifier: MIT
"""Student's t against printed tables and scipy's."""

from __future__ import annotations

import pytest

from configtron.model.student import student, student_quantile

TABLE = [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (29, 2.045), (120, 1.980)]


@pytest.mark.parametrize(("degrees", "table"), TABLE)
def test_as_tables_have_it(degrees: int, table: float) -> None:
    assert student(degrees) == pytest.approx(table, abs=5e-4)


def test_as_scipy_has_it() -> None:
    special = pytest.importorskip("scipy.special")
    for degrees in (*range(1, 40), 99, 1199, 5000):
        assert student(degrees) == pytest.approx(float(special.stdtrit(degrees, 0.975)), rel=1e-11)


def test_one_quantile_for_whole_degrees_and_for_any() -> None:
    pytest.importorskip("scipy.special")
    for degrees in (1, 4, 29, 500):
        assert float(student_quantile(float(degrees), 0.975)) == pytest.approx(student(degrees), rel=1e-11)
    below, above = student_quantile(3.0, 0.975), student_quantile(4.0, 0.975)
    assert above < student_quantile(3.5, 0.975) < below
