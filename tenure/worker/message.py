"""What a worker and the processes of its handlers say to each other: lengths and MessagePack."""

import asyncio
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from tenure.core.error import InvalidRequest
from tenure.task.task import Task
from tenure.worker.ended import Ended

MAIN = "__tenure_main__"
HEAD = struct.Struct("<I")


class Ask(msgspec.Struct, array_like=True, tag="ask"):
    number: int  # of the exchange: what is said of another one is not heard
    module: str
    file: str  # of a module that was the program
    name: str  # of the task's function in it
    payload: bytes
    codec: str
    version: int
    id: int
    task: str
    queue: str
    tenant: str
    attempt: int
    max_attempts: int | None
    custom_id: str
    tags: list[str]
    metadata: dict[str, str]
    trace: str
    span: str  # the one around it in the worker


class Said(msgspec.Struct, array_like=True, tag="said"):
    number: int
    kind: int
    percent: int
    text: str
    data: bytes


class Finished(msgspec.Struct, array_like=True, tag="finished"):
    number: int
    ended: Ended
    resident_bytes: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Said | Finished).decode
read_ask = msgspec.msgpack.Decoder(Ask).decode


def write_message(write: Callable[[bytes], Any], message: msgspec.Struct) -> None:
    body = _encode(message)
    write(HEAD.pack(len(body)) + body)


async def read_message(reader: asyncio.StreamReader) -> Said | Finished:
    (size,) = HEAD.unpack(await reader.readexactly(HEAD.size))
    message: Said | Finished = _decode(await reader.readexactly(size))
    return message


def place_of(task: Task[..., Any]) -> tuple[str, str, str]:
    """Where another process finds the task: module, file of a program, name."""
    function = task.function
    if "<locals>" in function.__qualname__:
        rule = 'run="process" needs a function at the top of a module: another process has to find it'
        raise InvalidRequest("task", task.name, rule)
    module = sys.modules.get(function.__module__)
    found: Any = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not task and getattr(found, "function", None) is not function:
        rule = f'run="process" needs the task under the name of its function, {function.__qualname__}'
        raise InvalidRequest("task", task.name, rule)
    if function.__module__ != "__main__":
        return function.__module__, "", function.__qualname__
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name:  # python -m package.module
        return spec.name, "", function.__qualname__
    file = getattr(module, "__file__", None)
    if file is None:
        raise InvalidRequest("task", task.name, 'run="process" needs a module with a file')
    return MAIN, os.path.abspath(file), function.__qualname__
