"""A store behind gRPC shows every behaviour: all calls go to a real port."""

import pytest

from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.conformance import BEHAVIOURS, Behaviour, name_of
from tenure.wire.format import MSGPACK_FORMAT
from tests.conformance.door import WITHOUT_CONNECTION, WITHOUT_SCANS, check_behind
from tests.grpc.store import GrpcStore

CANNOT = {
    **WITHOUT_CONNECTION,
    **WITHOUT_SCANS,
    "wrong_field_of_a_record_is_refused_by_name": "fields have types: a value of another one cannot be said",
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour) -> None:
    def connect(server: Server, token: str) -> GrpcStore:
        return GrpcStore(lambda: server.grpc_port, token, server.handler.store.capabilities)

    settings = Settings(tcp=False, http=False, grpc_port=0)
    check_behind(behaviour, MSGPACK_FORMAT, settings, connect, 2, CANNOT, GrpcStore.touch)
