"""What is recorded, and where."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenure.server.http.openapi import describe
from tests.golden.play import DOORS, play_all, shown

FOLDER: Final = Path(__file__).parent


async def describe_api() -> list[str]:
    """A line for each endpoint and for each schema."""
    found = describe()
    lines = [f"{name}: {shown(part)}" for name, part in found.items() if name not in ("paths", "components")]
    for path, by_method in found["paths"].items():
        lines += [f"{method} {path}: {shown(operation)}" for method, operation in by_method.items()]
    return lines + [
        f"{kind} {name}: {shown(part)}" for kind, parts in found["components"].items() for name, part in parts.items()
    ]


FILES: Final[dict[str, Callable[[], Coroutine[Any, Any, list[str]]]]] = {
    **{f"scenes-{door}.txt": partial(play_all, door) for door in DOORS},
    "openapi.txt": describe_api,
}


def read(name: str) -> list[str]:
    return (FOLDER / name).read_text().splitlines()


def write(name: str, lines: list[str]) -> None:
    (FOLDER / name).write_text("\n".join(lines) + "\n")
