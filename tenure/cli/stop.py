"""Ctrl-C, for commands that go on until it comes: heard at once where they wait, else when what they do is done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Stop:
    """Else it could come while the screen is being set up, and leave it so, or between an event and its cursor."""

    def __init__(self) -> None:
        self._is_asked = False
        self._may_interrupt = False

    def __enter__(self) -> "Stop":
        self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        """The second one does not wait."""
        is_second, self._is_asked = self._is_asked, True
        if self._may_interrupt or is_second:
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        try:
            self._may_interrupt = True
            if self._is_asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._may_interrupt = False
