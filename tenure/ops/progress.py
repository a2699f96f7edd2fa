"""How far a long operation has come, for whoever shows it."""

from collections.abc import Callable

# What is being done, how much of it has been, and how much there is, in bytes.
Progress = Callable[[str, int, int], None]


def silent(what: str, done_bytes: int, total_bytes: int) -> None:
    """Shows nothing."""
