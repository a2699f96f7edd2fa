"""The jobs of a load in columns: what a client says is what the store is given, whatever the jobs ask for."""

from typing import Any

import pytest

from tenure.core import bound
from tenure.core.error import InvalidRequest
from tenure.core.job import Extras
from tenure.core.packed import ends_of, pack
from tenure.core.request import STAGE, Batch, Load
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tenure.wire.reader import Reader
from tenure.wire.speech import Speech
from tenure.wire.translate import TRANSLATORS
from tenure.wire.verb import VERBS

FORMS = [JSON_FORMAT, MSGPACK_FORMAT]
ASKED: dict[str, Any] = {
    "custom_id": "c",
    "unique_key": "u",
    "idempotency_key": "i",
    "debounce_key": "d",
    "depends_on": (7, 8),
    "group": "g",
    "run_at": 2_000_000_000_000,
    "expires_at": 2_100_000_000_000,
    "tags": ("red", "green"),
    "metadata": {"a": "b"},
    "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


def received(form: Format, batch: Batch, **changed: Any) -> Batch:
    """What a server makes of what a client says."""
    fields = VERBS["load"].ask(form, Load(STAGE, "l", 1, "w", 2, batch))
    fields["columns"] = {**fields["columns"], **changed}
    speech = Speech(Reader(form))
    message = speech.reader.read(form.encode(fields), True)
    call = TRANSLATORS[type(message)](speech, message)
    load: Load = call.arguments[0]
    assert (load.load_id, load.part, load.writing, load.chunk) == ("l", 1, "w", 2)
    assert load.batch is not None
    return load.batch


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_field_of_a_job_comes_through(form: Format) -> None:
    assert set(ASKED) == set(bound.EXTRA_RULES)
    plain, urgent = bound.make_options(queue="q", task="t"), bound.make_options(queue="q", task="t", priority=9)
    extras = [bound.make_extras(**ASKED), None, bound.make_extras(idempotency_key="only")]
    batch = Batch(plain, [b"\x00a", b"{}", b""], extras, [plain, urgent, plain])
    found = received(form, batch)
    assert list(found.payloads) == [b"\x00a", b"{}", b""]
    assert found.each is not None
    assert [options.key() for options in found.each] == [plain.key(), urgent.key(), plain.key()]
    assert found.each[0] is found.each[2]
    assert found.extras is not None
    for given, read in zip(extras, found.extras, strict=True):
        assert read is not None
        expected = given or Extras()
        assert {name: getattr(read, name) for name in ASKED} == {name: getattr(expected, name) for name in ASKED}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_what_nobody_asks_for_is_not_sent(form: Format) -> None:
    options = bound.make_options(queue="q", codec="msgpack", idempotency_ttl_ms=5_000)
    found = received(form, Batch(options, [b"a"] * 3, [Extras()] * 3))
    assert (found.extras, found.each) == (None, None)
    assert found.options.key() == options.key()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"idempotency_key": ["a"]}, "one entry for each of the 2"),
    ({"idempotency_key": ["a", "x" * 513]}, "idempotency_key"),
    ({"run_at": [0, -1]}, "run_at"),
    ({"kind": [0, 1], "kinds": [{}]}, "one of the kinds"),
    ({"kind": [0], "kinds": [{}]}, "one of the kinds"),
    ({"kind": [0, -1], "kinds": [{}]}, "one of the kinds"),
    ({"colour": ["red", "green"]}, "columns"),
]


@pytest.mark.parametrize(("changed", "words"), WRONG)
def test_wrong_columns_are_refused_by_name(changed: dict[str, Any], words: str) -> None:
    batch = Batch(bound.make_options(queue="q"), [b"a", b"b"])
    with pytest.raises(InvalidRequest, match=words):
        received(MSGPACK_FORMAT, batch, **changed)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("gap", [-1, 3, 2**24 + 1, 2**63, 2**64 - 1])
def test_gap_that_is_none_is_refused_by_name(form: Format, gap: int) -> None:
    batch = Batch(bound.make_options(queue="q"), pack([b"ab", b"c"]))
    piece = {"content": b"abc", "ends": ends_of([2, 1]), "gap": gap}
    with pytest.raises(InvalidRequest, match=r"gap|ends"):
        received(form, batch, data=piece)
