"""Values of annotated types as JSON, and back. Pure.

msgspec knows the standard types, dataclasses, attrs classes, enums and its own;
models of pydantic are recognised by what they can do, so it is never imported.
"""

from collections.abc import Mapping
from typing import Any, Union

import msgspec

__all__ = ["ValidationError", "Validator", "as_json", "problem_of", "record"]

ValidationError = msgspec.ValidationError


def as_json(value: Any) -> Any:
    """Return a value in terms of JSON: dicts, lists, text, numbers.

    Raises:
        TypeError: Nobody knows how to write a type in it; names the type.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign_as_json)


def _foreign_as_json(value: Any) -> Any:
    if hasattr(type(value), "__pydantic_validator__") and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    kind = type(value)
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__} has no JSON form")


def _foreign(kind: Any, value: Any) -> Any:
    if not hasattr(kind, "__pydantic_validator__"):
        raise NotImplementedError(f"{kind!r} cannot be read from JSON")
    try:
        return kind.model_validate_json(msgspec.json.encode(value))  # as JSON: "2026-01-31" is a date there
    except ValueError as error:
        raise ValueError(_pydantic_problem(error)) from None


def _pydantic_problem(error: Any) -> str:
    """Return where and what, without the value itself."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)


def problem_of(error: ValidationError) -> str:
    """Return what is wrong, with the path of the field: ``Expected `str`, got `int` - at `to.name` ``."""
    return str(error).replace("`$.", "`").replace("`$[", "`[")


class Validator:
    """Reads values of one type.

    Args:
        kind: Any annotation.

    Raises:
        TypeError: Values of that type cannot be read from JSON.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_foreign)

    def read(self, raw: bytes | str) -> Any:
        """Return the value a JSON text stands for.

        Raises:
            ValidationError: It does not fit.
        """
        return self._decoder.decode(raw)

    def convert(self, value: Any) -> Any:
        """Return the value that decoded JSON stands for.

        Raises:
            ValidationError: It does not fit.
        """
        return msgspec.convert(value, self._kind, str_keys=True, dec_hook=_foreign)


def record(name: str, fields: Mapping[str, Any], optional: frozenset[str]) -> type[msgspec.Struct]:
    """Return a type with these fields and no others.

    Args:
        name: Of the type.
        fields: Name -> annotation.
        optional: Those that may be absent; they are ``msgspec.UNSET`` then.
    """
    described: list[Any] = [
        (field, Union[kind, msgspec.UnsetType], msgspec.UNSET) if field in optional else (field, kind)  # noqa: UP007  # not every annotation has ``|``
        for field, kind in fields.items()
    ]
    return msgspec.defstruct(name, described, kw_only=True, forbid_unknown_fields=True)
