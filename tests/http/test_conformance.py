"""A store behind the HTTP API shows every behaviour: all calls are requests to a real port."""

import pytest

from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.conformance import BEHAVIOURS, Behaviour, name_of
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tests.conformance.door import WITHOUT_CONNECTION, WITHOUT_SCANS, check_behind
from tests.http.store import HttpStore

CANNOT = {
    **WITHOUT_CONNECTION,
    **WITHOUT_SCANS,
    "wrong_field_of_a_record_is_refused_by_name-json": "in JSON any text may be bytes",
}


@pytest.mark.parametrize("form", [MSGPACK_FORMAT, JSON_FORMAT], ids=["msgpack", "json"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, form: Format) -> None:
    def connect(server: Server, token: str) -> HttpStore:
        return HttpStore(lambda: server.http_port, token, form, server.handler.store.capabilities)

    check_behind(behaviour, form, Settings(tcp=False, http_port=0, grpc=False), connect, 12, CANNOT)
