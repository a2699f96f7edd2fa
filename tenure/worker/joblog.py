"""What a handler tells `logging` goes to its job's log, too."""

import logging

from tenure.task.context import find_current


class JobLog(logging.Handler):
    def __init__(self, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("tenure."):
            return
        context = find_current()
        if context is not None:
            try:
                context.log(self.format(record))
            except Exception:
                self.handleError(record)


class Tap:
    """The one `JobLog` of a process, there while somebody works: two would write every line twice."""

    def __init__(self) -> None:
        self._handler = JobLog()
        self._users = 0

    def install(self) -> None:
        self._users += 1
        if self._users == 1:
            logging.getLogger().addHandler(self._handler)

    def remove(self) -> None:
        self._users -= 1
        if not self._users:
            logging.getLogger().removeHandler(self._handler)


TAP = Tap()
