"""Payloads as they are typed: JSON as an argument, or on standard input."""

import sys
from typing import Final

import msgspec

from tenure.core.error import InvalidRequest

STDIN: Final = "-"


def read_payload(text: str | None) -> bytes | None:
    """The bytes, once it is sure that they are JSON; `-` reads standard input."""
    if text is None:
        return None
    if text == STDIN:
        return check_json(sys.stdin.buffer.read().strip(), "standard input")
    return check_json(text.encode("utf-8", "surrogateescape"), text)


def check_json(content: bytes, shown: str) -> bytes:
    try:
        content.decode()
        msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        rule = f"it must be JSON ({error}); a text needs quotes of its own, as in '\"text\"'"
        raise InvalidRequest("payload", shown, rule) from error
    return content
