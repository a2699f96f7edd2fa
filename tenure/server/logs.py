"""The log: lines for people, or JSON, one object a line, for machines.

A record is one line, whatever stands in it: others write names and errors, and could else write lines that look like
the server's. Characters that are not seen are written as escapes. Only an exception has more lines, all of them
indented, which none of a record is.

A record may bring `fields` of its own: `log.info("...", extra={"fields": {...}})`.
"""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from tenure.core.printable import printable_json, printable_line

FORMATS = ("text", "json")
TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
INDENT = "  "


class TextLines(logging.Formatter):
    def __init__(self, text: str = TEXT) -> None:
        super().__init__(text)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of logging
        return printable_line(super().formatMessage(record))

    def formatException(self, ei: "logging._SysExcInfoType") -> str:  # noqa: N802
        return indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return indented(super().formatStack(stack_info))


def indented(text: str) -> str:
    return "\n".join(f"{INDENT}{printable_line(line)}" for line in text.split("\n"))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields.update(getattr(record, "fields", {}))
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return printable_json(msgspec.json.encode(fields, enc_hook=repr).decode())


def set_up(level: str, format: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
