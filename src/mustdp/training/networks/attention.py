"""torch's ``MultiheadAttention`` written out: linear layers around a formula without parameters.

torch computes it in one piece, which does not show what its projections were given. Here they leave
notes like any other linear layer. Queries, keys and values are projected by one weight; where they
are different sequences each of these is given to the whole of it, and the part that is not needed
has errors of zero. The formula is that of torch's documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils import parametrize

from mustdp.training.networks.recurrent import Affine
from mustdp.training.networks.separation import Unsuitable


def is_attention(module: nn.Module) -> bool:
    """Whether the module is one that can be written out; anything unusual makes it another."""
    return (
        type(module).forward is nn.MultiheadAttention.forward
        and "forward" not in vars(module)
        and module.in_proj_weight is not None  # one width for queries, keys and values
        and module.bias_k is None
        and not module.add_zero_attn
        and type(module.out_proj) is NonDynamicallyQuantizableLinear
        and not any(map(parametrize.is_parametrized, (module, module.out_proj)))
    )


def attention(module: Any, affine: Affine) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """The forward pass of the module, with its projections by ``affine``."""

    def forward(
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        given = query, key, value
        if not all(isinstance(x, Tensor) and x.ndim == 3 for x in given):
            raise Unsuitable("attention takes sequences without a record dimension")
        if is_causal and attn_mask is None:
            raise Unsuitable("attention is said to be causal without a mask")
        projected: dict[int, Tensor] = {}
        for x in given:
            if id(x) not in projected:
                records_first = x if module.batch_first else x.transpose(0, 1)
                projected[id(x)] = affine("in_proj_weight", "in_proj_bias", records_first)
        q, k, v = (
            torch.unflatten(
                projected[id(x)].chunk(3, -1)[part], -1, (module.num_heads, -1)
            ).transpose(1, 2)
            for part, x in enumerate(given)
        )
        mask = _mask(attn_mask, key_padding_mask, module.num_heads, q)
        dropout = module.dropout if module.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            scores = (q * q.shape[-1] ** -0.5) @ k.mT
            weights = functional.dropout(
                (scores if mask is None else scores + mask).softmax(-1), dropout
            )
            found = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            found = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=dropout
            )
        out = affine("out_proj.weight", "out_proj.bias", found.transpose(1, 2).flatten(2))
        return out if module.batch_first else out.transpose(0, 1), weights

    return forward


def _mask(
    between: Tensor | None, padding: Tensor | None, heads: int, like: Tensor
) -> Tensor | None:
    """What is added to the scores (records, heads, queries, keys); None for nothing."""
    found: Tensor | None = None
    if between is not None:
        found = _added(between, like)
        if found.ndim == 3:  # one for each record and head
            found = torch.unflatten(found, 0, (-1, heads))
    if padding is not None:
        keys = _added(padding, like)[:, None, None]
        found = keys if found is None else found + keys
    return found


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """Minus infinity where a mask of truth values hides something; others are added as they are."""
    if mask.is_floating_point():
        return mask.to(like.dtype)
    if mask.dtype != torch.bool:
        raise Unsuitable("a mask of attention is neither truth values nor numbers with a point")
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -torch.inf)
