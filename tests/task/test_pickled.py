"""Signed pickles: whatever Python can hold, and nothing that somebody else wrote."""

import hmac
import pickle
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenure
from tenure.core.error import InvalidRequest
from tenure.task.codec import Undecodable, Unencodable
from tenure.task.pickled import PickleCodec

OLD = b"o" * 16
NEW = b"n" * 32

# By the key 16 times "o": {"a": 5}
SAMPLE = bytes.fromhex(
    "0cb2bbb6cd7cd5f02015ca44434cecf6ecd69e768d104b4ebc49fd290559c9348005950a000000000000007d948c0161944b05732e"
)

values = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.complex_numbers(allow_nan=False) | st.datetimes(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner),
    max_leaves=20,
)

unpickled: list[str] = []


class Explosive:
    """Notes when it is unpickled."""

    def __reduce__(self) -> Any:
        return note, ("unpickled",)


def note(what: str) -> str:
    unpickled.append(what)
    return what


class Point(msgspec.Struct):
    x: int


def read(codec: PickleCodec, data: bytes, type: Any = Any) -> Any:
    return codec.decoder(type)(data)


def test_form_is_the_one_that_was_released() -> None:
    assert read(PickleCodec(OLD), SAMPLE) == {"a": 5}
    signature, body = SAMPLE[:32], SAMPLE[32:]
    assert signature == hmac.digest(OLD, b"tenure pickle 1\0pickle\0" + body, "sha256")
    assert pickle.loads(body) == {"a": 5}


@given(value=values)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    codec = PickleCodec(OLD)
    found = read(codec, codec.encode(value))
    assert found == value
    assert type(found) is type(value)


def test_types_that_json_does_not_know_are_kept() -> None:
    codec = PickleCodec(OLD)
    value = [{1, 2}, Path("a"), Point(1), defaultdict(list, {1: [2]}), {(1, 2): 3}]
    found = read(codec, codec.encode(value))
    assert found == value
    assert type(found[3]) is defaultdict


def test_wrong_signature_is_refused_before_anything_is_unpickled() -> None:
    unpickled.clear()
    data = PickleCodec(OLD).encode(Explosive())
    with pytest.raises(Undecodable, match="signature"):
        read(PickleCodec(NEW), data)
    with pytest.raises(Undecodable, match="signature"):
        read(PickleCodec(OLD), pickle.dumps(Explosive()))
    with pytest.raises(Undecodable, match="signature"):
        read(PickleCodec(OLD), bytes(32) + pickle.dumps(Explosive()))
    assert unpickled == []
    assert read(PickleCodec(OLD), data) == "unpickled"


def test_every_flipped_bit_is_refused() -> None:
    decode = PickleCodec(OLD).decoder(Any)
    for at in range(len(SAMPLE) * 8):
        harmed = bytearray(SAMPLE)
        harmed[at // 8] ^= 1 << at % 8
        with pytest.raises(Undecodable, match="signature"):
            decode(bytes(harmed))


@given(value=values, data=st.data())
def test_pickle_that_was_changed_anywhere_is_refused(value: Any, data: st.DataObject) -> None:
    codec = PickleCodec(OLD)
    harmed = bytearray(codec.encode(value))
    at = data.draw(st.integers(0, len(harmed) * 8 - 1))
    harmed[at // 8] ^= 1 << at % 8
    with pytest.raises(Undecodable, match="signature"):
        read(codec, bytes(harmed))


@given(data=st.binary(max_size=100))
def test_bytes_that_nobody_signed_are_refused(data: bytes) -> None:
    with pytest.raises(Undecodable, match="signature"):
        read(PickleCodec(OLD), data)


def test_signature_holds_for_one_codec_name_only() -> None:
    with pytest.raises(Undecodable, match="signature"):
        read(PickleCodec(OLD, name="other"), PickleCodec(OLD).encode(1))


def test_newest_key_signs_and_all_verify() -> None:
    rotated = PickleCodec([NEW, OLD])
    assert read(rotated, PickleCodec(OLD).encode(1)) == 1
    assert read(PickleCodec(NEW), rotated.encode(2)) == 2
    with pytest.raises(Undecodable):
        read(PickleCodec(OLD), rotated.encode(2))


@pytest.mark.parametrize("key", [b"", b"k" * 15, [], [NEW, b"k" * 15], ["k" * 32], "k" * 32])
def test_weak_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        PickleCodec(key)
    assert "kkk" not in str(raised.value)


@pytest.mark.parametrize("value", [lambda: 0, threading.Lock()])
def test_value_without_a_pickle_is_refused(value: Any) -> None:
    with pytest.raises(Unencodable):
        PickleCodec(OLD).encode(value)


def test_class_that_is_gone_cannot_be_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = PickleCodec(OLD)
    data = codec.encode(Point(1))
    monkeypatch.delattr("tests.task.test_pickled.Point")
    with pytest.raises(Undecodable, match="Point"):
        read(codec, data)


def task_of(codec: PickleCodec) -> "tenure.Task[..., Any]":
    app = tenure.App("memory://")
    app.codecs.add(codec)

    def function(a: Any, b: int = 2) -> Any:
        return a, b

    return app.add_task(function, {"codec": "pickle", "schema_version": 2})


def test_arguments_go_through_as_objects() -> None:
    task = task_of(PickleCodec(OLD))
    call = task.bind({1, 2})
    found: Any = task.read(call.payload, call.options.codec, 2)
    assert found.a == {1, 2}
    assert found.b is msgspec.UNSET


def test_arguments_of_older_and_newer_versions_are_read() -> None:
    codec = PickleCodec(OLD)
    task = task_of(codec)

    @task.upcast(from_version=1)
    def one(fields: dict[str, Any]) -> dict[str, Any]:
        return {"a": fields["old"]}

    found: Any = task.read(codec.encode({"old": {3}}), "pickle", 1)
    assert found.a == {3}
    found = task.read(codec.encode({"a": 1, "c": "later"}), "pickle", 3)
    assert found.a == 1


@pytest.mark.parametrize("value", [{"b": 1}, [1], "text"])
def test_pickle_that_holds_no_arguments_cannot_be_decoded(value: Any) -> None:
    codec = PickleCodec(OLD)
    for version in (1, 2):
        with pytest.raises(Undecodable):
            task_of(codec).read(codec.encode(value), "pickle", version)


def test_argument_without_a_pickle_is_refused_where_it_is_enqueued() -> None:
    with pytest.raises(InvalidRequest, match="pickled"):
        task_of(PickleCodec(OLD)).bind(lambda: 0)
