"""From a function's signature to a schema: what goes into a payload, and how it comes out again.

A payload is an object with a member per argument, by the parameter's name; what was not given is left out, so that
the function's own default applies when it runs. Members that no parameter is named for are ignored by the call and stay
in the payload: a newer producer may send more than an older worker knows.
"""

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from tenure.core.error import InvalidRequest
from tenure.task.context import Context
from tenure.task.depends import Dependency

ITEM = "item"  # the one argument of a job whose handler takes many
NO_NAMES: dict[str, Any] = {}
Arguments = tuple[Sequence[Any], dict[str, Any]]
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signature:
    def __init__(self, function: Callable[..., Any], is_batch: bool = False) -> None:
        """Of a batch handler: that of a function which takes and gives one item of its lists."""
        self.function = function
        found = inspect.signature(function)
        hints = _hints(function)
        parameters = list(found.parameters.values())
        if is_batch:
            parameters = _of_one(function, parameters, hints)
        self.wants_context = bool(parameters) and hints.get(parameters[0].name) is Context
        if self.wants_context:
            parameters = parameters[1:]
        self.dependencies = {each.name: each.default for each in parameters if isinstance(each.default, Dependency)}
        parameters = [each for each in parameters if each.name not in self.dependencies]
        self._asked = found.replace(parameters=parameters)
        self._positional = [each.name for each in parameters if each.kind in POSITIONAL]
        self._only = [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_ONLY]
        self._rest = _named(parameters, inspect.Parameter.VAR_POSITIONAL)
        self._others = _named(parameters, inspect.Parameter.VAR_KEYWORD)
        self._is_plain = not (self._only or self._rest or self._others)
        self._required = {
            each.name
            for each in parameters
            if each.default is inspect.Parameter.empty
            and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        }
        self._is_simple = self._is_plain and self._required == set(self._positional) == {e.name for e in parameters}
        self._known = {each.name for each in parameters}
        self.defaults = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}
        self.arguments = _struct(function, parameters, hints)
        self.names: tuple[str, ...] = self.arguments.__struct_fields__
        self.returns = _result_type(hints.get("return", Any))
        self.is_async = inspect.iscoroutinefunction(function)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name; a call that does not fit the function is a TypeError, as it would be there."""
        if self._is_plain and len(args) <= len(self._positional):
            given = dict(zip(self._positional, args, strict=False))
            if kwargs:
                if given.keys() & kwargs.keys():
                    self._asked.bind(*args, **kwargs)
                given.update(kwargs)
            if self._required <= given.keys() <= self._known:
                return given
        return dict(self._asked.bind(*args, **kwargs).arguments)

    def call_arguments(self, read: msgspec.Struct) -> Arguments:
        """What to call the function with, besides its context and its dependencies."""
        if self._is_simple:
            return astuple(read), NO_NAMES
        args: list[Any] = []
        named: dict[str, Any] = {}
        for name in self.names:
            value = getattr(read, name)
            if value is UNSET:
                continue
            if name == self._rest:
                args = [getattr(read, each) for each in self._positional] + value
                named = {each: given for each, given in named.items() if each not in self._positional}
            elif name == self._others:
                named.update(value)
            elif name in self._only:
                args.append(value)
            else:
                named[name] = value
        return args, named

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the payload."""
        return msgspec.json.schema(self.arguments, schema_hook=_custom_schema)


def _of_one(
    function: Callable[..., Any], parameters: list[inspect.Parameter], hints: dict[str, Any]
) -> list[inspect.Parameter]:
    """The parameters of a batch handler with an item in the place of its list; `hints` are changed with them.

    It works for many jobs, so there is no one job's context to give it.
    """
    takes, gives = hints.get(parameters[0].name if parameters else "", Any), hints.get("return", Any)
    if len(parameters) != 1 or typing.get_origin(takes) is not list:
        where = f"{function.__module__}.{function.__qualname__}"
        raise InvalidRequest("task", where, "a batch handler takes one list and nothing else, such as texts: list[str]")
    (hints[ITEM],) = typing.get_args(takes)
    hints["return"] = typing.get_args(gives)[0] if typing.get_origin(gives) is list else Any
    return [inspect.Parameter(ITEM, inspect.Parameter.POSITIONAL_OR_KEYWORD)]


def _named(parameters: list[inspect.Parameter], kind: Any) -> str:
    return next((each.name for each in parameters if each.kind is kind), "")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        where = f"{function.__module__}.{function.__qualname__}"
        rule = f"its annotations cannot be read ({error}); import that name at run time, not for type checking only"
        raise InvalidRequest("task", where, rule) from None


def _struct(
    function: Callable[..., Any], parameters: list[inspect.Parameter], hints: dict[str, Any]
) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for each in parameters:
        hint: Any = hints.get(each.name, Any)
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            fields.append((each.name, _or_unset(list.__class_getitem__(hint)), UNSET))
        elif each.kind is inspect.Parameter.VAR_KEYWORD:
            fields.append((each.name, _or_unset(dict.__class_getitem__((str, hint))), UNSET))
        elif each.default is inspect.Parameter.empty:
            fields.append((each.name, hint))
        else:
            fields.append((each.name, _or_unset(hint), UNSET))
    try:
        return msgspec.defstruct(f"{function.__name__}_arguments", fields, kw_only=True, module=function.__module__)
    except TypeError as error:
        where = f"{function.__module__}.{function.__qualname__}"
        raise InvalidRequest("task", where, f"its arguments cannot become a schema: {error}") from None


def _or_unset(hint: Any) -> Any:
    return typing.Union[hint, UnsetType]  # noqa: UP007 - made at run time


def _result_type(hint: Any) -> Any:
    """What a result is read as: the annotation without the outcomes, and exceptions of a batch, that are no results."""
    if isinstance(hint, type) and issubclass(hint, BaseException):
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kept = [
            each for each in typing.get_args(hint) if not (isinstance(each, type) and issubclass(each, BaseException))
        ]
        return typing.Union[tuple(kept)] if kept else None  # noqa: UP007 - made at run time
    return hint


def _custom_schema(wanted: type) -> dict[str, Any]:
    of_model = getattr(wanted, "model_json_schema", None)
    return typing.cast("dict[str, Any]", of_model()) if of_model is not None else {"title": wanted.__name__}
