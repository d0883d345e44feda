"""Packages that are needed for some jobs only, and one clear word where such a package is missing.

What each extra of ``pyproject.toml`` brings is stated here once, so that the hint always names the
extra that helps.
"""

from __future__ import annotations

from importlib import import_module, metadata
from types import ModuleType

from mustdp.errors import MissingExtra

#: What each extra is for, and the packages that it brings, by the names they are imported by.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "plots": ("pictures, reports and the explorer", ("matplotlib", "jinja2", "markupsafe")),
    "train": ("networks and linear models", ("torch", "sklearn")),
    "fast": ("exact noise in training by compiled code", ("numba",)),
    "files": ("files of Stata, SPSS and SAS", ("pyreadstat",)),
    "duckdb": ("tables and files of DuckDB", ("duckdb",)),
    "spark": ("data frames of Spark", ("pyspark",)),
    "parallel": ("work in several processes", ("joblib", "threadpoolctl")),
    "dask": ("work on a Dask cluster", ("dask", "distributed", "cryptography")),
    "dp-accounting": ("the bridge to dp_accounting", ("dp_accounting",)),
    "opacus": ("the bridge to Opacus", ("opacus",)),
    "jax-privacy": ("the bridge to jax-privacy", ("jax_privacy",)),
    "opendp": ("the bridge to OpenDP", ("opendp",)),
    "flower": ("the bridge to Flower", ("flwr",)),
    "deployments": ("plans of the deployment registry, and codebooks of labels", ("yaml",)),
}
_BROUGHT_BY = {package: extra for extra, (_, brought) in EXTRAS.items() for package in brought}
_BROUGHT_BY |= dict.fromkeys(("prv_accountant", "riskcal", "PLD_accounting"), "bench")
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


def version_of(module: str) -> str | None:
    """The version that is installed of the package that ``module`` comes from, if any."""
    try:
        return metadata.version(_INSTALLED_AS.get(module, module))
    except metadata.PackageNotFoundError:
        return None
