"""A store behind the HTTP API shows every behaviour: all calls are requests to a real port."""

import pytest

from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.conformance import BEHAVIOURS, Behaviour, name_of
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tests.conformance.door import check_behind
from tests.http.store import HttpStore

NO_CONNECTION = "a request has no connection: whoever settles names the token"
CANNOT = {
    "token_may_be_left_out_on_the_claiming_connection": NO_CONNECTION,
    "extension_without_a_token_needs_the_claiming_connection": NO_CONNECTION,
    "reports_may_leave_the_token_out_on_the_claiming_connection": NO_CONNECTION,
    "connection_that_lost_its_lease_must_name_the_token": NO_CONNECTION,
    "what_was_leased_to_a_lost_answer_is_released_at_once": "an answer that is written is the client's, read or not",
    "wrong_field_of_a_record_is_refused_by_name-json": "in JSON any text may be bytes",
}


@pytest.mark.parametrize("form", [MSGPACK_FORMAT, JSON_FORMAT], ids=["msgpack", "json"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, form: Format) -> None:
    def connect(server: Server, token: str) -> HttpStore:
        return HttpStore(lambda: server.http_port, token, form, server.handler.store.capabilities)

    check_behind(behaviour, form, Settings(tcp=False, http_port=0, grpc=False), connect, 12, CANNOT)
