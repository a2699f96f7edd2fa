"""Where the server is, for workers in Spark's tasks, and the token, which is read where it is used.

What is in here is pickled into plans, so it names the place of a token and never holds one.
"""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from tenure.client.remote import REMOTE
from tenure.core import bound
from tenure.core.error import InvalidRequest
from tenure.core.tenant import DEFAULT_TENANT
from tenure.spark.token import TOKEN_VARIABLE

EXAMPLE: Final = "tenure://127.0.0.1:6789"


class Address(msgspec.Struct, frozen=True):
    url: str
    tenant: str = DEFAULT_TENANT
    token_file: str = ""
    token_variable: str = TOKEN_VARIABLE


def check_address(address: Address) -> None:
    """Said where it was written, not by a task that failed four times."""
    parts = urlsplit(address.url)
    if parts.scheme not in REMOTE:
        rule = f"tasks of Spark are processes of their own: it must name a server, as in {EXAMPLE}"
        raise InvalidRequest("url", f"{parts.scheme}://", rule)
    if parts.username is not None or parts.password is not None:
        rule = f"it has no token; put that in a file and name the file as token_file, or in {TOKEN_VARIABLE}"
        raise InvalidRequest("url", "it", rule)
    bound.tenant_name("tenant", address.tenant)
