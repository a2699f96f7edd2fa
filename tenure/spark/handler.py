"""What a user may give to run on executors, and how it is called: a task of an app, a function of one payload, of a
list of them, of a table of them, or of its columns.

Each form turns leased jobs into what the store is told of them. What goes wrong with one job is that job's alone
wherever it can be told apart; what a handler of many raises is every job's.
"""

import inspect
import typing
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa

from tenure.core.error import CodecNotFound, InvalidRequest, Unsupported
from tenure.spark.columns import Row, arrow_table, check_row, pandas_table, plain, values_of
from tenure.task.bound import Bound
from tenure.task.codec import Codec, Codecs, Decode, Undecodable
from tenure.task.context import Context, enter
from tenure.task.schema import Versions
from tenure.task.signature import ITEM
from tenure.task.task import Settings, Task
from tenure.worker.attempt import Attempt
from tenure.worker.call import call_sync, ended_with, read_call
from tenure.worker.child import Tasks
from tenure.worker.ended import Ended, ended_by, is_outcome
from tenure.worker.message import place_of

ROWS: Final = "rows"
LIST: Final = "list"
PANDAS: Final = "pandas"
SERIES: Final = "series"
ARROW: Final = "arrow"
ARRAYS: Final = "arrays"
FORMS: Final = (ROWS, LIST, PANDAS, SERIES, ARROW, ARRAYS)
# Of a pandas or Arrow UDF: pyspark.util.PythonEvalType of those that take columns and give one.
SCALAR_UDFS: Final = {200: SERIES, 250: ARRAYS}
BY_TYPE: Final = {
    "pandas.core.frame.DataFrame": PANDAS,
    "pandas.core.series.Series": SERIES,
    "pyarrow.lib.Table": ARROW,
    "pyarrow.lib.Array": ARRAYS,
}


class Handler(msgspec.Struct, frozen=True):
    """What goes to the executors. A task is named and looked up there: an app holds what cannot be sent."""

    form: str = ""
    function: Callable[..., Any] | None = None
    place: tuple[str, str, str] | None = None  # of a task
    tasks: tuple[str, ...] = ()  # that a task answers to
    schema: pa.Schema | None = None  # of tables
    codecs: tuple[Codec, ...] = ()


class Calls(Protocol):
    """A handler, ready to be called."""

    is_single: bool  # one job at a time

    def task_of(self, name: str) -> Task[..., Any]:
        """What stands for the jobs of that name."""

    def run(self, attempts: list[Attempt]) -> list[Ended]:
        """How each ended; one at a time if it is single."""


def read_handler(given: Any, form: str = "", schema: pa.Schema | None = None, codecs: Sequence[Codec] = ()) -> Handler:
    """What the user gave, checked where it was given."""
    if form and form not in FORMS:
        raise InvalidRequest("form", form, "it must be one of " + ", ".join(FORMS))
    if isinstance(given, Task):
        if form or codecs or schema is not None:
            raise InvalidRequest(
                "handler", given.name, "a task has a form, a schema and codecs of its own; leave them out"
            )
        return Handler(place=_place_of(given), tasks=(given.name, *given.settings.aliases))
    if hasattr(given, "evalType") and hasattr(given, "func"):
        if given.evalType not in SCALAR_UDFS:
            rule = "of the UDFs of Spark those that take columns and give one are accepted; give the plain function"
            raise InvalidRequest("handler", given.func, rule)
        given, form = given.func, form or SCALAR_UDFS[given.evalType]
    if not callable(given):
        raise InvalidRequest("handler", given, "it must be a function, a pandas UDF or a task")
    form = form or form_of(given)
    if schema is not None and form in (ROWS, LIST):
        raise InvalidRequest("schema", schema, f"it is for handlers of tables; with form {form!r} leave it out")
    return Handler(form, given, schema=schema, codecs=tuple(codecs))


def _place_of(task: Task[..., Any]) -> tuple[str, str, str]:
    try:
        return place_of(task)
    except InvalidRequest:
        rule = (
            "executors have to find it: define it at the top of a module that they can import, by its function's name"
        )
        raise InvalidRequest("handler", task.name, rule) from None


def form_of(function: Callable[..., Any]) -> str:
    """By the annotation of its first parameter; without one it takes one payload."""
    called = _called(function)
    try:
        hints = typing.get_type_hints(called)
    except (NameError, TypeError) as error:
        rule = f"its annotations cannot be read ({error}); say form= as one of {', '.join(FORMS)}"
        raise InvalidRequest("handler", function, rule) from None
    names = list(inspect.signature(function).parameters)
    hint = hints.get(names[0]) if names else None
    if (typing.get_origin(hint) or hint) is list:
        return LIST
    if isinstance(hint, type):
        return BY_TYPE.get(f"{hint.__module__}.{hint.__qualname__}", ROWS)
    return ROWS


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def open_handler(handler: Handler, run_async: Callable[..., Any]) -> Calls:
    """In the process that calls it."""
    if handler.place is not None:
        task = Tasks().find(*handler.place)
        return TaskBatch(task, run_async) if task.settings.batch else TaskRows(task, run_async)
    assert handler.function is not None
    bare = Bare(handler)
    if handler.form == ROWS:
        return Rows(bare, handler.function, run_async)
    if handler.form == LIST:
        return Lists(bare, handler.function, run_async)
    return Tables(bare, handler, run_async)


class Nobody:
    """Who would store the jobs of a task that has no app."""

    def __init__(self, codecs: Codecs) -> None:
        self.codecs = codecs

    async def send(self, call: Bound[Any]) -> Any:
        return self.send_sync(call)

    def send_sync(self, call: Bound[Any]) -> Any:
        raise Unsupported(f"enqueueing {call.options.task} through a handler that is no task")


class Bare:
    """Stands for the tasks of jobs whose handler is none: reads their payloads as plain values, writes results by their
    codecs."""

    def __init__(self, handler: Handler) -> None:
        codecs = Codecs()
        for codec in handler.codecs:
            codecs.add(codec)
        self._sender = Nobody(codecs)
        self._tasks: dict[str, Task[..., Any]] = {}
        self._decoders: dict[str, Decode] = {}

    def task_of(self, name: str) -> Task[..., Any]:
        found = self._tasks.get(name)
        if found is None:
            found = self._tasks[name] = Task(self._sender, _not_called, name, {}, Settings(), Versions())
        return found

    def read(self, attempt: Attempt) -> Any:
        """Raises `Undecodable`."""
        codec = attempt.options.codec
        decode = self._decoders.get(codec)
        if decode is None:
            try:
                decode = self._decoders[codec] = self._sender.codecs.get(codec).decoder(Any)
            except CodecNotFound as error:
                raise Undecodable(f"{error}; give it as codecs=") from error
        return decode(attempt.payload)


def _not_called() -> None:
    raise AssertionError


class Rows:
    """`handler(payload)`, or `handler(context, payload)` where the first parameter is annotated with `Context`."""

    is_single = True

    def __init__(self, bare: Bare, function: Callable[..., Any], run_async: Callable[..., Any]) -> None:
        self.task_of = bare.task_of
        self._read = bare.read
        self._function = function
        self._run_async = run_async
        names = list(inspect.signature(function).parameters)
        hints = getattr(_called(function), "__annotations__", {})
        wanted = hints.get(names[0]) if names else None
        self._wants_context = wanted in (Context, "Context", "tenure.Context")

    def run(self, attempts: list[Attempt]) -> list[Ended]:
        return [copy_context().run(self._ended, attempt) for attempt in attempts]

    def _ended(self, attempt: Attempt) -> Ended:
        enter(attempt)
        try:
            payload = self._read(attempt)
            value = self._function(attempt.context, payload) if self._wants_context else self._function(payload)
            if inspect.iscoroutine(value):
                value = self._run_async(value)
        except BaseException as error:  # a handler that exits or raises anything ends its attempt, never the task
            return ended_by(error, attempt.task.settings)
        return ended_with(attempt.task, plain(value), attempt.options.codec)


class TaskRows:
    """A task of an app, called as a worker calls it: arguments by its signature, context and dependencies."""

    is_single = True

    def __init__(self, task: Task[..., Any], run_async: Callable[..., Any]) -> None:
        self._task = task
        self._run_async = run_async

    def task_of(self, _name: str) -> Task[..., Any]:
        return self._task

    def run(self, attempts: list[Attempt]) -> list[Ended]:
        return [copy_context().run(self._ended, attempt) for attempt in attempts]

    def _ended(self, attempt: Attempt) -> Ended:
        enter(attempt)
        task, options = attempt.task, attempt.options
        try:
            args, named = read_call(task, attempt.payload, options.codec, options.schema_version)
            value = call_sync(task, attempt, args, named, self._run_async)
        except BaseException as error:
            return ended_by(error, task.settings)
        return ended_with(task, value, options.codec)


class Together:
    """What the forms of many jobs share: those that can be read go into one call, the others fail by themselves."""

    is_single = False

    def __init__(self, run_async: Callable[..., Any]) -> None:
        self._run_async = run_async

    def _read(self, attempt: Attempt) -> Any:
        raise NotImplementedError

    def _call(self, ids: list[int], items: list[Any]) -> list[Any]:
        """A value, an outcome or an exception per item."""
        raise NotImplementedError

    def run(self, attempts: list[Attempt]) -> list[Ended]:
        ended: dict[int, Ended] = {}
        items: list[Any] = []
        good: list[Attempt] = []
        for attempt in attempts:
            try:
                items.append(self._read(attempt))
                good.append(attempt)
            except Undecodable as error:
                ended[attempt.id] = ended_by(error, attempt.task.settings)
        if good:
            for attempt, value in zip(good, self._called([each.id for each in good], items), strict=True):
                ended[attempt.id] = self._ended(attempt, value)
        return [ended[attempt.id] for attempt in attempts]

    def _called(self, ids: list[int], items: list[Any]) -> list[Any]:
        try:
            return self._call(ids, items)
        except BaseException as error:
            return [error] * len(items)

    def _ended(self, attempt: Attempt, value: Any) -> Ended:
        if isinstance(value, BaseException) or is_outcome(value):
            return ended_by(value, attempt.task.settings)
        return ended_with(attempt.task, value, attempt.options.codec)

    def _awaited(self, value: Any) -> Any:
        return self._run_async(value) if inspect.iscoroutine(value) else value


class Lists(Together):
    """`handler(payloads)` gives a list of as many, in which an exception fails its job alone."""

    def __init__(self, bare: Bare, function: Callable[..., Any], run_async: Callable[..., Any]) -> None:
        super().__init__(run_async)
        self.task_of = bare.task_of
        self._bare = bare
        self._function = function

    def _read(self, attempt: Attempt) -> Any:
        return self._bare.read(attempt)

    def _call(self, ids: list[int], items: list[Any]) -> list[Any]:
        return [plain(value) for value in values_of(self._awaited(self._function(items)), ids)]


class TaskBatch(Together):
    """A task made with `@app.batch`."""

    def __init__(self, task: Task[..., Any], run_async: Callable[..., Any]) -> None:
        super().__init__(run_async)
        self._task = task

    def task_of(self, _name: str) -> Task[..., Any]:
        return self._task

    def _read(self, attempt: Attempt) -> Any:
        options = attempt.options
        return getattr(self._task.read(attempt.payload, options.codec, options.schema_version), ITEM)

    def _call(self, ids: list[int], items: list[Any]) -> list[Any]:
        return values_of(self._awaited(self._task.function(items)), ids)


class Tables(Together):
    """A handler of a pandas or Arrow table, or of the columns that its parameters name."""

    def __init__(self, bare: Bare, handler: Handler, run_async: Callable[..., Any]) -> None:
        super().__init__(run_async)
        assert handler.function is not None
        self.task_of = bare.task_of
        self._bare = bare
        self._function = handler.function
        self._form = handler.form
        self._schema = handler.schema
        self._names: list[str] = []
        if handler.form in (SERIES, ARRAYS):
            self._names = list(inspect.signature(handler.function).parameters)

    def _read(self, attempt: Attempt) -> Row:
        return check_row(self._bare.read(attempt), self._names, self._schema)

    def _call(self, ids: list[int], items: list[Any]) -> list[Any]:
        make: Callable[..., Any] = pandas_table if self._form in (PANDAS, SERIES) else arrow_table
        table = make(ids, items, self._schema)
        if self._form == SERIES:
            made = self._function(*(table[name] for name in self._names))
        elif self._form == ARRAYS:
            made = self._function(*(table.column(name).combine_chunks() for name in self._names))
        else:
            made = self._function(table)
        return values_of(made, ids)
