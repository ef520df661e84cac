"""
A torch module of your own, beside laplace-torch
================================================

How do honest intervals for a network in PyTorch look? Put the module into
:class:`~skribbon.models.torch.TorchRegressor`, which trains it, and that into a Ribbon. laplace-torch gets the module
that was trained. ``make torch`` runs this script, since it needs ``pip install 'skribbon[torch]' laplace-torch``.
"""

# %%
# The module is written as for any other training in torch. It maps rows (n, d) to (n, 1).
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
# Ten lines with skribbon. The network has 3,151 parameters and 400 rows, so the Ribbon refits it three times without
# some of the rows, to see how large its errors are at rows that it has not seen.
start = time.perf_counter()
network = TorchRegressor(
    Network, solver="adam", learning_rate=3e-3, weight_decay=1e-4, max_iter=200, n_iter_no_change=200, random_state=0
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # 200 epochs are not a minimum, and are meant to be few
    ribbon = RibbonRegressor(network).fit(X, y)
lower, upper = ribbon.predict_interval(X_new).T
covered, nll = np.mean((lower < y_new) & (y_new < upper)), -ribbon.predict_distribution(X_new).logpdf(y_new).mean()
print(f"skribbon, trained and refitted: covers {covered:.2f}, NLL {nll:.2f}, {time.perf_counter() - start:.1f} s")

# %%
# laplace-torch takes the trained module, and sets prior and noise by the marginal likelihood of the training rows.
# Here its Kronecker factors cover well; the last layer alone does not see the noise that the others have memorized.
module, new = ribbon.estimator_.module_, torch.from_numpy(X_new)
rows = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y[:, None])), batch_size=100)
for structure, subset in (("kron", "all"), ("full", "last_layer")):
    start = time.perf_counter()
    la = Laplace(module, "regression", subset_of_weights=subset, hessian_structure=structure)
    la.fit(rows)
    prior, sigma = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([prior, sigma], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        (-la.log_marginal_likelihood(prior.exp(), sigma.exp())).backward()
        optimizer.step()
    mean, variance = (part.detach().numpy().reshape(len(y_new)) for part in la(new))
    std = np.sqrt(variance + la.sigma_noise.item() ** 2)
    covered, nll = np.mean(np.abs(y_new - mean) < norm.ppf(0.95) * std), -norm.logpdf(y_new, mean, std).mean()
    seconds = time.perf_counter() - start
    print(f"laplace-torch, {structure} of {subset}: covers {covered:.2f}, NLL {nll:.2f}, {seconds:.1f} s")
