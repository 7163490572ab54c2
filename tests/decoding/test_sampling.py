"""Logits to distributions: equal to a slow and obvious implementation, down to ties and rounding."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclocal.decoding.sampling import PENALTY_WINDOW, distribution
from speclocal.decoding.types import Distribution, Floats, Logits, SamplingParams
from speclocal.errors import LogitsError, UsageError

pytestmark = pytest.mark.filterwarnings("error")

FILTERS = list(product((0, 1, 2, 40, 5000), (0, 0.3, 0.95, 1), (0, 0.1, 1)))


def reference(logits: Logits, context: Sequence[int], params: SamplingParams) -> Floats:
    """Return the dense distribution by the book: everything is sorted, nothing is skipped. [V] -> [V]"""
    scores = logits.copy()
    for token in set(context[-PENALTY_WINDOW:]):
        if token < scores.size:
            scores[token] *= params.repeat_penalty if scores[token] <= 0 else 1
            scores[token] /= params.repeat_penalty if scores[token] > 0 else 1
    order = np.argsort(-scores, kind="stable")
    probs = np.zeros(scores.size)
    if params.temperature == 0:
        probs[order[0]] = 1
        return probs

    kept = order[: params.top_k or None]
    with np.errstate(over="ignore"):
        weights = np.exp((scores[kept].astype(np.float64) - float(scores[order[0]])) / params.temperature)
    if params.top_p < 1:
        before = np.concatenate([[0.0], weights.cumsum()[:-1]])  # what the better tokens have already
        keep = before < params.top_p * weights.sum()
        keep[0] = True
        kept, weights = kept[keep], weights[keep]
    probs[kept] = np.where(weights >= params.min_p, weights, 0)
    return probs / probs.sum()


def check(logits: Logits, context: Sequence[int], params: SamplingParams) -> None:
    before = logits.copy()
    result = distribution(logits, context, params)
    expected = reference(logits, context, params)
    assert result.ids.tolist() == np.flatnonzero(expected).tolist(), params
    np.testing.assert_allclose(result.probs, expected[result.ids], rtol=1e-9)
    assert result.probs.sum() == pytest.approx(1, abs=1e-12)
    assert result.ids.dtype == np.int64
    np.testing.assert_array_equal(logits, before)


LOGITS = {
    "spread": lambda rng, size: rng.normal(scale=4, size=size),
    "flat": lambda rng, size: rng.normal(scale=1e-3, size=size),
    "ties": lambda rng, size: rng.integers(-3, 3, size=size),
    "equal": lambda rng, size: np.zeros(size),
    "mostly impossible": lambda rng, size: np.where(
        rng.permutation(size) < 1 + size // 9, rng.normal(size=size), -np.inf
    ),
}


@pytest.mark.parametrize("size", [1, 2, 5, 63, 64, 65, 200, 1000, 5000])
@pytest.mark.parametrize("kind", LOGITS)
def test_distribution_is_the_obvious_one(kind: str, size: int) -> None:
    """Every filter, temperature and penalty gives what a full sort gives, for vocabularies of every size."""
    rng = np.random.default_rng(size)
    filters = FILTERS if size <= 200 else FILTERS[size % 3 :: 3]
    for (top_k, top_p, min_p), temperature in zip(
        filters * 2, [0.7, 1e-300, 3, 5e-324, 1.0, 0, 0.01] * 99, strict=False
    ):
        logits = LOGITS[kind](rng, size).astype(np.float32)
        context = rng.integers(size, size=9).tolist()
        check(logits, context, SamplingParams(temperature, top_k, top_p, min_p, (1.0, 1.3)[top_k % 2]))


scores = st.one_of(st.sampled_from([0.0, 1.0, -1.0, -np.inf]), st.floats(-50, 50, width=32))


@given(
    logits=st.lists(scores, min_size=1, max_size=150).filter(lambda logits: max(logits) > -np.inf),
    context=st.lists(st.integers(0, 200), max_size=100),
    temperature=st.sampled_from([0, 5e-324, 1e-3, 0.8, 5, 1e300]),
    top_k=st.integers(0, 160),
    top_p=st.sampled_from([0, 0.1, 0.5, 0.9, 1]),
    min_p=st.sampled_from([0, 0.1, 0.5, 1]),
    penalty=st.sampled_from([0.5, 1, 1.3]),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_odd_logits_are_no_exception(
    logits: list[float],
    context: list[int],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    penalty: float,
) -> None:
    """Impossible tokens, ties, unknown ids in the context and every mix of parameters follow the same book."""
    check(np.array(logits, dtype=np.float32), context, SamplingParams(temperature, top_k, top_p, min_p, penalty))


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        (SamplingParams(), [1]),
        (SamplingParams(temperature=1, top_k=1, top_p=1), [1]),
        (SamplingParams(temperature=1, top_k=2, top_p=1), [1, 2]),
        (SamplingParams(temperature=1, top_k=4, top_p=1), [0, 1, 2, 4]),
        (SamplingParams(temperature=1, top_k=0, top_p=0), [1]),
        (SamplingParams(temperature=1, top_k=0, top_p=0.5), [1, 2]),
        (SamplingParams(temperature=1, top_k=0, top_p=1, min_p=1), [1, 2, 4]),
        (SamplingParams(temperature=1, top_k=0, top_p=1), [0, 1, 2, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("copies", [1, 40])
def test_ties_go_to_the_lower_id(params: SamplingParams, ids: list[int], copies: int) -> None:
    """Of equal logits the lower token id is kept, in a vocabulary of 6 as in one of 240."""
    logits = np.array([1, 2, 2, 0, 2, 1] + [-np.inf] * 6 * (copies - 1), dtype=np.float32)
    assert distribution(logits, [], params).ids.tolist() == ids


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("penalty", [1, 1.3])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 7, 199])
def test_logits_that_are_no_numbers_are_refused(bad: float, place: int, penalty: float, temperature: float) -> None:
    """NaN or +inf anywhere is one clear error that says what to do, also where a filter would drop the token."""
    logits = np.linspace(-5, 5, 200, dtype=np.float32)
    logits[place] = bad
    with pytest.raises(LogitsError, match=f"logit of token {place}") as caught:
        distribution(logits, [0, 7], SamplingParams(temperature, top_k=1, repeat_penalty=penalty))
    assert caught.value.hint


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_impossible_vocabulary_is_refused(temperature: float) -> None:
    """Where every logit is -inf there is nothing to emit."""
    with pytest.raises(LogitsError):
        distribution(np.full(5, -np.inf, dtype=np.float32), [], SamplingParams(temperature))


def test_penalty_looks_at_the_window_only() -> None:
    """A token that left the window is as likely as before; one inside is less likely, whatever its logit's sign."""
    logits = np.array([1.0, 1.0, -1.0, -1.0], dtype=np.float32)
    params = SamplingParams(temperature=1, top_k=0, top_p=1, repeat_penalty=2)
    plain = distribution(logits, [], params)
    gone = distribution(logits, [1, *[0] * PENALTY_WINDOW], params)
    assert gone.prob(1) > plain.prob(1)
    inside = distribution(logits, [1, 2, *[9] * (PENALTY_WINDOW - 2)], params)
    assert np.log(inside.probs[[0, 0, 3]] / inside.probs[[1, 2, 2]]) == pytest.approx([0.5, 3, 1])


@pytest.mark.parametrize("penalty", [1e-30, 1e30, 1e300])
def test_extreme_penalty_is_not_blamed_on_the_model(penalty: float) -> None:
    """A penalty beyond the range of the logits either works or is refused with the other parameters."""
    try:
        params = SamplingParams(repeat_penalty=penalty)
    except UsageError:
        return
    assert distribution(np.array([0, 1, -1], dtype=np.float32), [0, 1, 2], params).ids.size == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": np.inf},
        {"temperature": np.nan},
        {"top_k": -1},
        {"top_p": -0.1},
        {"top_p": 1.1},
        {"min_p": np.nan},
        {"min_p": 2},
        {"repeat_penalty": 0},
        {"repeat_penalty": -1},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """The error names the parameter and its range."""
    with pytest.raises(UsageError, match=next(iter(wrong))) as caught:
        SamplingParams(**wrong)  # type: ignore[arg-type]
    assert caught.value.hint


def test_drawing_cuts_the_unit_interval() -> None:
    """Token i owns the i-th slice; the ends of the interval belong to the first and the last token."""
    p = Distribution(np.array([2, 5, 9]), np.array([0.25, 0.25, 0.5]))
    draws = {u: p.draw(u) for u in (2.0**-54, 0.2499, 0.25, 0.4999, 0.5, 0.75, 1 - 2.0**-53)}
    assert list(draws.values()) == [2, 2, 5, 5, 9, 9, 9]


def test_probability_of_a_token() -> None:
    """A token outside the distribution has probability zero, below, between and above the ids."""
    p = Distribution(np.array([2, 5]), np.array([0.25, 0.75]))
    assert [p.prob(token) for token in (0, 2, 3, 5, 6)] == [0, 0.25, 0, 0.75, 0]
