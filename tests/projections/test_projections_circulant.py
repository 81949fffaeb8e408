"""Circulant and alternating circulant projections: their matrices, laws and exact variances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import circulant

from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.maps import FourierMap
from distrf.projections import make_projection
from distrf.projections.circulant import (
    AlternatingCirculantLogPaperProjection,
    AlternatingCirculantLogProjection,
    AlternatingCirculantPaperProjection,
    AlternatingCirculantProjection,
    CirculantPaperProjection,
    CirculantProjection,
    fast_order,
)

ALL = [
    CirculantProjection,
    CirculantPaperProjection,
    AlternatingCirculantProjection,
    AlternatingCirculantPaperProjection,
    AlternatingCirculantLogProjection,
    AlternatingCirculantLogPaperProjection,
]
every = pytest.mark.parametrize("Make", ALL, ids=lambda p: p.name)


class TestMatrix:
    def test_fast_order(self):
        smooth = {16 * 2**a * 3**b * 5**c for a in range(12) for b in range(10) for c in range(7)}
        for d in [*range(1, 1100), 3087, 4095, 4096, 4097, 9999]:
            assert fast_order(d) == min(s for s in smooth if s >= d)

    @every
    @pytest.mark.parametrize("d", [1, 2, 16, 30, 31, 49])
    def test_block_is_circulant_matrices_times_diagonals(self, Make, d):
        """Feng et al. 2015, Definition 2; Mukuta et al. 2018, Eq. 7."""
        projection = Make(Matern(1.5), d, 3 * fast_order(d) - 1, 7)
        L, columns = projection.order, projection.column_factors()
        W = projection.weights()
        for block in range(2):
            made = sum(
                circulant(c)[:, :d] @ np.diag(s)
                for c, s in zip(projection.vectors(block), columns, strict=True)
            )
            made = np.diag(projection.row_factors(block)) @ made
            np.testing.assert_allclose(W[block * L : (block + 1) * L], made, rtol=1e-12)

    @every
    def test_factors(self, Make):
        projection = Make(Gaussian(), 512, 1024, 3)
        columns, rows = projection.column_factors(), projection.row_factors(1)
        mixed = 1 if Make in ALL[:2] else 9 if "log2" in Make.name else 2
        assert columns.shape == (mixed, 512)
        # Every column is drawn from exactly one matrix, each matrix about as often.
        np.testing.assert_array_equal((columns != 0).sum(axis=0), 1)
        drawn = (columns != 0).sum(axis=1)
        assert stats.chisquare(drawn).pvalue > 1e-3 if mixed > 1 else drawn == 512
        np.testing.assert_array_equal(abs(columns.sum(axis=0)), 1)
        np.testing.assert_array_equal(abs(rows), 1)
        paper = "paper" in Make.name
        assert abs(columns.sum()) == 512 if paper else abs(columns.sum()) < 4.5 * np.sqrt(512)
        assert rows.sum() == 512 if Make is not CirculantPaperProjection else abs(rows.sum()) < 102

    @every
    def test_nonnegative_laws_keep_their_sign(self, Make, monkeypatch):
        """The seam for Laplace features: no signs where the law is not symmetric."""
        monkeypatch.setattr(Gaussian, "law", "levy")
        monkeypatch.setattr(Gaussian, "symmetric", False)
        projection = Make(Gaussian(), 64, 128, 3)
        assert (projection.column_factors() >= 0).all()
        np.testing.assert_array_equal(projection.row_factors(0), 1)

    def test_log2_of_the_features(self):
        for d, mixed in [(1, 2), (2, 2), (4, 2), (16, 4), (100, 7), (4096, 12)]:
            assert AlternatingCirculantLogProjection(Gaussian(), d, 8, 0).n_mixed == mixed

    @pytest.mark.parametrize(
        ("name", "pinned"),
        [
            ("circulant", [-2.1010790377118753, -1.1419381556209924, 0.8452565725221566]),
            ("circulant-paper", [-2.1010790377118753, -1.1419381556209924, -0.8452565725221566]),
            ("alternating_circulant", [-0.9376606835151496, 0.6328217084831179, 0.1006633262004374]),
            ("alternating_circulant-log2", [-0.4636934887563311, 0.6328217084831179, -1.0487747453149918]),
        ],
    )
    def test_weights_are_pinned(self, name, pinned):
        """Golden values of this definition of the map: a change here breaks stored specs."""
        W = make_projection(name, Matern(2.5), 32, 40, 2024).weights(33, 34)
        np.testing.assert_allclose(W[0, :3], pinned, rtol=1e-13)

    @every
    def test_parameters_grow_with_D_alone(self, Make):
        mixed = Make(Gaussian(), 4096, 8192, 0).n_mixed
        for d in (125, 512, 4096):
            assert Make(Gaussian(), d, 8192, 0).work()[1] <= 1.1 * 4 * mixed * (8192 + d)

    def test_makes_only_the_blocks_it_needs(self, monkeypatch):
        made = set()
        original = CirculantProjection.vectors
        monkeypatch.setattr(
            CirculantProjection, "vectors", lambda self, block: made.add(block) or original(self, block)
        )
        projection = CirculantProjection(Gaussian(), 4096, 4096 * 20, 2)
        X = np.ones((1, 4096))
        for _ in projection.phases(X, 4096 * 3 + 5, 4096 * 3 + 9, 1.0, np.dtype(float)):
            pass
        assert made <= {2, 3}  # weight blocks of two circulant ones
        made.clear()
        projection.weights(4096 * 7, 4096 * 7 + 1)
        assert made == {7}


class TestLaw:
    @every
    @pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Cauchy()], ids=lambda k: k.name)
    def test_each_row_has_the_kernels_law(self, Make, kernel):
        """Coordinates of one row, over seeds: the law each, and no correlation between signs of them."""
        rows = np.array([Make(kernel, 9, 18, seed).weights(13, 14)[0] for seed in range(600)])
        law = {"normal": stats.norm, "cauchy": stats.cauchy, "laplace": stats.laplace}[kernel.law]
        for j in (0, 4, 8):
            assert stats.kstest(rows[:, j], law.cdf).pvalue > 1e-4
        agreement = np.sign(rows).T @ np.sign(rows) / len(rows) - np.eye(9)
        assert abs(agreement).max() < 4.5 / np.sqrt(len(rows))

    @pytest.mark.parametrize(
        "Make", [CirculantProjection, AlternatingCirculantProjection], ids=lambda p: p.name
    )
    def test_unbiased_given_signs_and_masks(self, Make, monkeypatch):
        fixed = Make(Gaussian(), 16, 32, 0).column_factors()
        monkeypatch.setattr(Make, "column_factors", lambda self: fixed)
        V = 0.3 * np.vstack([np.ones(16), np.sin(np.arange(16))])
        made = np.array([np.cos(Make(Gaussian(), 16, 32, s).weights() @ V.T).mean(axis=0) for s in range(600)])
        k = np.exp(-0.5 * (V**2).sum(axis=1))
        assert (abs(made.mean(axis=0) - k) <= 4.5 * made.std(axis=0) / np.sqrt(len(made))).all()


def differences(d, s):
    """A constant, a smooth and a random vector of squared norm s."""
    V = np.vstack([np.ones(d), np.sin(np.linspace(0.1, 3.0, d)), np.random.default_rng(d).normal(size=d)])
    return V * np.sqrt(s) / np.linalg.norm(V, axis=1, keepdims=True)


def block_variance(V, L, columns):
    """(e^-s / L) sum_k (cosh r_k - 1): one block, paired features, given the factors of the columns.

    r is the circular autocorrelation of the factored difference, padded with zeros to L, summed over the
    mixed matrices. columns : shape (samples, n_mixed, d). Returns shape (samples, len(V)).
    """
    power = abs(np.fft.rfft(columns[:, None] * V[:, None], L, axis=-1)) ** 2
    r = np.fft.irfft(power.sum(axis=2), L, axis=-1)
    s = (V**2).sum(axis=1)
    return np.exp(-s) * (np.cosh(r) - 1).mean(axis=-1)


def sample_columns(rng, samples, mixed, d, signed):
    chosen = rng.integers(mixed, size=(samples, 1, d)) == np.arange(mixed)[:, None]
    return chosen * (rng.choice([-1.0, 1.0], (samples, 1, d)) if signed else 1.0)


class TestVariance:
    SEEDS = 1500

    def estimates(self, Make, V, m):
        d = V.shape[1]
        return np.array(
            [np.cos(Make(Gaussian(), d, m, seed).weights() @ V.T).mean(axis=0) for seed in range(self.SEEDS)]
        )

    @staticmethod
    def check(made, expected):
        """Variance over seeds within 4.5 standard errors, these from the fourth moment."""
        centred = made - made.mean(axis=0)
        variance = (centred**2).mean(axis=0)
        error = np.sqrt(((centred**4).mean(axis=0) - variance**2) / len(made))
        assert (abs(variance - expected) <= 4.5 * error).all(), variance / expected
        assert (4.5 * error < 0.6 * expected).all()

    @pytest.mark.parametrize("d", [32, 29])
    def test_paper_signs_exactly(self, d):
        """With v itself: row signs change nothing, so there is nothing to average over."""
        V, L = differences(d, 1.0), fast_order(d)
        expected = block_variance(V, L, np.ones((1, 1, d)))[0]
        self.check(self.estimates(CirculantPaperProjection, V, L), expected)
        independent = (1 - np.exp(-1.0)) ** 2 / 2 / L
        if d == L:
            np.testing.assert_allclose(expected[0], d * independent, rtol=1e-12)  # constant v: d times
        assert expected[1] > 5 * independent  # smooth v
        assert expected[2] < 2 * independent

    @pytest.mark.parametrize("blocks", [1, 3])
    @pytest.mark.parametrize("d", [32, 29])
    def test_input_signs(self, d, blocks, rng):
        """Averaged over signs; sharing them between blocks costs nothing."""
        V, L = differences(d, 1.0), fast_order(d)
        expected = block_variance(V, L, sample_columns(rng, 20_000, 1, d, True)).mean(axis=0) / blocks
        self.check(self.estimates(CirculantProjection, V, blocks * L), expected)
        independent = (1 - np.exp(-1.0)) ** 2 / 2 / (blocks * L)
        assert (expected < 2.2 * independent).all()

    @pytest.mark.parametrize(
        ("Make", "mixed", "signed"),
        [
            (AlternatingCirculantProjection, 2, True),
            (AlternatingCirculantPaperProjection, 2, False),
            (AlternatingCirculantLogProjection, 5, True),
        ],
        ids=lambda v: getattr(v, "name", None),
    )
    def test_alternating(self, Make, mixed, signed, rng):
        V = differences(32, 1.0)
        expected = block_variance(V, 32, sample_columns(rng, 20_000, mixed, 32, signed)).mean(axis=0) / 2
        self.check(self.estimates(Make, V, 64), expected)

    def test_ratios_of_the_design(self, rng):
        """At d = 256 over independent rows (the paper's Eq. 12), for a constant, a smooth and a random v."""
        d, s = 256, 0.2
        V = differences(d, s)
        independent = (1 - np.exp(-s)) ** 2 / 2 / d
        paper, signed, mixed, both = (
            block_variance(V, d, columns).mean(axis=0) / independent
            for columns in (
                np.ones((1, 1, d)),
                sample_columns(rng, 2000, 1, d, True),
                sample_columns(rng, 2000, 2, d, False),
                sample_columns(rng, 2000, 2, d, True),
            )
        )
        np.testing.assert_allclose(paper[0], 256, rtol=1e-9)
        assert 150 < paper[1] < 256
        assert (abs(signed - 2.0) < 0.1).all()
        assert 50 < mixed[0] < 70
        assert (abs(both - 1.5) < 0.1).all()

    def test_row_signs_cancel(self):
        """Scrambled signs or none: the same paired estimate to the last bit but rounding."""
        projection = CirculantPaperProjection(Gaussian(), 32, 32, 4)
        v = differences(32, 1.0)[1]
        unsigned = circulant(projection.vectors(0)[0])
        np.testing.assert_allclose(np.cos(projection.weights() @ v), np.cos(unsigned @ v), atol=1e-14)

    def test_offset_phase_adds_its_own_variance(self):
        """z(x) . z(y) with offsets: Eq. 13 plus the 1 / 2D that it omits."""
        d, D = 32, 32
        v = differences(d, 1.0)[0]
        rows = np.vstack([np.zeros(d), v]) + 0.7
        made = []
        for seed in range(self.SEEDS):
            Z = FourierMap(d, D, Gaussian(), 1.0, "circulant-paper", "offset", seed)(rows)
            made.append(Z[0] @ Z[1])
        expected = block_variance(v[None], d, np.ones((1, 1, d)))[0] + 1 / (2 * D)
        self.check(np.array(made)[:, None], expected)
