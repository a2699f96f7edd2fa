"""A store behind a server shows every behaviour: all calls go over a real connection, as public commands."""

from pathlib import Path

import pytest

from tenure.client.remote import RemoteStore
from tenure.server.config import Settings
from tenure.store.conformance import BEHAVIOURS, Behaviour, name_of
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tests.conformance.door import check_behind

CANNOT = {
    "token_may_not_be_left_out_without_a_connection": "on a socket there is always a connection",
    "what_was_leased_to_a_lost_answer_is_released_at_once": "the answer comes first; tests/client shows a lost one",
    "wrong_field_of_a_record_is_refused_by_name-json": "in JSON any text may be bytes",
}


@pytest.mark.parametrize("form", [MSGPACK_FORMAT, JSON_FORMAT], ids=["msgpack", "json"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, form: Format, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    settings = Settings(tcp=False, http=False, grpc=False, unix=path)
    check_behind(behaviour, form, settings, lambda _, token: RemoteStore(path, token, form), 4, CANNOT)
