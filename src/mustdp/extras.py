"""Packages that are needed for some jobs only, and one clear word where such a package is missing.

What each extra of ``pyproject.toml`` brings is stated here once, so that the hint always names the
extra that helps.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from mustdp.errors import MissingExtra

#: The extra that brings a package.
_BROUGHT_BY = {
    "matplotlib": "plots",
    "jinja2": "plots",
    "markupsafe": "plots",
    "torch": "train",
    "sklearn": "train",
    "pyreadstat": "files",
    "joblib": "parallel",
    "threadpoolctl": "parallel",
    "dask": "dask",
    "distributed": "dask",
    "cryptography": "dask",
    "dp_accounting": "dp-accounting",
    "opacus": "opacus",
    "jax_privacy": "jax-privacy",
    "opendp": "opendp",
    "flwr": "flower",
    "yaml": "deployments",
    "prv_accountant": "bench",
    "riskcal": "bench",
    "PLD_accounting": "bench",
}
#: Packages that are installed under another name than they are imported by.
_INSTALLED_AS = {
    "sklearn": "scikit-learn",
    "dp_accounting": "dp-accounting",
    "jax_privacy": "jax-privacy",
    "prv_accountant": "prv-accountant",
    "yaml": "pyyaml",
}


def required(module: str, purpose: str) -> ModuleType:
    """Import ``module``; where it is missing, say what it is for and how to get it.

    >>> required("math", "counting").__name__
    'math'
    """
    try:
        return import_module(module)
    except ImportError as problem:
        package = module.partition(".")[0]
        extra = _BROUGHT_BY.get(package)
        if extra is None:
            raise
        raise MissingExtra(
            f"{_INSTALLED_AS.get(package, package)} is needed for {purpose} and is not installed: "
            f'pip install ".[{extra}]"',
            name=module,
        ) from problem


def installed(module: str) -> ModuleType | None:
    """Import ``module``, or return None where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None
