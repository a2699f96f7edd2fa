"""What workers publish of their tasks, for those who enqueue by name: options as people write them, and the schema.

A worker says it once when it registers, as JSON: {"send_email": {"options": {"queue": "email", "timeout": "30000ms"},
"schema": {...}}}. What differs from the defaults is said, and always the queue and the codec.
"""

from typing import Any

import msgspec

from tenure.core import bound
from tenure.core.job import DEFAULT_OPTIONS, Options
from tenure.core.retry import Backoff
from tenure.wire.option import CHOICES

ALWAYS = ("queue", "codec")
NEVER = ("task",)


class Published(msgspec.Struct):
    options: dict[str, Any]
    schema: dict[str, Any] = {}


def options_as_written(options: Options) -> dict[str, Any]:
    """As a caller would give them."""
    found: dict[str, Any] = {}
    for name in bound.OPTION_RULES:
        value = getattr(options, name)
        if name in NEVER or (name not in ALWAYS and value == getattr(DEFAULT_OPTIONS, name)):
            continue
        if name in CHOICES:
            found[name] = CHOICES[name][value]
        elif name == "max_attempts":
            found[name] = value or None
        elif name == "backoff":
            found[name] = value.key()
        elif name.endswith("_ms"):
            found[name.removesuffix("_ms")] = f"{value}ms"
        else:
            found[name] = value
    return found


def options_as_given(written: dict[str, Any]) -> dict[str, Any]:
    found = dict(written)
    if "backoff" in found:
        kind, base_ms, factor, cap_ms, delays_ms = found["backoff"]
        found["backoff"] = Backoff(kind, base_ms, factor, cap_ms, tuple(delays_ms))
    if "limit_keys" in found:
        found["limit_keys"] = tuple(found["limit_keys"])
    return found


def publish(tasks: dict[str, Published]) -> str:
    """Without the schemas, or not at all, where it would be too much for the store."""
    for shown in (tasks, {name: Published(task.options) for name, task in tasks.items()}):
        text = msgspec.json.encode(shown)
        if len(text) <= bound.PUBLISHED_BYTES_MAX:
            return text.decode()
    return ""


def find_published(settings: dict[str, Any], task: str) -> Published | None:
    """What is said of the task in the first text that can be read."""
    for text in settings["published"]:
        try:
            found = msgspec.json.decode(text, type=dict[str, Published])
        except msgspec.DecodeError:
            continue  # a worker of another make
        if task in found:
            return found[task]
    return None
