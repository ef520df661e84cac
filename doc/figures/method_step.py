"""Shifts of a prediction under random weights: by exact refits, and by one linear step each."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

N_ROWS, N_DRAWS = 400, 150


def draw():
    """Scatter of linear steps against refits, with the diagonal."""
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.normal(size=(N_ROWS, 2)), np.ones(N_ROWS)])
    y = Z[:, 0] + rng.logistic(size=N_ROWS) > 0
    base = LogisticRegression(fit_intercept=False, solver="newton-cholesky")
    theta = base.fit(Z, y).coef_[0]
    p, x = base.predict_proba(Z)[:, 1], np.array([1.5, -0.5, 1.0])
    G, H_r = (p - y)[:, None] * Z, (Z.T * (p * (1 - p)) @ Z + np.eye(3)) / N_ROWS
    weights = rng.dirichlet(np.ones(N_ROWS), N_DRAWS)
    linear = -(weights - 1 / N_ROWS) @ G @ np.linalg.solve(H_r, x)
    refits = np.array([(base.fit(Z, y, sample_weight=N_ROWS * w).coef_[0] - theta) @ x for w in weights])
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, ax = plt.subplots(figsize=(5, 3.6))
        ax.axline((0, 0), slope=1, color="0.6", lw=1)
        ax.plot(refits, linear, "o", color="#0072B2", ms=4, alpha=0.6, mew=0)
        ax.set(xlabel="shift of a logit by an exact refit", ylabel="by one linear step")
        ax.set_title("One linear step is close to a refit")
    return figure
