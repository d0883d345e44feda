"""Options that several commands share, written once.

A bundle is a frozen dataclass whose fields are annotated options. A command that takes a bundle as
a parameter is turned by :func:`with_bundles` into the flat function that typer expects:

    @with_bundles
    def amplify(scheme: SchemeOptions, noise: NoiseOptions, epsilon: ...) -> Answer: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

R = TypeVar("R")


def with_bundles(command: Callable[..., R]) -> Callable[..., R]:
    """Spread every parameter of ``command`` that is a bundle into the bundle's own options."""
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    bundles = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    flat = []
    for name, parameter in parameters.items():
        if name in bundles:
            flat += _spread(bundles[name])
        else:
            flat.append(_option(name, parameter.default, hints[name]))

    def flattened(**values: Any) -> R:
        for name, bundle in bundles.items():
            own = {field.name: values.pop(field.name) for field in fields(bundle)}
            values[f"{name} options"] = bundle(**own)
        # Renamed in a second pass: a bundle may be called like one of its own fields.
        return command(**{name.removesuffix(" options"): value for name, value in values.items()})

    flattened.__name__, flattened.__doc__ = command.__name__, command.__doc__
    flattened.__module__ = command.__module__
    flattened.__annotations__ = {option.name: option.annotation for option in flat}
    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return flattened


def _spread(bundle: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [_option(field.name, field.default, hints[field.name]) for field in fields(bundle)]


def _option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
