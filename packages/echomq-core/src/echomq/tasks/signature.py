"""What a task takes and gives, by its annotations."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import msgspec

from echomq.codec import encode_json
from echomq.errors import InvalidOption, NotEncodable, ProtocolError, UsageError
from echomq.job import Job
from echomq.signals import Unrecoverable

from .depends import INJECTED, Needs, hints_of, needs_of
from .values import ValidationError, Validator, as_json, problem_of, record

__all__ = ["Signature", "signature_of"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@attrs.frozen(kw_only=True)
class Signature:
    """How calls of a task become data of jobs, and back.

    Attributes:
        task: Name of the task, for messages.
        parameters: Those that come with the job.
        needs: Those that are injected.
    """

    task: str
    parameters: inspect.Signature
    needs: Needs
    _arguments: Validator
    _result: Validator

    def data(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of a job that makes this call.

        Raises:
            InvalidOption: The arguments do not fit; tells which.
        """
        subject = f"arguments of task {self.task!r}"
        try:
            given: dict[str, Any] = as_json(self.parameters.bind(*args, **kwargs).arguments)
            self._arguments.read(encode_json(subject, given))
        except ValidationError as error:
            raise InvalidOption(subject, problem_of(error)) from None
        except TypeError as error:
            raise InvalidOption(subject, str(error)) from None
        return given

    def arguments(self, job: Job) -> dict[str, Any]:
        """Return the arguments that the data of a job stand for.

        Raises:
            Unrecoverable: They do not fit; tells where. Another attempt would meet the same.
        """
        raw = job.raw_data
        try:
            found = self._arguments.read("{}" if raw in (b"null", "null", b"", "") else raw)
        except msgspec.DecodeError as error:
            what = problem_of(error) if isinstance(error, ValidationError) else str(error)
            raise Unrecoverable(f"the data of this job are no arguments of task {self.task!r}: {what}") from None
        given = {name: getattr(found, name) for name in self.parameters.parameters}
        return {name: value for name, value in given.items() if value is not msgspec.UNSET}

    def result_json(self, value: Any) -> Any:
        """Return a result in terms of JSON.

        Raises:
            NotEncodable: A type in it has no JSON form.
        """
        try:
            return as_json(value)
        except TypeError as error:
            raise NotEncodable(f"the result of task {self.task!r}", "$", str(error)) from None

    def result(self, value: Any) -> Any:
        """Return the result that decoded JSON stands for.

        Raises:
            ProtocolError: It is not what the task promises; tells where.
        """
        try:
            return self._result.convert(value)
        except ValidationError as error:
            raise ProtocolError(
                f"the result is not what task {self.task!r} promises by its annotation: {problem_of(error)}"
            ) from None


def signature_of(task: str, function: Callable[..., Any]) -> Signature:
    """Look at a function.

    Raises:
        UsageError: It takes ``*args``, ``**kwargs`` or positional-only parameters, which a JSON object has
            no place for; or a type cannot be read from JSON.
    """
    hints, needs = hints_of(function), needs_of(function)
    whole = inspect.signature(function)
    named = [parameter for parameter in whole.parameters.values() if parameter.name not in needs]
    for parameter in named:
        if parameter.kind not in _NAMED:
            raise UsageError(f"task {task!r}: {parameter} has no place in a JSON object of named arguments")
        if parameter.default is INJECTED:
            raise UsageError(f"task {task!r}: {parameter.name} is INJECTED, but its annotation has no Depends(...)")
    optional = frozenset(one.name for one in named if one.default is not inspect.Parameter.empty)
    try:
        fields = {one.name: hints.get(one.name, Any) for one in named}
        arguments = Validator(record(f"{task} arguments", fields, optional))
        result = Validator(hints.get("return", Any))
    except TypeError as error:
        raise UsageError(f"task {task!r}: {error}") from None
    return Signature(
        task=task, parameters=whole.replace(parameters=named), needs=needs, arguments=arguments, result=result
    )
