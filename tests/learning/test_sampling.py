"""The exact samplers: reference words, words at the boundaries of decisions, and the laws."""

import multiprocessing
import pickle
from copy import deepcopy
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, clone

from explorer.learning.sampling.bits import FreshStreams, SeededBits, SystemBits, bits_of
from explorer.learning.sampling.coins import Binomial, below, poisson_samples
from explorer.learning.sampling.gamma_norm import rounded_gamma_norm
from explorer.learning.sampling.lazy import EXPONENTIAL, HALF_NORMAL, exp_minus
from explorer.learning.sampling.rounded_normal import rounded, rounded_normal

ONE = 2**64
LAWS = {"half_normal": HALF_NORMAL, "exponential": EXPONENTIAL}


class NoMoreBits:
    """A source that must not be needed."""

    def words(self, count):
        raise AssertionError("digits beyond the first 64 were drawn")


class Scripted:
    """A source of given words."""

    def __init__(self, *words):
        self._words = list(words)

    def words(self, count):
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return np.array(taken, np.uint64)


def outcome(U, X, V, sign, scale, bits=None):
    """The rounded normal that these words give, None if they are rejected, and k."""
    bits = bits or NoMoreBits()
    reals = HALF_NORMAL.decided(*(np.array([word], np.uint64) for word in (U, X, V)), bits)
    if not len(reals.k):
        return None
    return rounded(reals, np.array([sign]), Fraction(scale), bits).item(), reals.k.item()


# Words whose outcomes were computed by hand and with 60 digits.


@pytest.mark.parametrize(
    ("words", "scale", "expected"),
    [
        ((2**63, 2**62, 0, 1), 2**20, (262144, 0)),
        ((2**63, 2**62, 0, -1), 2**20, (-262144, 0)),
        ((10521071843634112291, 2**63, 2**63, 1), 2**20, (524288, 0)),
        ((10521071843634112307, 2**63, 2**63, 1), 2**20, (1572864, 1)),
        ((2**63, 2**63, 16279194507819420700, 1), 2**20, (524288, 0)),
        ((2**63, 2**63, 16279194507819420764, 1), 2**20, None),
        ((0, ONE - 1, 0, 1), 10, (10, 0)),
        ((ONE - 2**50, 2**63, 2**60, 1), 2**20, (4718592, 4)),
    ],
)
def test_reference_words(words, scale, expected):
    assert outcome(*words, scale) == expected


@pytest.mark.parametrize(
    ("j", "value"),
    [
        (0, "10521071843634112299.828159"),
        (1, "16902424489837522835.833455"),
        (2, "18326296727748496302.916911"),
        (3, "18443175278438026257.848507"),
    ],
)
def test_thresholds_of_the_half_normal(j, value):
    low, high = HALF_NORMAL.threshold(j, 84)
    assert low <= Fraction(value) * 2**20 + 1 and high >= Fraction(value) * 2**20 - 1
    assert high - low <= 2


def test_digits_are_drawn_where_the_first_words_do_not_decide():
    """At the word that contains C_0, the next one decides; at a half, the next digits of X do."""
    C0 = 10521071843634112299  # 2^64 C_0 = C0 + 0.828159...
    low, high = (int(share * ONE) for share in (0.8281, 0.8282))
    assert outcome(C0, 2**63, 2**63, 1, 2**20, Scripted(low)) == (524288, 0)
    assert outcome(C0, 2**63, 2**63, 1, 2**20, Scripted(high)) == (1572864, 1)
    third = ONE // 3  # 3 x / 2 is at 1/2: rounded to 0 or to 1
    assert outcome(2**62, third, 0, 1, Fraction(3, 2), Scripted(ONE // 3 - 1)) == (0, 0)
    assert outcome(2**62, third, 0, 1, Fraction(3, 2), Scripted(ONE // 3 + 1)) == (1, 0)


@given(x=st.fractions(0, 60), precision=st.integers(1, 500))
def test_bounds_of_the_exponential(x, precision):
    low, high = exp_minus(x, precision)
    with mpmath.workprec(precision + 100):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** precision
        assert low <= exact <= high
    assert high - low <= 2


def reference(law, U, X, V):
    """k and acceptance with all digits after the first 64 equal to 0, by mpmath."""
    with mpmath.workprec(300):
        u, x, v = (mpmath.mpf(int(word)) / ONE for word in (U, X, V))
        if law is HALF_NORMAL:
            weights = [mpmath.exp(-mpmath.mpf(i * i) / 2) for i in range(25)]
            thresholds = [mpmath.fsum(weights[: j + 1]) / mpmath.fsum(weights) for j in range(20)]
            k = sum(u >= threshold for threshold in thresholds)
            return k, bool(v < mpmath.exp(-x * (2 * k + x) / 2))
        k = sum(u >= 1 - mpmath.exp(-j) for j in range(1, 40))
        return k, bool(v < mpmath.exp(-x))


def words_at_boundaries(law, count, rng):
    """Words 2^-62 to 2^-20 from a boundary of k or of the acceptance, on both sides."""
    for _ in range(count):
        distance = int(2.0 ** rng.uniform(2, 44)) * int(rng.choice([-1, 1]))
        X = int(rng.integers(2**64, dtype=np.uint64))
        if rng.random() < 0.5:
            U = (law.threshold(int(rng.integers(7)), 64)[0] + distance) % ONE
            yield U, X, int(rng.integers(2**64, dtype=np.uint64))
        else:
            U = int(rng.integers(2**64, dtype=np.uint64))
            k = reference(law, U, 0, 0)[0]
            V = exp_minus(Fraction(law.exponent(k, Fraction(X, ONE))), 64)[0] + distance
            yield U, X, min(max(V, 0), ONE - 1)


@pytest.mark.parametrize("name", LAWS)
def test_every_decision_near_a_boundary_is_the_exact_one(name):
    law = LAWS[name]
    words = np.array(list(words_at_boundaries(law, 1500, np.random.default_rng(0))), np.uint64)
    expected = [reference(law, *row) for row in words]
    found = law.decided(*words.T, Zeros())
    accepted = [row for row in expected if row[1]]
    assert 300 < len(accepted) < 1300
    np.testing.assert_array_equal(found.k, [k for k, _ in accepted])
    np.testing.assert_array_equal(found.x, words[[row[1] for row in expected], 1])
    assert len(found.longer) > 50  # integers decided some of them


class Zeros:
    """Digits 0, as `reference` has them."""

    def words(self, count):
        return np.zeros(count, np.uint64)


@settings(max_examples=200)
@given(
    k=st.integers(0, 7),
    whole=st.integers(0, 2**45),
    offset=st.integers(-3, 3),
    scale=st.fractions(Fraction(1, 9), 2**42),
)
def test_rounding_at_halves(k, whole, offset, scale):
    """x within three units of a half: rounded as the exact number is."""
    x = (Fraction(2 * whole + 1, 2) / scale - k) * ONE
    X = int(x) + offset
    if not 0 <= X < ONE:
        X %= ONE
    reals = HALF_NORMAL.decided(*(np.array([word], np.uint64) for word in (0, X, 0)), Zeros())
    reals.k[0] = k
    exact = scale * (k + Fraction(X, ONE)) + Fraction(1, 2)
    assert rounded(reals, np.array([-1]), scale, Ones()).item() in (-int(exact), -int(exact + scale / ONE))
    assert rounded(reals, np.array([1]), scale, Zeros()).item() in (int(exact), int(exact + scale / ONE))


class Ones:
    """Digits 1."""

    def words(self, count):
        return np.full(count, ONE - 1, np.uint64)


# The laws. Statistical tests see errors of a per cent; those above see one of 2^-62.


@pytest.mark.parametrize(
    ("scale", "probabilities"),
    [
        (Fraction(1), (0.382924922548026, 0.241730337457129, 0.0605975359430819, 0.00597703624674061)),
        (
            Fraction(5, 2),
            (0.158519418878206, 0.146487172810823, 0.115597863818617, 0.0778985946976860, 0.0448263401208452),
        ),
    ],
)
@pytest.mark.parametrize("bits", [bits_of(0), SystemBits()], ids=["seeded", "system"])
def test_law_of_the_rounded_normal(scale, probabilities, bits):
    drawn = rounded_normal(scale, 200_000, bits)
    values = range(1 - len(probabilities), len(probabilities))
    expected = [probabilities[abs(k)] for k in values]
    observed = [np.count_nonzero(drawn == k) for k in values]
    rest = len(drawn) - sum(observed)
    together = np.append(expected, 1 - sum(expected)) * len(drawn)
    assert stats.chisquare([*observed, rest], together).pvalue > 1e-6


def test_fine_grids_and_large_numbers():
    fine = rounded_normal(Fraction(3 * 2**40), 100_000, bits_of(1))
    assert stats.kstest(fine / (3 * 2**40), "norm").pvalue > 1e-4
    assert stats.chisquare(np.bincount(fine & 15, minlength=16)).pvalue > 1e-4  # the low bits are uniform
    huge = rounded_normal(Fraction(3 * 2**100), 2000, bits_of(1))
    assert stats.kstest([float(Fraction(k, 3 * 2**100)) for k in huge], "norm").pvalue > 1e-4
    assert len({k & (2**40 - 1) for k in huge.tolist()}) == 2000
    assert not rounded_normal(Fraction(1, 10**9), 100, bits_of(1)).any()
    assert rounded_normal(Fraction(1), 0, NoMoreBits()).shape == (0,)


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_gamma_norm_noise_has_a_gamma_norm_and_a_uniform_direction(dimension):
    bits, unit = bits_of(1), 2.0**40
    noise = np.array([rounded_gamma_norm(Fraction(2**40), dimension, bits) for _ in range(3000)]) / unit
    norm = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norm, stats.gamma(dimension).cdf).pvalue > 1e-3
    direction = noise / norm[:, None]
    if dimension == 1:
        assert stats.kstest(noise[:, 0], stats.laplace().cdf).pvalue > 1e-3
    else:  # of a uniform direction every coordinate's square is Beta, along any axis
        axes = np.linalg.qr(np.random.default_rng(2).normal(size=(dimension, dimension)))[0]
        for square in ((direction @ axes) ** 2).T:
            assert stats.kstest(square, stats.beta(0.5, (dimension - 1) / 2).cdf).pvalue > 1e-3
    assert abs(stats.pearsonr(norm, direction[:, 0]).statistic) < 0.06


def test_coarse_gamma_norm_noise_is_rounded_laplace_noise():
    """P(0) = 1 - e^(-1/(2 r)), P(k) = e^(-|k|/r) sinh(1/(2 r)) for the scale r."""
    bits, r = bits_of(3), 1.5
    drawn = np.array([rounded_gamma_norm(Fraction(3, 2), 1, bits).item() for _ in range(20_000)])
    k = np.arange(-5, 6)
    expected = np.where(k == 0, 1 - np.exp(-0.5 / r), np.exp(-np.abs(k) / r) * np.sinh(0.5 / r))
    observed = [np.count_nonzero(drawn == value) for value in k]
    together = np.append(expected, 1 - expected.sum()) * len(drawn)
    assert stats.chisquare([*observed, len(drawn) - sum(observed)], together).pvalue > 1e-4


def test_gamma_norm_noise_of_a_thousand_coordinates():
    noise = rounded_gamma_norm(Fraction(2**41), 1000, bits_of(0)) / 2.0**41
    assert np.linalg.norm(noise) == pytest.approx(1000, abs=150)


# Coins.


@pytest.mark.parametrize(("n", "q"), [(40, 0.004), (40, 0.45), (7, 0.9), (2000, 0.1)])
def test_law_of_the_binomial(n, q):
    drawn = Binomial(n, Fraction(q)).sample(50_000, bits_of(0))
    expected = len(drawn) * stats.binom.pmf(np.arange(n + 1), n, q)
    often = expected > 10
    observed = np.bincount(drawn, minlength=n + 1)
    together = np.append(expected[often], expected[~often].sum() + 1e-9)
    assert stats.chisquare(np.append(observed[often], observed[~often].sum() + 1e-9), together).pvalue > 1e-4


@pytest.mark.parametrize(("n", "q"), [(5, Fraction(1, 3)), (300, Fraction(0.01)), (50, Fraction(0.9))])
def test_the_distribution_function_at_its_boundaries(n, q):
    """The words below, at and above 2^64 F(j), with later digits 0 and 1, by exact rationals."""
    binomial, total, weight = Binomial(n, q), Fraction(0), (1 - q) ** n
    distribution = []
    for j in range(n + 1):
        total += weight
        distribution.append(total)
        weight *= Fraction(n - j, j + 1) * q / (1 - q)
    assert total == 1
    for F in distribution[:-1]:
        word = int(F * ONE)
        for near in range(max(word - 2, 1), min(word + 3, ONE - 1)):
            found = binomial.decided(np.array([near], np.uint64), Zeros()).item()
            assert found == sum(Fraction(near, ONE) >= other for other in distribution)
            found = binomial.decided(np.array([near], np.uint64), Ones()).item()
            assert found == sum(Fraction(near + 1, ONE) > other for other in distribution)


def test_certain_coins_and_numbers_below_a_limit():
    assert [sample.tolist() for sample in poisson_samples(bits_of(0), n_records=3, sampling_rate=1.0, steps=2)] == [
        [0, 1, 2],
        [0, 1, 2],
    ]
    drawn = below(12, 60_000, bits_of(0))
    assert stats.chisquare(np.bincount(drawn, minlength=12)).pvalue > 1e-4
    np.testing.assert_array_equal(drawn[:777], below(12, 777, bits_of(0)))
    np.testing.assert_array_equal(below(1, 5, bits_of(0)), np.zeros(5))


# Sources of bits.


def test_sources_of_bits():
    assert isinstance(bits_of(None), SystemBits)
    np.testing.assert_array_equal(bits_of(5).words(4), bits_of(5).words(4))
    rng = np.random.default_rng(5)
    first, second = bits_of(rng).words(4), bits_of(rng).words(4)
    assert not set(first.tolist()) & set(second.tolist())  # a generator is consumed
    np.testing.assert_array_equal(first, bits_of(5).words(4))
    legacy = np.random.RandomState(5)
    assert not np.array_equal(bits_of(legacy).words(4), bits_of(legacy).words(4))
    assert len(set(bits_of(None).words(1000).tolist())) == 1000
    for generator in (np.random.MT19937(0), np.random.Philox(0)):  # also where a raw output has 32 bits
        words = SeededBits(np.random.Generator(generator)).words(4000)
        assert stats.binomtest(int(np.bitwise_count(words).sum()), 4000 * 64).pvalue > 1e-4


def _drawn(queue):
    queue.put(SHARED.words(4).tolist())


SHARED = SystemBits()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking beside threads
def test_forked_processes_draw_different_bits():
    SHARED.words(3)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_drawn, args=(queue,)) for _ in range(3)]
    for child in children:
        child.start()
    drawn = [tuple(queue.get(timeout=60)) for _ in children] + [tuple(SHARED.words(4).tolist())]
    for child in children:
        child.join()
    assert len(set(drawn)) == 4


class Estimator(FreshStreams, BaseEstimator):
    def __init__(self, random_state=None):
        self.random_state = random_state

    def first(self):
        return tuple(bits_of(self.random_state).words(4).tolist())


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_clones_copies_and_pickles_have_streams_of_their_own(make):
    estimator = Estimator(make(0))
    others = [clone(estimator), clone(estimator), deepcopy(estimator)]
    others += [pickle.loads(pickle.dumps(estimator)) for _ in range(2)] + [clone(others[0])]
    assert len({other.first() for other in [estimator, *others]}) == 7
    assert clone(Estimator(make(0))).first() == clone(Estimator(make(0))).first()  # reproducible
    for kept in (None, 7):
        assert clone(Estimator(kept)).random_state == pickle.loads(pickle.dumps(Estimator(kept))).random_state == kept


def test_a_pickle_does_not_hold_the_generator_that_drew():
    rng = np.random.default_rng(0)
    estimator = Estimator(rng)
    estimator.first()
    stored = pickle.loads(pickle.dumps(estimator)).random_state
    state = rng.bit_generator.state["state"]
    assert stored.bit_generator.state["state"]["inc"] != state["inc"]  # of another stream: no rewinding leads to `rng`
    assert stored.bit_generator.seed_seq.entropy != rng.bit_generator.seed_seq.entropy
