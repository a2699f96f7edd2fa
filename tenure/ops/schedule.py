"""Doing a thing again and again, at fixed times from the first, until it is told to stop."""

from collections.abc import Callable

from tenure.core.clock import Now
from tenure.core.error import InvalidRequest
from tenure.ops.error import Stopped

EVERY_MS_MIN = 1_000
EVERY_MS_MAX = 366 * 86_400_000


def repeat(
    act: Callable[[], None],
    every_ms: int,
    clock: Callable[[], Now],
    wait: Callable[[int], bool],
    report: Callable[[Exception], None],
) -> bool:
    """Until `wait`, given milliseconds, says that it is time to stop; answers whether the last one went well.

    One that fails is reported and the next goes on. Times that pass while one is at work are left out.
    """
    if not EVERY_MS_MIN <= every_ms <= EVERY_MS_MAX:
        raise InvalidRequest("every", f"{every_ms}ms", "it must be from 1s to 366d")
    began_ms = clock().elapsed_ms
    while True:
        is_good = True
        try:
            act()
        except Stopped:
            return True
        except Exception as error:
            is_good = False
            report(error)
        passed_ms = clock().elapsed_ms - began_ms
        if wait(every_ms - passed_ms % every_ms):
            return is_good
