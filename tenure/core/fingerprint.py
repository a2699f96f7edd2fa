"""Which failures are the same failure: the error's type and its message with what varies masked.

Numbers, UUIDs and quoted text are masked, so that "user 17 not found" and "user 18 not found" are one group of dead
letters. 16 hex digits of SHA-256.
"""

import re
from hashlib import sha256
from typing import Final

_MASK: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)*"
)
MESSAGE_CHARS_MAX: Final = 4096


def fingerprint(type: str, message: str) -> str:
    masked = _MASK.sub("?", message[:MESSAGE_CHARS_MAX])
    return sha256(f"{type}\n{masked}".encode("utf-8", "replace")).hexdigest()[:16]
