"""What a draft is worth, by numbers worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from speclocal.decoding.pricing import Option, best_option


def test_best_option_by_hand() -> None:
    """Two tokens of acceptance 0.5 gain 0.5 + 0.25; at 0.2 tokens of price each, one is worth 0.3 and both 0.35."""
    best = best_option([0.5, 0.5], lambda size: 0.2 * size, 1.0, [1, 2])
    assert (best.size, best.worth) == (2, pytest.approx(0.35))
    assert best_option([0.5, 0.5], lambda size: 0.3 * size, 1.0, [1, 2]).size == 1
    assert best_option([0.5, 0.5], lambda size: 0.6 * size, 1.0, [1, 2]) == Option()
    assert best_option([0.9] * 9, lambda size: 0.1, 1.0, [2, 5]).size == 5
    assert best_option([], lambda size: 0.0, 1.0, [1]) == Option()
    assert best_option([1.0], lambda size: 0.0, 1.0, []) == Option()


def test_rejections_are_paid_for_by_hand() -> None:
    """Two tokens of acceptance 0.5 gain 0.75; rejected after none or one, 0.5 * 0.2 + 0.25 * 0.4 seconds are lost."""

    def worth(size: int, **kwargs: Any) -> float:
        return best_option([0.5, 0.5], lambda size: 0.0, 1.0, [size], **kwargs).worth

    costly = {"reread": lambda num_accepted: 0.2 * (num_accepted + 1)}
    assert (worth(1), worth(2)) == pytest.approx((0.5, 0.75))
    assert (worth(1, **costly), worth(2, **costly)) == pytest.approx((0.4, 0.55))
    assert (worth(1, num_droppable=1, **costly), worth(2, num_droppable=1, **costly)) == pytest.approx((0.5, 0.65))
    assert worth(2, num_droppable=2, **costly) == pytest.approx(0.75)
