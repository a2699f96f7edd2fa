"""Jobs of a batch that are taken as a column are those that would be read one after the other."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import bound
from tenure.core.error import Error
from tenure.core.packed import Packed
from tenure.core.request import Batch
from tenure.wire.column import cut_column
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT
from tenure.wire.reader import Reader
from tenure.wire.speech import Speech
from tenure.wire.translate import TRANSLATORS

encode = msgspec.msgpack.encode


def read(body: bytes) -> Batch:
    """What a server makes of a message."""
    speech = Speech(Reader(MSGPACK_FORMAT))
    message = speech.reader.read(body, True)
    batch: Batch = TRANSLATORS[type(message)](speech, message).arguments[0]
    return batch


def pushed(jobs: Any, **fields: Any) -> bytes:
    return encode({"cmd": "PUSHB", "queue": "q", "jobs": jobs, **fields})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=20)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=20),
    max_leaves=30,
)


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_payloads_are_the_bytes_that_came(values: list[Any]) -> None:
    batch = read(pushed([{"data": value} for value in values]))
    assert isinstance(batch.payloads, Packed)
    assert list(batch.payloads) == [encode(value) for value in values]
    assert batch.options.codec == "msgpack"


@given(st.lists(st.sampled_from([0, 1, 255, 256, 65_535, 65_536]).map(bytes), min_size=1, max_size=5))
def test_binary_payloads_of_a_codec_are_taken_out_of_their_wrapping(contents: list[bytes]) -> None:
    batch = read(pushed([{"data": content} for content in contents], codec="mine"))
    assert list(batch.payloads) == contents
    is_alike = len({(len(content) > 255) + (len(content) > 65_535) for content in contents}) == 1
    assert isinstance(batch.payloads, Packed) == is_alike


EACH_KIND = [
    *[bytes([kind]) for kind in (0x00, 0x7F, 0xE0, 0xFF, 0xC0, 0xC2, 0xC3)],
    *[bytes([0xCA + at]) + bytes(size) for at, size in enumerate((4, 8, 1, 2, 4, 8, 1, 2, 4, 8))],
    *[bytes([0xD4 + at, 5]) + bytes(size) for at, size in enumerate((1, 2, 4, 8, 16))],
    *[bytes([kind]) + size.to_bytes(width) + b"x" * size for kind, width, size in (
        (0xC4, 1, 0), (0xC4, 1, 255), (0xC5, 2, 3), (0xC5, 2, 65_535), (0xC6, 4, 3), (0xC6, 4, 70_000),
        (0xD9, 1, 200), (0xDA, 2, 40_000), (0xDB, 4, 70_000),
    )],
    *[bytes([kind]) + size.to_bytes(width) + b"\7" + bytes(size) for kind, width, size in (
        (0xC7, 1, 200), (0xC8, 2, 40_000), (0xC9, 4, 70_000),
    )],
    b"\xa0", b"\xbf" + b"x" * 31, b"\x90", b"\x9f" + b"\1" * 15, b"\x80", b"\x8f" + b"\xa1k\1" * 15,
    b"\xdc\xff\xff" + b"\1" * 65_535, b"\xdd\0\1\0\0" + b"\xc0" * 65_536,
    b"\xde\0\2" + b"\xa1a\1\xa1b\x91\x91\2", b"\xdf\0\0\0\1" + b"\xa1a\x81\xa1b\xc4\1x",
]  # fmt: skip


@pytest.mark.parametrize("value", EACH_KIND, ids=lambda value: f"{value[0]:02x}-{len(value)}")
def test_every_kind_of_value_is_stepped_over(value: bytes) -> None:
    body = pushed([msgspec.Raw(b"\x81\xa4data" + value)] * 3 + [{"data": "last"}])
    assert list(read(body).payloads) == [value] * 3 + [encode("last")]
    items = (b"\x81\xa4data" + value) * 2
    cut = cut_column(items, 2, False)
    assert cut is not None
    assert list(cut) == [value, value]


@pytest.mark.parametrize(
    "jobs",
    [
        [],
        [{"data": 1}, {"data": 2, "priority": 3}],
        [{"data": 1}, {}],
        [{"priority": 3}],
        [{"priority": 3, "data": 1}],
        [{"Data": 1}, {"data": 2}],
        [{"date": 1}, {"data": 2}],
        [msgspec.Raw(b"\x82\xa4data\1\xa4data\2")],
        [msgspec.Raw(b"\xde\0\1\xa4data\1")],
        [msgspec.Raw(b"\x81\xd9\4data\1")],
        [7, {"data": 1}],
        [None],
        {"data": 1},
        "data",
        None,
        [{"data": 1}] * (bound.BATCH_ITEMS_MAX + 1),
    ],
    ids=lambda jobs: encode(jobs)[:20].hex(),
)
def test_whatever_else_a_job_says_is_read_as_it_was(jobs: Any) -> None:
    """As a batch in JSON says it, which is never a column."""
    found = said(Speech(Reader(MSGPACK_FORMAT)), pushed(jobs))
    if not any(isinstance(job, msgspec.Raw) for job in jobs or ()):
        body = JSON_FORMAT.encode({"cmd": "PUSHB", "queue": "q", "jobs": jobs})
        assert found[0] == said(Speech(Reader(JSON_FORMAT)), body)[0]
    assert not isinstance(found[1], Packed)


def said(speech: Speech, body: bytes) -> tuple[object, object]:
    """What can be told of a batch whatever format it came in, and its payloads; or what is wrong."""
    try:
        message = speech.reader.read(body, True)
        call = TRANSLATORS[type(message)](speech, message)
    except Error as error:
        return (error.code, error.fields.get("field")), None
    batch = call.arguments[0]
    each = None if batch.each is None else [options.priority for options in batch.each]
    return (len(batch.payloads), each), batch.payloads


def test_options_and_extras_serve_all_of_them() -> None:
    batch = read(pushed([{"data": 1}] * 20, priority=7, tags=["red"], atomic=True, packed=True))
    assert isinstance(batch.payloads, Packed)
    assert batch.options.priority == 7
    assert batch.atomic
    assert batch.extras is not None
    assert [extras.tags for extras in batch.extras if extras is not None] == [("red",)] * 20


def test_what_is_cut_off_or_too_much_is_no_column() -> None:
    whole = b"\x81\xa4data\1" * 3
    assert cut_column(whole, 3, False) is not None
    assert cut_column(whole, 2, False) is None
    assert cut_column(whole, 4, False) is None
    assert cut_column(whole[:-1], 3, False) is None
    assert cut_column(whole, 3, True) is None
