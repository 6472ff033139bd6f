"""Attention of ATen: two products with a softmax between them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hesse.frontends.aten.table import aten
from hesse.frontends.expression import Expression
from hesse.frontends.special import softmax


def _for_heads(x: Any, heads: int) -> Any:
    """Keys or values with one for each head of the query; one for all is broadcast."""
    shared = x.shape[-3] if x.ndim > 2 else 1
    return x if shared in (1, heads) or heads % shared else np.repeat(x, heads // shared, -3)


@aten("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`softmax(query @ key.T * scale + mask) @ value`; a query that may see no key gets zeros."""
    if enable_gqa and query.ndim > 2:
        key, value = (_for_heads(x, query.shape[-3]) for x in (key, value))
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.multiply(np.einsum("...qd,...kd->...qk", query, key), scale)
    if is_causal:
        attn_mask = np.tri(*scores.shape[-2:], dtype=bool)
    if attn_mask is None:
        return np.matmul(softmax(scores), value)
    is_choice = not isinstance(attn_mask, Expression) or attn_mask.boolean
    is_seen = attn_mask if is_choice else np.greater(attn_mask, -math.inf)
    masked = np.where(attn_mask, scores, -math.inf) if is_choice else np.add(scores, attn_mask)
    if isinstance(is_seen, np.ndarray):  # of a causal mask every row sees its first key
        return np.matmul(softmax(masked), value)
    sees = np.any(is_seen, -1, keepdims=True)
    weights = softmax(np.where(sees, masked, 0.0))
    return np.matmul(np.where(sees, weights, 0.0), value)
