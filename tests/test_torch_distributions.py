"""Functions that look at the values of their arguments to check them, which are not known in a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import Tensor

import hesse
from torch_nested import assert_agrees

LABELS = torch.tensor([0, 1])
SAMPLES = torch.tensor([0.3, 0.7], dtype=torch.float64)


def _positive(x: Tensor) -> Tensor:
    return torch.outer(x, x) + torch.diag(x.exp())


CASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Normal": lambda a, b: D.Normal(a, b.exp()).log_prob(SAMPLES),
    "Gamma": lambda a, b: D.Gamma(a.exp(), b.exp()).log_prob(SAMPLES),
    "Beta": lambda a, b: D.Beta(a.exp(), b.exp()).log_prob(SAMPLES),
    "StudentT": lambda a, b: D.StudentT(a.exp(), b).log_prob(SAMPLES),
    "Dirichlet": lambda a, b: D.Dirichlet(a.exp()).log_prob(SAMPLES * b**2 / (SAMPLES * b**2).sum()),
    "Categorical": lambda a, b: D.Categorical(logits=a).entropy() * D.Categorical(logits=b).log_prob(LABELS),
    "Bernoulli": lambda a, b: D.Bernoulli(logits=a * b).log_prob(LABELS.double()),
    "MultivariateNormal": lambda a, b: D.MultivariateNormal(
        a, scale_tril=torch.diag(b.exp()) + torch.diag(b[:1], -1)
    ).log_prob(SAMPLES),
    "a covariance matrix": lambda a, b: D.MultivariateNormal(a, _positive(b)).log_prob(SAMPLES),
    "a precision matrix": lambda a, b: D.MultivariateNormal(a, precision_matrix=_positive(b)).log_prob(
        SAMPLES
    ),
    "kl_divergence of matrices": lambda a, b: D.kl_divergence(
        D.MultivariateNormal(a, _positive(b)), D.MultivariateNormal(b, _positive(a))
    ),
    "kl_divergence": lambda a, b: D.kl_divergence(D.Normal(a, b.exp()), D.Normal(0.0, 1.0)),
    "gaussian_nll_loss": lambda a, b: F.gaussian_nll_loss(a, SAMPLES, b**2, full=True),
    "gaussian_nll_loss of rows": lambda a, b: F.gaussian_nll_loss(
        torch.outer(a, b), torch.outer(b, SAMPLES), b.exp(), reduction="sum"
    ),
    "extrema of truth values": lambda a, b: (
        torch.where((a > b).max(0)[0] & (a < b).amin(), a, b) * (a > b).min() + (a > 0).amax() * a**2
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_arguments_are_not_checked(name: str) -> None:
    points = torch.tensor([0.3, -0.6], dtype=torch.float64), torch.tensor([0.5, 1.2], dtype=torch.float64)
    assert_agrees(CASES[name], *points)


def test_checks_that_a_function_makes_itself_are_not_taken_for_granted() -> None:
    def chosen(c: Tensor) -> Tensor:
        is_valid = D.constraints.positive_definite.check(c)
        return (c**2).sum() if is_valid else (c**3).sum()

    c = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(hesse.grad(hesse.branching(chosen))(c), 3 * c**2)
    with pytest.raises(hesse.HesseError):
        hesse.grad(chosen)(c)
