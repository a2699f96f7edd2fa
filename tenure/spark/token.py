"""Where a token lies, and reading it: in the process that uses it, at the last moment.

What Spark pickles, plans or prints names a file or a variable, and nothing more.
"""

import os
from pathlib import Path
from typing import Final

from tenure.core.error import InvalidRequest

TOKEN_VARIABLE: Final = "TENURE_TOKEN"
FILE_VARIABLE: Final = "TENURE_TOKEN_FILE"
FIELDS: Final = ("token_file", "token_variable")  # as the caller knows them


def read_token(
    file: str, variable: str = TOKEN_VARIABLE, fields: tuple[str, str] = FIELDS, is_needed: bool = True
) -> str:
    """From the file that was named, else from the environment; empty when there is none. A variable of the caller's own
    is needed, or the one that all of Tenure knows will do."""
    if not file:
        if given := os.environ.get(variable, "").strip():
            return given
        if variable != TOKEN_VARIABLE:
            if is_needed:
                raise InvalidRequest(fields[1], variable, "it is not set where Spark's tasks run")
            if given := os.environ.get(TOKEN_VARIABLE, "").strip():
                return given
        file = os.environ.get(FILE_VARIABLE, "")
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidRequest(fields[0], file, f"it must be readable where Spark's tasks run: {reason}") from None
