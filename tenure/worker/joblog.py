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

    def install(self) -> None:
        logging.getLogger().addHandler(self)

    def remove(self) -> None:
        logging.getLogger().removeHandler(self)
