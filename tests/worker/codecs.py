"""An app with codecs of its own, at the top of a module, where another process finds them."""

import os
from typing import Any

import tenure

SECRET = "confidential"

app = tenure.App("memory://")
app.codecs.add(tenure.PickleCodec(b"k" * 32))
app.codecs.add(tenure.SealedCodec(keys={"2026-10": bytes(32), "2026-11": bytes(range(32))}, current="2026-11"))


async def tell(ctx: tenure.Context, word: Any) -> Any:
    ctx.emit([word, 1])
    ctx.emit([word, 2])
    return [word, word]


def tell_in_thread(ctx: tenure.Context, word: Any) -> Any:
    ctx.emit([word, 1])
    ctx.emit([word, 2])
    return [word, word]


def _task(function: Any, codec: str, run: str = "") -> "tenure.Task[..., Any]":
    options = {"name": f"{codec}_{run or function.__name__}", "codec": codec}
    return app.add_task(function, options | ({"run": run} if run else {}))


IN_A_LOOP = {codec: _task(tell, codec) for codec in ("sealed", "pickle", "msgpack")}
IN_A_THREAD = {codec: _task(tell_in_thread, codec) for codec in ("sealed", "pickle", "msgpack")}


@app.task(codec="sealed", run="process")
def sealed_in_process(ctx: tenure.Context, word: Any) -> Any:
    ctx.emit([word, 1])
    ctx.emit([word, 2])
    return [word, word]


@app.task(codec="pickle", run="process")
def pickle_in_process(ctx: tenure.Context, word: Any) -> Any:
    ctx.emit([word, 1])
    ctx.emit([word, 2])
    return [word, word]


@app.task(codec="msgpack", run="process")
def msgpack_in_process(ctx: tenure.Context, word: Any) -> Any:
    ctx.emit([word, 1])
    ctx.emit([word, 2])
    return [word, word]


IN_A_PROCESS = {"sealed": sealed_in_process, "pickle": pickle_in_process, "msgpack": msgpack_in_process}
MODES = {"async": IN_A_LOOP, "thread": IN_A_THREAD, "process": IN_A_PROCESS}


read_here: list[int] = []


class Noted:
    """Notes the process that reads it."""

    def __reduce__(self) -> Any:
        return note, ()


def note() -> int:
    read_here.append(os.getpid())
    return os.getpid()


@app.task(codec="pickle", run="process")
def who_read_it(process: Any) -> list[int]:
    return [process, os.getpid()]


@app.task(codec="sealed", run="process", schema_version=2)
def upgraded(to: str, subject: str) -> list[str]:
    return [to, subject]


@upgraded.upcast(from_version=1)
def from_title(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "subject": fields.pop("title")}


@app.batch(10, codec="sealed")
def together(words: list[str]) -> list[str]:
    return [word.upper() for word in words]
