"""How the error of a Newton step falls with the number of rows."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from skribbon import RibbonClassifier


def median_errors(n):
    """Median distances of the linear and of the Newton step from refits, over 20 tables and 10 draws of each."""
    errors = []
    for seed in range(20):
        rows = np.random.default_rng([seed, n])
        X = rows.normal(size=(n, 2))
        y = (X @ [1.0, -0.5] + 0.3 + rows.logistic(size=n) > 0).astype(int)
        ribbon = RibbonClassifier(LogisticRegression(C=1e3, solver="newton-cholesky", tol=1e-12)).fit(X, y)
        report = ribbon.check_linearization(X, y, n_refits=10, random_state=seed)
        steps = report.shifts, report.newton_shifts
        errors.append([np.linalg.norm(step - report.refitted_shifts, axis=0) for step in steps])
    return np.median(np.concatenate(errors, axis=1), axis=1)


def test_newton_step_error_is_second_order():
    sizes = np.array([100, 200, 400, 800, 1600, 3200])
    linear, second = np.polyfit(np.log(sizes), np.log([median_errors(n) for n in sizes]), 1)[0]
    print(f"linear {linear:.2f}, Newton {second:.2f}")
    assert -1.2 < linear < -0.8
    assert -1.7 < second < -1.3
