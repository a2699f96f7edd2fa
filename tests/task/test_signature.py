"""From a function's signature to a payload, and from a payload to a call."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

import tenure
from tenure.core.error import InvalidRequest
from tenure.task.signature import Signature
from tenure.task.task import Task


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Size(msgspec.Struct):
    width: int


class Customer(BaseModel):
    name: str
    age: int = 0


def task_of(function: Any, **options: Any) -> Task[..., Any]:
    return tenure.App("memory://").add_task(function, options)


def called(task: Task[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function gets after its arguments went through bytes."""
    call = task.make(args, kwargs)
    read = task.read(call.payload, call.options.codec, call.options.schema_version)
    given, named = task.signature.call_arguments(read)
    return task.function(*given, **named)


def everything(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return (args, kwargs)


def test_plain_arguments_come_out_as_they_went_in() -> None:
    def function(a: int, b: str = "x", *, c: float = 1.5) -> tuple[int, str, float]:
        return a, b, c

    task = task_of(function)
    assert called(task, 1) == (1, "x", 1.5)
    assert called(task, 1, "y", c=2) == (1, "y", 2.0)
    assert called(task, b="z", a=3) == (3, "z", 1.5)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_rich_types_come_out_as_they_went_in(codec: str) -> None:
    def function(
        when: datetime,
        id: UUID,
        data: bytes,
        colour: Colour,
        point: Point,
        size: Size,
        customer: Customer,
        path: Path,
        many: list[Customer],
        table: dict[str, Point],
    ) -> tuple[Any, ...]:
        return when, id, data, colour, point, size, customer, path, many, table

    given = (
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        UUID(int=7),
        b"\x00\xff",
        Colour.RED,
        Point(1, 2),
        Size(3),
        Customer(name="Ada", age=36),
        Path("/tmp/x"),
        [Customer(name="Bob")],
        {"a": Point(4)},
    )
    assert called(task_of(function, codec=codec), *given) == given


def test_variadic_arguments_are_kept_by_their_names() -> None:
    def function(first: int, *rest: int, flag: bool = False, **others: str) -> tuple[Any, ...]:
        return first, rest, flag, others

    task = task_of(function)
    assert called(task, 1) == (1, (), False, {})
    assert called(task, 1, 2, 3, flag=True, a="b") == (1, (2, 3), True, {"a": "b"})


def test_positional_only_arguments_are_given_by_position() -> None:
    def function(a: int, b: int = 2, /, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    task = task_of(function)
    assert called(task, 1) == (1, 2, 3)
    assert called(task, 1, 5, c=6) == (1, 5, 6)


def test_default_is_the_functions_own_when_it_runs() -> None:
    def function(a: int = 1) -> int:
        return a

    assert task_of(function).make((), {}).payload == b"{}"


def test_context_and_dependencies_are_no_arguments() -> None:
    def session() -> str:
        return "session"

    def function(ctx: tenure.Context, a: int, db: str = tenure.Depends(session)) -> None: ...

    signature = Signature(function)
    assert signature.wants_context
    assert list(signature.dependencies) == ["db"]
    assert signature.names == ("a",)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"a": 2}), ((1,), {"unknown": 2}), ((), {"b": 2})]
)
def test_call_that_does_not_fit_is_a_type_error(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def function(a: int, b: int = 0) -> None: ...

    with pytest.raises(TypeError):
        task_of(function).make(args, kwargs)


@pytest.mark.parametrize("wrong", ["text", None, 1.5, [1]])
def test_argument_of_another_type_is_refused_when_it_is_enqueued(wrong: Any) -> None:
    def function(a: int) -> None: ...

    with pytest.raises(InvalidRequest, match="Expected `int`"):
        task_of(function).make((wrong,), {})


def test_model_that_does_not_validate_is_refused() -> None:
    def function(customer: Customer) -> None: ...

    with pytest.raises(InvalidRequest):
        task_of(function).make(({"name": 5},), {})


def test_value_that_cannot_be_written_is_refused() -> None:
    def function(value: Any) -> None: ...

    with pytest.raises(InvalidRequest, match="cannot be written"):
        task_of(function).make((object(),), {})


def test_member_that_nobody_knows_stays_in_the_payload_and_out_of_the_call() -> None:
    def function(a: int) -> int:
        return a

    task = task_of(function)
    read = task.read(b'{"a": 1, "newer": true}', "json", 0)
    assert task.signature.call_arguments(read) == ((1,), {})


def test_annotation_that_cannot_be_read_names_the_fix() -> None:
    def function(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidRequest, match="import that name at run time"):
        task_of(function).make((1,), {})


def test_batch_handler_is_enqueued_item_by_item() -> None:
    app = tenure.App("memory://")

    @app.batch(10)
    async def embed(texts: list[str]) -> list[float]:
        return [0.0 for _ in texts]

    assert embed.make(("one",), {}).payload == b'{"item":"one"}'
    assert embed.signature.returns is float


def test_batch_handler_that_takes_anything_but_a_list_is_refused() -> None:
    def text(text: str) -> str:
        return text

    def context(ctx: tenure.Context, texts: list[str]) -> list[str]:
        return texts

    def more(texts: list[str], other: int = 1) -> list[str]:
        return texts

    for function in (text, context, more):
        with pytest.raises(InvalidRequest, match="takes one list and nothing else"):
            task_of(function, batch=10).make(("one",), {})


def test_schema_of_the_payload_is_json_schema() -> None:
    def function(a: int, customer: Customer, b: str = "") -> None: ...

    schema = task_of(function).signature.schema()
    definition = schema["$defs"]["function_arguments"]
    assert definition["required"] == ["a", "customer"]
    assert set(definition["properties"]) == {"a", "b", "customer"}


def test_outcomes_are_no_part_of_the_result() -> None:
    def function() -> str | tenure.Snooze:
        return "text"

    assert Signature(function).returns is str


def test_exceptions_in_the_list_of_a_batch_are_no_part_of_the_result() -> None:
    def function(texts: list[str]) -> list[list[float] | Exception]:
        return [[1.0] if text else ValueError("empty") for text in texts]

    assert Signature(function, is_batch=True).returns == list[float]
