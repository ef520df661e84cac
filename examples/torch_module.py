"""
A torch module of your own, beside laplace-torch
================================================

How do you get intervals for a network in PyTorch? Put the module into
:class:`~skribbon.models.torch.TorchRegressor`, which trains it, and put the result into
a Ribbon. laplace-torch gets the same trained module. ``make torch`` runs this script.
It needs ``pip install 'skribbon[torch]' laplace-torch``.
"""

# %%
# The module is an ordinary torch module. It maps rows (n, d) to (n, 1).
import time
import warnings

import numpy as np
import torch
from laplace import Laplace
from scipy.stats import norm
from sklearn.datasets import make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from skribbon import RibbonRegressor
from skribbon.models.torch import TorchRegressor


class Network(nn.Module):
    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.first, self.block = nn.Linear(n_features, 50), nn.Linear(50, 50)
        self.dropout, self.last = nn.Dropout(0.05), nn.Linear(50, n_outputs)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.last(self.dropout(h + torch.relu(self.block(h))))


X, y = make_friedman1(1400, noise=1.0, random_state=0)
y = (y - y[:400].mean()) / y[:400].std()
X, y, X_new, y_new = X[:400], y[:400], X[400:], y[400:]

# %%
# Ten lines with skribbon. The network has 3,151 parameters and 400 rows, so it can
# memorize them. The Ribbon refits it three times without some of the rows, and learns
# the size of its errors at rows that it has not seen.
start = time.perf_counter()
network = TorchRegressor(
    Network,
    solver="adam",
    learning_rate=3e-3,
    weight_decay=1e-4,
    max_iter=200,
    n_iter_no_change=200,
    random_state=0,
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # 200 epochs do not reach the minimum
    ribbon = RibbonRegressor(network).fit(X, y)
lower, upper = ribbon.predict_interval(X_new).T
covered = np.mean((lower < y_new) & (y_new < upper))
nll = -ribbon.predict_distribution(X_new).logpdf(y_new).mean()
seconds = time.perf_counter() - start
print("skribbon, trained and refitted: ", end="")
print(f"covers {covered:.2f}, NLL {nll:.2f}, {seconds:.1f} s")

# %%
# laplace-torch takes the trained module, and chooses prior and noise by the marginal
# likelihood of the training rows. Its Kronecker factors cover well here. The curvature
# of the last layer ignores that the other layers have memorized noise.
module, new = ribbon.estimator_.module_, torch.from_numpy(X_new)
table = TensorDataset(torch.from_numpy(X), torch.from_numpy(y[:, None]))
rows = DataLoader(table, batch_size=100)
for structure, subset in (("kron", "all"), ("full", "last_layer")):
    start = time.perf_counter()
    options = {"subset_of_weights": subset, "hessian_structure": structure}
    la = Laplace(module, "regression", **options)
    la.fit(rows)
    prior, sigma = (torch.zeros(1, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.Adam([prior, sigma], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        (-la.log_marginal_likelihood(prior.exp(), sigma.exp())).backward()
        optimizer.step()
    mean, variance = (part.detach().numpy().reshape(len(y_new)) for part in la(new))
    std = np.sqrt(variance + la.sigma_noise.item() ** 2)
    covered = np.mean(np.abs(y_new - mean) < norm.ppf(0.95) * std)
    nll = -norm.logpdf(y_new, mean, std).mean()
    seconds = time.perf_counter() - start
    print(f"laplace-torch, {structure} of {subset}: ", end="")
    print(f"covers {covered:.2f}, NLL {nll:.2f}, {seconds:.1f} s")
