"""Which store an app uses when it is not told: TENURE_URL, a settings file, a file of its own beside the project.

The default is never the current folder by accident: a producer and a worker that are started in different places must
find the same file. It is the folder of pyproject.toml, looked for from the module that makes the app upwards, or that
module's own folder.
"""

import os
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from tenure.core.error import InvalidRequest

DEFAULT_FILE = "tenure.db"


class Address(NamedTuple):
    url: str
    source: str


def find_address(url: str | None, folder: Path | None) -> Address:
    if url:
        return Address(url, "the app")
    if os.environ.get("TENURE_URL"):
        return Address(os.environ["TENURE_URL"], "TENURE_URL")
    if folder is None:
        raise InvalidRequest("url", url, "give the App a URL such as sqlite:////data/jobs.db, or set TENURE_URL")
    for place in (folder, *folder.parents):
        for file, table in (("tenure.toml", ()), ("pyproject.toml", ("tool", "tenure"))):
            found = _read_url(place / file, table)
            if found:
                return Address(found, str(place / file))
        if (place / "pyproject.toml").is_file():
            return Address(f"sqlite:///{place / DEFAULT_FILE}", "beside pyproject.toml")
    return Address(f"sqlite:///{folder / DEFAULT_FILE}", "beside the module of the app")


def _read_url(file: Path, table: tuple[str, ...]) -> str:
    try:
        found = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return ""
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest("url", str(file), f"the file cannot be read: {error}") from None
    for key in table:
        found = found.get(key, {})
    url = found.get("url", "")
    if not isinstance(url, str):
        raise InvalidRequest("url", url, f"in {file} it must be text")
    return url


def folder_of_caller(depth: int) -> Path | None:
    """Where the module is that calls; none in a console."""
    file = sys._getframe(depth).f_globals.get("__file__")
    return None if file is None else Path(file).resolve().parent
