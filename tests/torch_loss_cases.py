"""Functions of torch tensors by family: losses, distances, and normalisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_cases import POSITIVE, UNIT, WIDE, Case, Interval

LABELS = torch.tensor([2, 0])
IGNORED = torch.tensor([2, -100])
WEIGHTS = torch.tensor([0.2, 0.5, 1.3], dtype=torch.float64)
SIGNS = torch.tensor([1.0, -1.0], dtype=torch.float64)
SIGN_ROWS = torch.tensor([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]], dtype=torch.float64)
TRUTHS = (SIGN_ROWS + 1) / 2
TARGETS = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)
PIXELS = torch.tensor([[[0, 1], [2, 1]]])
FIRST, SECOND = torch.triu_indices(4, 4, 1)
SETS = torch.tensor([[2, 0, -1], [1, -1, -1]])


def _losses(
    name: str, loss: Any, points: Interval = WIDE, by_hand: Callable[[Tensor], Tensor] | None = None
) -> list[Case]:
    """A loss of rows with fixed targets in all its reductions; `by_hand` gives one loss for each row."""
    reductions = {"mean": torch.mean, "sum": torch.sum, "none": torch.clone}
    return [
        Case(
            f"{name}_{reduction}",
            lambda x, reduction=reduction: loss(x, reduction=reduction),
            ((2, 3),),
            (points,),
            reference=None if by_hand is None else lambda x, total=total: total(by_hand(x)),
        )
        for reduction, total in reductions.items()
    ]


def multi_margin_by_hand(x: Tensor, margin: float, p: int = 1) -> Tensor:
    """PyTorch has no second derivative."""
    others = 1 - F.one_hot(LABELS, 3)
    return (torch.relu(margin + x - x.gather(1, LABELS[:, None])) ** p * others).sum(1) / 3


def multilabel_margin_by_hand(x: Tensor) -> Tensor:
    """PyTorch has no second derivative. The labels of the rows are {2, 0} and {1}."""
    first = torch.relu(1 - x[0, 2] + x[0, 1]) + torch.relu(1 - x[0, 0] + x[0, 1])
    second = torch.relu(1 - x[1, 1] + x[1, 0]) + torch.relu(1 - x[1, 1] + x[1, 2])
    return torch.stack([first, second]) / 3


def class_weights_by_hand(x: Tensor, weight: Tensor) -> Tensor:
    """PyTorch does not differentiate by class weights."""
    losses = -torch.log_softmax(x, 1).gather(1, LABELS[:, None])[:, 0] * weight[LABELS]
    return losses.sum() / weight[LABELS].sum()


def layer_norm_by_hand(
    x: Tensor, rank: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """PyTorch's derivatives of second and third order are wrong."""
    axes = tuple(range(x.dim() - rank, x.dim()))
    centered = x - x.mean(axes, keepdim=True)
    result = centered / torch.sqrt((centered**2).mean(axes, keepdim=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def group_norm_by_hand(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    parts = x.reshape(x.shape[0], groups, -1)
    result = layer_norm_by_hand(parts, 1).reshape(x.shape)
    shape = (1, -1, *[1] * (x.dim() - 2))
    result = result if weight is None else result * weight.reshape(shape)
    return result if bias is None else result + bias.reshape(shape)


def batch_norm_by_hand(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    axes = (0, *range(2, x.dim()))
    centered = x - x.mean(axes, keepdim=True)
    shape = (1, -1, *[1] * (x.dim() - 2))
    scaled = centered / torch.sqrt((centered**2).mean(axes, keepdim=True) + 1e-5)
    return scaled * weight.reshape(shape) + bias.reshape(shape)


def cdist_by_hand(x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    return torch.linalg.vector_norm(x[..., :, None, :] - y[..., None, :, :], p, dim=-1)


def ctc(x: Tensor) -> Tensor:
    """Two labels in four steps."""
    lengths = torch.tensor([4]), torch.tensor([2])
    return F.ctc_loss(F.log_softmax(x, -1), torch.tensor([[1, 2]]), *lengths)


LOSSES = [
    *_losses("cross_entropy", lambda x, **o: F.cross_entropy(x, LABELS, **o)),
    *_losses("cross_entropy_weight", lambda x, **o: F.cross_entropy(x, LABELS, weight=WEIGHTS, **o)),
    *_losses("cross_entropy_ignored", lambda x, **o: F.cross_entropy(x, IGNORED, **o)),
    *_losses(
        "cross_entropy_ignored_weight",
        lambda x, **o: F.cross_entropy(x, LABELS, weight=WEIGHTS, ignore_index=0, **o),
    ),
    *_losses("cross_entropy_smooth", lambda x, **o: F.cross_entropy(x, LABELS, label_smoothing=0.1, **o)),
    *_losses(
        "cross_entropy_smooth_weight",
        lambda x, **o: F.cross_entropy(x, IGNORED, weight=WEIGHTS, label_smoothing=0.1, **o),
    ),
    *_losses("cross_entropy_soft", lambda x, **o: F.cross_entropy(x, TARGETS, **o)),
    *_losses(
        "cross_entropy_soft_weight",
        lambda x, **o: F.cross_entropy(x, TARGETS, weight=WEIGHTS, label_smoothing=0.2, **o),
    ),
    Case("cross_entropy_targets", F.cross_entropy, ((2, 3), (2, 3)), (WIDE, UNIT)),
    Case(
        "cross_entropy_class_weights",
        lambda x, w: F.cross_entropy(x, LABELS, w),
        ((2, 3), (3,)),
        (WIDE, UNIT),
        reference=class_weights_by_hand,
    ),
    *[
        Case(
            f"linear_cross_entropy_in_chunks_{reduction}",
            lambda x, w, b, reduction=reduction: F.linear_cross_entropy(
                x,
                w,
                IGNORED,
                linear_bias=b,
                weight=WEIGHTS,
                reduction=reduction,
                options=nn.LinearCrossEntropyOptions(batch_chunk_size=1),
            ),
            ((2, 2), (3, 2), (3,)),
            reference=lambda x, w, b, reduction=reduction: F.cross_entropy(
                x @ w.T + b, IGNORED, weight=WEIGHTS, reduction=reduction
            ),
        )
        for reduction in ("mean", "sum", "none")
    ],
    Case("cross_entropy_pixels", lambda x: F.cross_entropy(x, PIXELS, WEIGHTS), ((1, 3, 2, 2),), order=2),
    Case("cross_entropy_vector", lambda x: F.cross_entropy(x, torch.tensor(1)), ((3,),), order=4),
    *_losses("nll", lambda x, **o: F.nll_loss(F.log_softmax(x, 1), LABELS, **o)),
    *_losses("nll_weight", lambda x, **o: F.nll_loss(x**2, IGNORED, weight=WEIGHTS, **o)),
    Case("nll_pixels", lambda x: F.nll_loss(x**3, PIXELS), ((1, 3, 2, 2),), order=2),
    Case("nll_vector", lambda x: F.nll_loss(x**3, torch.tensor(1)), ((3,),)),
    *_losses("bce", lambda x, **o: F.binary_cross_entropy(x, TARGETS, **o), UNIT),
    *_losses("bce_weight", lambda x, **o: F.binary_cross_entropy(x, TRUTHS, weight=WEIGHTS, **o), UNIT),
    Case("bce_targets", F.binary_cross_entropy, ((3,), (3,)), (UNIT,)),
    *_losses("bce_logits", lambda x, **o: F.binary_cross_entropy_with_logits(x, TARGETS, **o)),
    *_losses(
        "bce_logits_weights",
        lambda x, **o: F.binary_cross_entropy_with_logits(
            x, TARGETS, weight=WEIGHTS, pos_weight=WEIGHTS + 1, **o
        ),
    ),
    Case("bce_logits_targets", F.binary_cross_entropy_with_logits, ((3,), (3,)), (WIDE, UNIT)),
    *_losses("mse", lambda x, **o: F.mse_loss(x, TARGETS, **o)),
    Case("mse_both", lambda x, y: F.mse_loss(torch.sin(x), y), ((3,), (3,))),
    Case("mse_weighted", lambda x, w: F.mse_loss(x, TARGETS, weight=w), ((2, 3), (2, 3)), (WIDE, UNIT)),
    *_losses("l1", lambda x, **o: F.l1_loss(x**3, TARGETS, **o)),
    *_losses("smooth_l1", lambda x, **o: F.smooth_l1_loss(x, TARGETS, beta=0.6, **o)),
    Case("smooth_l1_zero_beta", lambda x: F.smooth_l1_loss(x**3, TARGETS, beta=0.0), ((2, 3),)),
    *_losses("huber", lambda x, **o: F.huber_loss(x, TARGETS, delta=0.6, **o)),
    Case("huber_both", F.huber_loss, ((3,), (3,))),
    *_losses("kl_div", lambda x, **o: F.kl_div(F.log_softmax(x, 1), TARGETS, **o)),
    *_losses("kl_div_log", lambda x, **o: F.kl_div(x**2, TARGETS.log(), log_target=True, **o)),
    Case(
        "kl_div_batchmean", lambda x, y: F.kl_div(x, y, reduction="batchmean"), ((2, 3), (2, 3)), (WIDE, UNIT)
    ),
    *_losses("poisson_nll", lambda x, **o: F.poisson_nll_loss(x, TARGETS, **o)),
    *_losses(
        "poisson_nll_full",
        lambda x, **o: F.poisson_nll_loss(x, TARGETS * 5, log_input=False, full=True, **o),
        POSITIVE,
    ),
    *_losses("soft_margin", lambda x, **o: F.soft_margin_loss(x, SIGN_ROWS, **o)),
    *_losses("hinge_embedding", lambda x, **o: F.hinge_embedding_loss(x**3, SIGN_ROWS, margin=1.2, **o)),
    *_losses(
        "multi_margin",
        lambda x, **o: F.multi_margin_loss(x**3, LABELS, margin=1.3, **o),
        by_hand=lambda x: multi_margin_by_hand(x**3, 1.3),
    ),
    Case(
        "multi_margin_p2",
        lambda x: F.multi_margin_loss(x, LABELS, p=2, weight=WEIGHTS),
        ((2, 3),),
        reference=lambda x: (multi_margin_by_hand(x, 1.0, 2) * WEIGHTS[LABELS]).mean(),
    ),
    *_losses(
        "multilabel_margin",
        lambda x, **o: F.multilabel_margin_loss(x**3, SETS, **o),
        by_hand=lambda x: multilabel_margin_by_hand(x**3),
    ),
    *_losses("multilabel_soft_margin", lambda x, **o: F.multilabel_soft_margin_loss(x, TRUTHS, **o)),
    Case(
        "multilabel_soft_margin_weight",
        lambda x: F.multilabel_soft_margin_loss(x, TRUTHS, WEIGHTS),
        ((2, 3),),
    ),
    Case(
        "margin_ranking",
        lambda x, y: F.margin_ranking_loss(x**3, y, SIGNS, margin=0.4),
        ((2,), (2,)),
    ),
    Case(
        "cosine_embedding",
        lambda x, y: F.cosine_embedding_loss(x, y, SIGNS, margin=0.1),
        ((2, 3), (2, 3)),
        order=2,
    ),
    Case("triplet", F.triplet_margin_loss, ((2, 3), (2, 3), (2, 3)), order=2),
    Case(
        "triplet_swap",
        lambda x, y, z: F.triplet_margin_loss(x, y, z, p=3, swap=True, reduction="none"),
        ((2, 2),) * 3,
        order=2,
    ),
    Case(
        "triplet_distance",
        lambda x, y, z: F.triplet_margin_with_distance_loss(
            x, y, z, distance_function=lambda a, b: ((a - b) ** 2).sum(1)
        ),
        ((2, 2),) * 3,
        order=2,
    ),
    Case("ctc", ctc, ((4, 1, 3),), order=1),
    Case(
        "ctc_numbers",
        lambda x: F.ctc_loss(F.log_softmax(x, -1), torch.tensor([[1, 2]]), (4,), [2]),
        ((4, 1, 3),),
        order=1,
        reference=ctc,
    ),
    Case("cosine_similarity", F.cosine_similarity, ((2, 3), (2, 3)), order=2),
    Case(
        "cosine_similarity_broadcast",
        lambda x, y: F.cosine_similarity(x[:, None], y[None], dim=-1),
        ((2, 2), (3, 2)),
        order=2,
    ),
    Case("pairwise_distance", F.pairwise_distance, ((2, 3), (2, 3)), order=2),
    Case(
        "pairwise_distance_p1",
        lambda x, y: F.pairwise_distance(x, y, p=1.0, keepdim=True) ** 2,
        ((2, 3), (3,)),
        order=2,
    ),
    Case("cdist", torch.cdist, ((3, 2), (2, 2)), order=3, reference=cdist_by_hand),
    Case("cdist_batch", torch.cdist, ((2, 2, 2), (2, 1, 2)), order=2, reference=cdist_by_hand),
    Case(
        "cdist_p1",
        lambda x, y: torch.cdist(x**3, y, p=1.0),
        ((3, 2), (2, 2)),
        reference=lambda x, y: cdist_by_hand(x**3, y, 1.0),
    ),
    Case(
        "cdist_p3",
        lambda x, y: torch.cdist(x, y, p=3.0),
        ((2, 2), (2, 2)),
        order=2,
        reference=lambda x, y: cdist_by_hand(x, y, 3.0),
    ),
    Case(
        "cdist_inf",
        lambda x, y: torch.cdist(x**3, y, p=float("inf")),
        ((2, 2), (2, 2)),
        order=2,
        reference=lambda x, y: cdist_by_hand(x**3, y, float("inf")),
    ),
    Case(
        "pdist",
        F.pdist,
        ((4, 2),),
        order=3,
        reference=lambda x: torch.linalg.vector_norm(x[FIRST] - x[SECOND], dim=1),
    ),
    Case(
        "info_nce",
        lambda x, y: F.cross_entropy(F.normalize(x) @ F.normalize(y).T / 0.5, torch.arange(3)),
        ((3, 2), (3, 2)),
        order=2,
    ),
    Case(
        "focal",
        lambda x: ((1 - torch.sigmoid(x)) ** 2 * F.logsigmoid(x)).mean(),
        ((2, 3),),
    ),
]

MEANS = torch.tensor([0.1, -0.4, 0.3], dtype=torch.float64)
VARIANCES = torch.tensor([0.6, 1.2, 0.8], dtype=torch.float64)
ROWS, IMAGE, CHANNELS = (2, 3), (2, 4, 2), (4,)


def batch_norm_training(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Writes to captured buffers."""
    return F.batch_norm(x, RUNNING[0], RUNNING[1], weight, bias, training=True)


RUNNING = (MEANS.clone(), VARIANCES.clone())

NORMALIZATIONS = [
    Case(
        "layer_norm", lambda x: F.layer_norm(x, (3,)), (ROWS,), reference=lambda x: layer_norm_by_hand(x, 1)
    ),
    Case(
        "layer_norm_affine",
        lambda x, w, b: F.layer_norm(x, (3,), w, b),
        (ROWS, (3,), (3,)),
        reference=lambda x, w, b: layer_norm_by_hand(x, 1, w, b),
    ),
    Case(
        "layer_norm_two_axes",
        lambda x, w: F.layer_norm(x, (2, 3), w, eps=1e-3),
        ((2, 2, 3), (2, 3)),
        order=2,
        reference=lambda x, w: layer_norm_by_hand(x, 2, w, eps=1e-3),
    ),
    Case(
        "group_norm",
        lambda x: F.group_norm(x, 2),
        (IMAGE,),
        order=2,
        reference=lambda x: group_norm_by_hand(x, 2),
    ),
    Case(
        "group_norm_affine",
        lambda x, w, b: F.group_norm(x, 2, w, b),
        ((1, 4, 2), CHANNELS, CHANNELS),
        order=2,
        reference=lambda x, w, b: group_norm_by_hand(x, 2, w, b),
    ),
    Case(
        "instance_norm",
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        ((1, 2, 3), (2,), (2,)),
        order=2,
        reference=lambda x, w, b: group_norm_by_hand(x, 2, w, b),
    ),
    Case(
        "batch_norm_eval",
        lambda x, w, b: F.batch_norm(x**2, MEANS, VARIANCES, w, b),
        (ROWS, (3,), (3,)),
    ),
    Case("batch_norm_eval_plain", lambda x: F.batch_norm(x**3, MEANS, VARIANCES), ((1, 3, 2),), order=2),
    Case(
        "batch_norm_statistics",
        F.batch_norm,
        (ROWS, (3,), (3,)),
        (WIDE, WIDE, POSITIVE),
        reference=lambda x, m, v: (x - m) / torch.sqrt(v + 1e-5),
    ),
    Case(
        "batch_norm_train", batch_norm_training, ((3, 3), (3,), (3,)), order=2, reference=batch_norm_by_hand
    ),
    Case(
        "batch_norm_train_image",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        ((2, 2, 2), (2,), (2,)),
        order=2,
        reference=batch_norm_by_hand,
    ),
    Case("rms_norm", lambda x, w: F.rms_norm(x, (3,), w), (ROWS, (3,))),
    Case("rms_norm_eps", lambda x: F.rms_norm(x, (2, 3), eps=1e-2), ((1, 2, 3),)),
    Case("local_response_norm", lambda x: F.local_response_norm(x, 2), ((1, 3, 2),), order=2),
    Case(
        "weight_norm",
        lambda v, g: torch._weight_norm(v, g, 0),
        ((2, 3), (2, 1)),
        order=2,
        reference=lambda v, g: v * g / torch.linalg.vector_norm(v, dim=1, keepdim=True),
    ),
]
