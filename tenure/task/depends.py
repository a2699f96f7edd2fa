"""What a handler needs and its caller does not give: `db: Session = tenure.Depends(session)`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Dependency:
    """A default that stands for what its factory makes, once per job.

    The factory may be a function or a coroutine function, or a generator of one value, whose rest runs when the job is
    over. It may itself have dependencies, and take the job's context.
    """

    def __init__(self, factory: Callable[..., Any]) -> None:
        self.factory = factory


@overload
def Depends(factory: Callable[..., AsyncIterator[T]]) -> T: ...
@overload
def Depends(factory: Callable[..., Awaitable[T]]) -> T: ...
@overload
def Depends(factory: Callable[..., Iterator[T]]) -> T: ...
@overload
def Depends(factory: Callable[..., T]) -> T: ...
def Depends(factory: Callable[..., Any]) -> Any:  # noqa: N802 - it stands where a class would
    """The default of a parameter that the worker provides."""
    return Dependency(factory)
