"""What was enqueued, as a test asks for it, and as it is shown when it was not."""

import inspect
from typing import Any

import msgspec
from msgspec import UNSET

from tenure.core.answer import Answers
from tenure.core.error import CodecNotFound
from tenure.core.job import Extras, Options
from tenure.core.request import Batch
from tenure.task.codec import Codecs, Undecodable
from tenure.task.registry import Registry
from tenure.task.task import Task

SHOWN_MAX = 20
ARGUMENT_TEXT_MAX = 80


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was stored. Its arguments are what its worker reads: they went through the codec."""

    task: str
    arguments: dict[str, Any]
    queue: str
    tenant: str
    options: Options
    extras: Extras | None = None
    id: int = 0  # 0: a follow-up

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_shortened(value)}" for name, value in self.arguments.items())
        tenant = "" if self.tenant == "default" else f", tenant {self.tenant}"
        return f"{self.task}({shown}), queue {self.queue}{tenant}"


class Reading:
    """Of payloads, as the workers of an app would."""

    def __init__(self, registry: Registry, codecs: Codecs) -> None:
        self._registry = registry
        self._codecs = codecs

    def sent(self, batch: Batch, tenant: str, answers: Answers | None = None) -> list[Sent]:
        """Those of a request that became jobs of their own; without answers, all of them."""
        found: list[Sent] = []
        for at, payload in enumerate(batch.payloads):
            options = batch.options if batch.each is None else batch.each[at]
            extras = batch.extra(at)
            outcome = None if answers is None else answers.item(at)
            if outcome is not None and (outcome.error is not None or outcome.duplicate):
                continue
            found.append(
                Sent(
                    task=options.task,
                    arguments=self._arguments(options, payload),
                    queue=options.queue,
                    tenant=tenant,
                    options=options,
                    extras=extras,
                    id=0 if outcome is None else outcome.id,
                )
            )
        return found

    def _arguments(self, options: Options, payload: object) -> dict[str, Any]:
        """By name; of a payload that no worker of the app could read, the payload."""
        if not isinstance(payload, bytes):
            return {}
        try:
            return self._read(options, payload)
        except (Undecodable, CodecNotFound):
            return {"payload": payload}

    def _read(self, options: Options, payload: bytes) -> dict[str, Any]:
        task = self._registry.find(options.task)
        if task is None:
            found: dict[str, Any] = self._codecs.get(options.codec).decoder(dict[str, Any])(payload)
            return found
        fields = msgspec.structs.asdict(task.read(payload, options.codec, options.schema_version))
        return {name: value for name, value in fields.items() if value is not UNSET}


def matches(sent: Sent, task: Task[..., Any], arguments: dict[str, Any]) -> bool:
    """Whether it is of the task and has at least these arguments; one that was not given has its default."""
    if sent.task not in (task.name, *task.settings.aliases):
        return False
    parameters = inspect.signature(task.function).parameters
    for name, value in arguments.items():
        if name in sent.arguments:
            given = sent.arguments[name]
        elif name in parameters:
            given = parameters[name].default
        else:
            return False
        if given != value:
            return False
    return True


def show_call(task: Task[..., Any], arguments: dict[str, Any]) -> str:
    return f"{task.name}({', '.join(f'{name}={_shortened(value)}' for name, value in arguments.items())})"


def show_all(sent: list[Sent], first: str) -> str:
    """What was enqueued, that of the task which was asked for on top."""
    if not sent:
        return "Nothing was enqueued."
    ordered = sorted(sent, key=lambda each: each.task != first)
    lines = [f"  {each}" for each in ordered[:SHOWN_MAX]]
    if len(ordered) > SHOWN_MAX:
        lines.append(f"  and {len(ordered) - SHOWN_MAX} more")
    return "Enqueued were:\n" + "\n".join(lines)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= ARGUMENT_TEXT_MAX else text[: ARGUMENT_TEXT_MAX - 1] + "…"
