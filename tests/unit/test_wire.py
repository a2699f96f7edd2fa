"""Frames and messages: what is sent is what arrives, however it is cut; what is too large or not known is refused."""

import ast
import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import answer, job, limit, request, retry, tenant
from tenure.core.error import Conflict, JobNotFound, Overloaded, PayloadTooLarge
from tenure.store.contract import VERBS
from tenure.wire import message, value
from tenure.wire.frame import Frames, frame
from tenure.wire.limit import FRAME_BYTES_MAX

ROOT = Path(__file__).parents[2]

MIRRORS = (
    (value.WireContext, tenant.Context),
    (value.WireOpId, tenant.OpId),
    (value.WireBackoff, retry.Backoff),
    (value.WireOptions, job.Options),
    (value.WireExtras, job.Extras),
    (value.WirePick, request.Pick),
    (value.WireClaim, request.Claim),
    (value.WireFailure, request.Failure),
    (value.WireSettle, request.Settle),
    (value.WireExtend, request.Extend),
    (value.WireFilter, request.Filter),
    (value.WireChange, request.Change),
    (value.WireAppend, request.Append),
    (value.WireConfigure, request.Configure),
    (value.WireLoad, request.Load),
    (value.WireOutcome, answer.Outcome),
)


def parameters_of(kind: type) -> list[str]:
    """Of its constructor, from the source: a compiled class does not tell them."""
    source = ROOT / (kind.__module__.replace(".", "/") + ".py")
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            [init] = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            return [argument.arg for argument in init.args.args[1:]]
    raise AssertionError(f"{source} has no class {kind.__name__}")


@pytest.mark.parametrize(("wire", "core"), MIRRORS, ids=lambda kind: kind.__name__)
def test_a_struct_has_the_fields_of_its_class_in_order(wire: type[msgspec.Struct], core: type) -> None:
    assert list(wire.__struct_fields__) == parameters_of(core)


def test_a_batch_is_sent_whole() -> None:
    """It has a field of its own for the options that differ."""
    assert set(value.WireBatch.__struct_fields__) == {*parameters_of(request.Batch), "kinds"}


def test_every_verb_of_the_store_can_be_sent() -> None:
    assert set(message.VERBS) == set(VERBS)


@given(st.lists(st.binary(max_size=200), max_size=20), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_bodies_arrive_however_the_stream_is_cut(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(frame(body) for body in bodies)
    frames = Frames()
    found: list[bytes] = []
    at = 0
    for turn in range(len(stream)):
        size = sizes[turn % len(sizes)]
        found += frames.feed(stream[at : at + size])
        at += size
    assert found == bodies


def test_a_forged_length_is_refused_before_its_body_comes() -> None:
    with pytest.raises(PayloadTooLarge):
        Frames().feed((FRAME_BYTES_MAX + 1).to_bytes(4))
    with pytest.raises(PayloadTooLarge):
        Frames().feed(b"\xff\xff\xff\xff")


def test_a_body_over_the_bound_is_not_sent() -> None:
    with pytest.raises(PayloadTooLarge):
        frame(bytes(FRAME_BYTES_MAX + 1))


@given(st.binary(max_size=100))
def test_nonsense_is_refused_by_name(data: bytes) -> None:
    with contextlib.suppress(*message.NONSENSE):
        message.read_request(data)


def test_settings_keep_their_rates_and_backoffs() -> None:
    verb = message.VERBS["configure"]
    changes = {"rate": limit.Rate(5, 1_000, 10), "backoff": retry.Backoff.fixed("2s"), "paused": True, "weight": None}
    body = verb.pack((request.Configure(request.QUEUE, "q", dict(changes)),))
    [found] = verb.unpack(msgspec.Raw(body))
    assert isinstance(found, request.Configure)
    rate, backoff = found.changes.pop("rate"), found.changes.pop("backoff")
    assert isinstance(rate, limit.Rate)
    assert rate.key() == (5, 1_000, 10)
    assert isinstance(backoff, retry.Backoff)
    assert backoff.key() == retry.Backoff.fixed("2s").key()
    assert found.changes == {"paused": True, "weight": None}


@pytest.mark.parametrize("error", [JobNotFound(7), Conflict("there is one", 3), Overloaded("queue q", 250)])
def test_errors_keep_their_kind_and_fields(error: Exception) -> None:
    assert isinstance(error, JobNotFound | Conflict | Overloaded)
    sent = msgspec.msgpack.decode(message.encode(value.pack_error(error)), type=value.WireError)
    found = value.unpack_error(sent)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.fields == error.fields
    assert found.status == error.status


def test_what_jobs_share_is_sent_once() -> None:
    shared = job.Options(queue="shared")
    batch = request.Batch(job.Options(), [b"x"] * 1_000, each=[shared] * 999 + [job.Options(queue="other")])
    body = message.VERBS["enqueue"].pack((batch,))
    assert len(body) < 6_000
    [found] = message.VERBS["enqueue"].unpack(msgspec.Raw(body))
    assert isinstance(found, request.Batch)
    assert found.each is not None
    assert found.each[0] is found.each[998]
    assert found.each[999].queue == "other"
