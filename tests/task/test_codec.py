"""Codecs, versions of arguments, and what cannot be read."""

import pickle
from typing import Any

import pytest

import tenure
from tenure.core.error import CodecNotFound, InvalidRequest
from tenure.task.codec import Codecs, Undecodable


class Rot13:
    """A codec of a user."""

    name = "rot13"

    def encode(self, value: object) -> bytes:
        return pickle.dumps(value)[::-1]

    def decoder(self, type: Any) -> Any:
        def read(data: bytes) -> Any:
            fields = pickle.loads(data[::-1])
            return type(**fields) if isinstance(fields, dict) and type is not Any else fields

        return read


def test_codec_of_a_user_is_found_by_its_name() -> None:
    app = tenure.App("memory://")
    app.codecs.add(Rot13())

    @app.task(codec="rot13")
    def function(a: int) -> int:
        return a

    call = function.bind(5)
    assert call.options.codec == "rot13"
    assert function.read(call.payload, "rot13", 0).a == 5  # type: ignore[attr-defined]


def test_unknown_codec_is_refused() -> None:
    with pytest.raises(CodecNotFound):
        Codecs().get("yaml")


def test_codec_of_a_known_name_is_refused() -> None:
    codecs = Codecs()
    with pytest.raises(InvalidRequest):
        codecs.add(codecs.get("json"))


def test_job_of_another_codec_is_read_by_that_one() -> None:
    app = tenure.App("memory://")

    @app.task(codec="msgpack")
    def function(a: int) -> int:
        return a

    assert function.read(b'{"a":5}', "json", 0).a == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"a":"x"}', b"\xff\xfe", b'{"b":1}', b"[" * 100_000])
def test_bytes_that_are_no_arguments_cannot_be_decoded(payload: bytes) -> None:
    app = tenure.App("memory://")

    @app.task
    def function(a: int) -> int:
        return a

    with pytest.raises(Undecodable):
        function.read(payload, "json", 0)


def versioned() -> "tenure.Task[..., Any]":
    app = tenure.App("memory://")

    def send(to: str, subject: str, urgent: bool = False) -> None: ...

    task = app.add_task(send, {"schema_version": 3})

    @task.upcast(from_version=1)
    def one(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "subject": fields.pop("title")}

    @task.upcast(from_version=2)
    def two(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "urgent": fields["subject"].isupper()}

    return task


def test_older_payloads_are_brought_to_the_newest_version() -> None:
    task = versioned()
    assert task.bind("a", "b").options.schema_version == 3
    read: Any = task.read(b'{"to": "a", "title": "HI"}', "json", 1)
    assert (read.to, read.subject, read.urgent) == ("a", "HI", True)


def test_newer_payloads_are_read_as_far_as_they_are_known() -> None:
    read: Any = versioned().read(b'{"to": "a", "subject": "b", "cc": []}', "json", 4)
    assert read.to == "a"


def test_upcaster_that_fails_makes_the_job_undecodable() -> None:
    with pytest.raises(Undecodable, match="from version 1 failed"):
        versioned().read(b'{"to": "a"}', "json", 1)


@pytest.mark.parametrize("version", [-1, 3, 1])
def test_upcaster_of_a_version_that_is_none_or_taken_is_refused(version: int) -> None:
    with pytest.raises(InvalidRequest):
        versioned().upcast(from_version=version)(lambda fields: fields)
