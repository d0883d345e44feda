"""Options that several commands share, written once, and options that are given once.

A bundle is a frozen dataclass whose fields are annotated options. A command that takes a bundle as
a parameter is turned by :func:`with_bundles` into the flat function that typer expects:

    @with_bundles
    def amplify(scheme: SchemeOptions, noise: NoiseOptions, epsilon: ...) -> Answer: ...

An option whose type is not a list is refused when it is given twice: typer alone would drop all
values but the last.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from mustdp.cli.numbers import clipped
from mustdp.cli.typed import as_typed
from mustdp.errors import InvalidParameter

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
            flat.append(_parameter(name, parameter.default, hints[name]))
    single = {one.name: _flag(one.annotation) for one in flat if _is_single(one.annotation)}

    def flattened(**values: Any) -> R:
        values = _reduced(values, single)
        for name, bundle in bundles.items():
            own = {field.name: values.pop(field.name) for field in fields(bundle)}
            values[f"{name} options"] = bundle(**own)
        # Renamed in a second pass: a bundle may be called like one of its own fields.
        return command(**{name.removesuffix(" options"): value for name, value in values.items()})

    listed = [_several(one) if one.name in single else one for one in flat]
    flattened.__name__, flattened.__doc__ = command.__name__, command.__doc__
    flattened.__module__ = command.__module__
    flattened.__annotations__ = {one.name: one.annotation for one in listed}
    flattened.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return flattened


def _spread(bundle: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [_parameter(field.name, field.default, hints[field.name]) for field in fields(bundle)]


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _flag(annotation: Any) -> str:
    """The name under which an option is typed; empty for an argument."""
    info = get_args(annotation)[1]
    # Without a default before it, typer keeps the first name in the default's place.
    declared = (info.default, *(info.param_decls or ()))
    return next((name for name in declared if isinstance(name, str)), "")


def _is_single(annotation: Any) -> bool:
    """Whether this is an option with a value, to be given once."""
    kind = get_args(annotation)[0]
    listed = any(get_origin(part) is list for part in (kind, *get_args(kind)))
    return kind is not bool and not listed and _flag(annotation).startswith("-")


def _several(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same option, taken as often as it is given, so that a second value is seen."""
    default = None if parameter.default is None else [parameter.default]
    info = get_args(parameter.annotation)[1]
    return parameter.replace(default=default, annotation=Annotated[list[str] | None, info])


def _reduced(values: Mapping[str, Any], single: Mapping[str, str]) -> dict[str, Any]:
    """Every option that may be given once with its only value."""
    found = dict(values)
    for name, flag in single.items():
        given = found[name] or [None]
        if len(given) > 1:
            shown = clipped(" and ".join(map(as_typed, given)))
            raise InvalidParameter.refusing(flag, "must be given once", shown)
        found[name] = given[0]
    return found
