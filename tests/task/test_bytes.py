"""Bytes are not text: given for something else they are refused when they are enqueued, not changed on the way."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import msgspec
import pytest

import tenure
from tenure.core.error import InvalidRequest


@dataclasses.dataclass
class Letter:
    to: str
    body: Any = None


class Parcel(msgspec.Struct):
    to: str
    content: bytes = b""


def of_text(value: str) -> None: ...
def of_maybe(value: str | None) -> None: ...
def of_annotated(value: Annotated[str, msgspec.Meta(max_length=100)]) -> None: ...
def of_list(value: list[str]) -> None: ...
def of_tuple(value: tuple[str, ...]) -> None: ...
def of_set(value: set[str]) -> None: ...
def of_map(value: dict[str, str]) -> None: ...
def of_deep(value: list[dict[str, list[str]]]) -> None: ...
def of_letter(value: Letter) -> None: ...
def of_letters(value: list[Letter]) -> None: ...
def of_parcel(value: Parcel) -> None: ...
def of_anything(value: Any) -> None: ...
def of_nothing_said(value) -> None: ...  # type: ignore[no-untyped-def]
def of_rest(*value: str) -> None: ...
def of_bytes(value: bytes) -> None: ...
def of_either(value: bytes | None) -> None: ...
def of_bytes_list(value: list[bytes]) -> None: ...
def of_bytes_map(value: dict[str, bytes]) -> None: ...


def task_of(function: Callable[..., Any], **options: Any) -> tenure.Task[..., Any]:
    return tenure.App("memory://").add_task(function, options)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("function", "value"),
    [
        (of_text, b"abc"),
        (of_text, bytearray(b"abc")),
        (of_text, memoryview(b"abc")),
        (of_maybe, b"abc"),
        (of_annotated, b"abc"),
        (of_list, ["a", b"abc"]),
        (of_tuple, (b"abc",)),
        (of_set, {b"abc"}),
        (of_map, {"a": b"abc"}),
        (of_deep, [{"a": ["x", b"abc"]}]),
        (of_letter, Letter(b"abc")),  # type: ignore[arg-type]
        (of_letters, [Letter("a"), Letter(b"abc")]),  # type: ignore[arg-type]
        (of_parcel, Parcel(b"abc", b"abc")),  # type: ignore[arg-type]
        (of_rest, b"abc"),
    ],
)
def test_bytes_for_text_are_refused_at_enqueue(function: Callable[..., Any], value: Any, codec: str) -> None:
    with pytest.raises(InvalidRequest) as said:
        task_of(function, codec=codec).bind(value)
    assert said.value.field == f"{function.__name__} arguments"
    assert "bytes" in said.value.rule


@pytest.mark.parametrize(
    ("function", "value"),
    [(of_anything, b"abc"), (of_nothing_said, [b"abc"]), (of_letter, Letter("a", {"k": b"abc"}))],
)
def test_bytes_that_would_arrive_as_text_are_refused_where_no_type_says_bytes(
    function: Callable[..., Any], value: Any
) -> None:
    with pytest.raises(InvalidRequest, match="msgpack"):
        task_of(function).bind(value)
    assert task_of(function, codec="msgpack").bind(value).payload


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("function", "value"),
    [
        (of_bytes, b""),
        (of_bytes, b"\x00\xff"),
        (of_either, b"abc"),
        (of_either, None),
        (of_bytes_list, [b"abc", b"abc", b""]),
        (of_bytes_map, {"a": b"abc"}),
        (of_parcel, Parcel("a", b"abc")),
        (of_text, "abc"),
        (of_list, ["a"] * 100),
    ],
)
def test_bytes_where_bytes_are_asked_for_arrive(function: Callable[..., Any], value: Any, codec: str) -> None:
    task = task_of(function, codec=codec)
    read = task.read(task.bind(value).payload, codec, 0)
    assert read.value == value  # type: ignore[attr-defined]


async def test_a_task_by_name_whose_types_are_not_known_here_takes_them() -> None:
    """Its worker has the types: what JSON writes for bytes is read as bytes there."""
    app = tenure.App("memory://")
    async with asyncio.timeout(10), app:
        assert (await app.enqueue("elsewhere", {"value": b"abc"})).id


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def batch_generator(items: list[int]) -> Iterator[int]:
    yield from items


@pytest.mark.parametrize("function", [generator, async_generator])
def test_a_generator_function_is_refused_as_a_task_when_it_is_decorated(function: Callable[..., Any]) -> None:
    app = tenure.App("memory://")
    with pytest.raises(InvalidRequest, match=r"ctx\.emit"):
        app.task(function)
    with pytest.raises(InvalidRequest, match=r"ctx\.emit"):
        app.task(queue="x")(function)
    assert app.registry.find(function.__name__) is None


def test_a_generator_function_is_refused_as_a_batch_handler() -> None:
    with pytest.raises(InvalidRequest, match="return"):
        tenure.App("memory://").batch(size=10)(batch_generator)  # type: ignore[arg-type]
