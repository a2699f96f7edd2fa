"""Text that somebody else wrote, for a terminal or a log: what is not seen is written out as an escape.

Control characters move the cursor, change the title of the window or begin another line; characters that set the
direction of writing, and those of no width, make a text look like another one. All of them become `\\x1b`, `\\u202e`
and the like, as Python and JSON write them. A backslash stays a backslash, so that doing it twice changes nothing.
"""

from typing import Final

SPACES: Final = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """Of several lines."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or is_shown(char) else _escape(char) for char in text)


def printable_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if is_shown(char) else _escape(char) for char in text)


def printable_json(text: str) -> str:
    """JSON that says the same: what is not seen can only be inside of its texts."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or is_shown(char) else _json_escape(char) for char in text)


def is_shown(char: str) -> bool:
    return char.isprintable() or char in SPACES


def _escape(char: str) -> str:
    short = SHORT.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
