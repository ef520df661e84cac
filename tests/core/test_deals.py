"""Folds and samples that depend on the rows alone."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

from skribbon import RibbonCV
from skribbon._core.deals import deal, row_keys, some_by_keys
from skribbon._estimators.folds import split_positions

RNG = np.random.default_rng(0)
X, NOISE = RNG.normal(size=(300, 4)), RNG.normal(size=300)
TARGETS = {
    "continuous": NOISE,
    "integers": np.rint(2 * NOISE),
    "heavy tails": np.exp(8 * NOISE),
    "several": np.c_[np.rint(NOISE), X[:, 0] + NOISE],
}


def folds_by_row(y, X):
    """Number of each row's fold."""
    fold = np.full(len(y), -1)
    for k, (train, test) in enumerate(deal(5, row_keys(y, X))):
        assert_array_equal(np.union1d(train, test), np.arange(len(y)))
        fold[test] = k
    return fold


@pytest.mark.parametrize("name", TARGETS)
def test_folds_do_not_depend_on_order_scale_or_shift(name):
    y, order = TARGETS[name], RNG.permutation(300)
    fold = folds_by_row(y, X)
    assert_array_equal(folds_by_row(y[order], X[order]), fold[order])
    assert_array_equal(folds_by_row(1e-3 * y + 7, X * [1.0, 0.1, 1e6, 3.0] - 20), fold)
    assert_array_equal(folds_by_row(y, sparse.csr_matrix(X)), fold)
    assert np.ptp(np.bincount(fold)) <= 2  # rounded values may make single rows equal


@pytest.mark.parametrize("name", TARGETS)
def test_copies_share_a_fold_and_weights_equal_repeats(name):
    y, copies = TARGETS[name], np.repeat(np.arange(300), RNG.integers(1, 4, size=300))
    assert_array_equal(folds_by_row(y[copies], X[copies]), folds_by_row(y, X)[copies])
    chosen = some_by_keys(row_keys(y[copies], X[copies]), 100)
    assert_array_equal(np.unique(copies[chosen]), some_by_keys(row_keys(y, X), 100))


def test_one_row_less_moves_one_row_across_each_cut():
    y = TARGETS["continuous"]
    rest = np.delete(np.arange(300), np.argsort(y)[150])  # neither the smallest nor the largest value
    assert (folds_by_row(y[rest], X[rest]) != folds_by_row(y, X)[rest]).sum() <= 4
    before, after = some_by_keys(row_keys(y, X), 100), rest[some_by_keys(row_keys(y[rest], X[rest]), 100)]
    assert len(np.setdiff1d(before, after)) <= 1


def test_copies_in_tables_of_categories_are_spread_over_folds():
    cell = RNG.integers(0, 6, size=400)
    fold = folds_by_row(cell // 2, cell[:, None] % 2)
    assert all(len(np.unique(fold[cell == c])) == 5 for c in range(6))


def table_of_categories(n=4000, d=5):
    rng = np.random.default_rng(0)
    cells = (rng.random((n, d)) < [0.5, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05, 0.02][:d]).astype(float)
    return cells, (rng.random(n) < 1 / (1 + np.exp(2.2 - cells[:, :3] @ [1, -1, 0.5]))).astype(int)


@pytest.mark.parametrize("d", [5, 8])
def test_folds_of_categories_hold_out_a_share_of_each_cell_with_each_target(d):
    cells, y = table_of_categories(d=d)
    fold = folds_by_row(y, cells)
    _, kind = np.unique(np.c_[cells, y], axis=0, return_inverse=True)
    for k in range(5):
        off = np.bincount(kind[fold == k], minlength=kind.max() + 1) - np.bincount(kind) / 5
        assert np.abs(off).max() <= 8  # random folds are off by 20 in the largest cells


def test_samples_of_categories_have_a_share_of_each_cell():
    cells, y = table_of_categories(n=50_000, d=8)
    some = some_by_keys(row_keys(y, cells), 2000)
    assert len(some) == 2000
    _, kind, count = np.unique(np.c_[cells, y], axis=0, return_inverse=True, return_counts=True)
    assert np.abs(np.bincount(kind[some], minlength=len(count)) - count / 25).max() <= 10  # a random sample: 50


def test_a_few_copies_beside_other_targets_stay_together():
    y, features = np.r_[NOISE, NOISE[:20]], np.r_[X, X[:20]]
    y, features = np.r_[y, 7.0], np.r_[features, X[:1]]  # the first row's features, with another target
    fold = folds_by_row(y, features)
    assert_array_equal(fold[300:320], fold[:20])


def test_groups_stay_together():
    group, order = RNG.integers(0, 30, size=300), RNG.permutation(300)
    keys = row_keys(NOISE, X, group)
    folds = deal(5, keys, together=True)
    assert all(not np.intersect1d(group[train], group[test]).size for train, test in folds)
    assert_array_equal(row_keys(NOISE[order], X[order], group[order]), keys[order])


def test_samples_of_copies_are_bounded():
    some = some_by_keys(np.repeat(np.arange(4, dtype=np.uint64), 1000), 50)
    assert_array_equal(np.bincount(some // 1000), [50] * 4)  # a share of each


def test_integer_cv_is_stratified_and_takes_frames_with_labels():
    frame = pd.DataFrame({"kind": RNG.choice(["a", "b", None], size=300), "size": X[:, 0]})
    labels, order = np.where(NOISE > 1, "rare", "common"), RNG.permutation(300)
    splits = split_positions(5, frame, labels, None, True, {})
    again = split_positions(5, frame.iloc[order], labels[order], None, True, {})
    for (_, test), (_, same) in zip(splits, again, strict=True):
        assert_array_equal(np.sort(order[same]), test)
        assert abs((labels[test] == "rare").sum() - (labels == "rare").sum() / 5) < 1.01
    own = StratifiedKFold(5)
    given = split_positions(own, X, labels, None, True, {})
    assert all((a == b).all() for (_, a), (_, b) in zip(given, own.split(X, labels), strict=True))


def test_ribboncv_does_not_depend_on_the_order_of_the_rows():
    y = np.sort(X[:, 0] + NOISE)  # unshuffled folds would extrapolate
    ordered = X[np.argsort(X[:, 0] + NOISE)]
    order = RNG.permutation(300)
    one, other = RibbonCV().fit(ordered, y), RibbonCV().fit(ordered[order], y[order])
    np.testing.assert_allclose(one.cv_results_["mean_test_nll"], other.cv_results_["mean_test_nll"], rtol=1e-6)
    assert abs(one.cv_results_["mean_test_coverage"][-13] - 0.9) < 0.05


def test_rows_with_missing_values_have_keys_of_their_own():
    X = np.arange(40.0).reshape(20, 2)
    X[::2, 0] = np.nan
    assert len(np.unique(row_keys(np.zeros(20), X))) == 20
