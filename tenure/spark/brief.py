"""Errors as a user of Spark sees them: Spark prints the traceback of its Python process, and what is to be done is in
its last line.

What Tenure says of a wrong option, a row or a server is whole without the frames in which it was found. They are left
out, and told at the level debug. What is not of Tenure is a fault in the code, and keeps them.
"""

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from tenure.core.error import Error

P = ParamSpec("P")
T = TypeVar("T")

log: Final = logging.getLogger("tenure.spark")


def brief(method: Callable[P, T]) -> Callable[P, T]:
    """Of a method that Spark calls: what it raises has one line and one frame."""

    @wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> T:
        try:
            return method(*args, **named)
        except Error as error:
            raise _shortened(error) from None

    return call


def brief_rows(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Of a method whose rows Spark takes one after the other."""

    @wraps(method)
    def rows(*args: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **named)
        except Error as error:
            raise _shortened(error) from None

    return rows


def _shortened(error: Error) -> Error:
    log.debug("raised to Spark: %s", error, exc_info=error)
    line = " ".join(str(error).split())
    if line != str(error):
        error.args = (line,)
    return error.with_traceback(None)
