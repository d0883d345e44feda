"""BatchNorm mixes the records of a batch; GroupNorm does the same work for each record alone."""

from __future__ import annotations

import copy
import math
from typing import Any

from torch import nn

from mustdp.errors import NotCovered
from mustdp.numerics import checks


def replace_batchnorm(model: nn.Module, groups: int = 32) -> nn.Module:
    """A copy of a model with a GroupNorm in the place of every BatchNorm.

    Scale and offset are kept; statistics of earlier data are forgotten. A layer of c channels gets
    the largest number of groups that divides both c and ``groups``.

    Parameters
    ----------
    model : torch.nn.Module
        The model, which is left as it is.
    groups : int, default=32
        The number of groups of a layer is the largest that divides this and its channels.

    Returns
    -------
    torch.nn.Module
        The copy.

    Raises
    ------
    NotCovered
        A lazy layer does not know its channels yet.

    Examples
    --------
    >>> replace_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1].num_groups
    8
    """
    groups = checks.integer("groups", groups, 1)
    changed = copy.deepcopy(model)
    if isinstance(changed, nn.modules.batchnorm._BatchNorm):
        return _group_norm("model", changed, groups)
    for name, parent in list(changed.named_modules()):
        for child, module in list(parent.named_children()):
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                whole = f"{name}.{child}" if name else child
                setattr(parent, child, _group_norm(whole, module, groups))
    return changed


def _group_norm(name: str, layer: Any, groups: int) -> nn.GroupNorm:
    if not int(layer.num_features) > 0:  # a lazy layer
        raise NotCovered(f"layer {name} does not know its channels yet; run the model once")
    channels = int(layer.num_features)
    found = nn.GroupNorm(math.gcd(channels, groups), channels, layer.eps, affine=layer.affine)
    if layer.affine:
        found.weight, found.bias = layer.weight, layer.bias
    return found.train(layer.training)
