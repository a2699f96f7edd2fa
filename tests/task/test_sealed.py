"""Sealed payloads: what opens them, what does not, and what they look like."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap
from hypothesis import given
from hypothesis import strategies as st

import tenure
from tenure.core.error import InvalidRequest
from tenure.task.codec import Undecodable, Unencodable
from tenure.task.sealed import SealedCodec

OLD = bytes(range(32))
NEW = bytes(range(100, 132))

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)

# By key "2026-11" = 00 01 02 … 1f and the data key 00 01 02 … 1f: {"to":"a@example.com","n":5}
SAMPLE = bytes.fromhex(
    "54534c000107323032362d3131046a736f6e82c693bff487db7c31a7f0cc440ad9e37709511b52efce48094b4548eee3cfc2"
    "bf7805b51201bc01759ec1b19716a1dc48cdd154755cfdfcfc20393e0aad4241a2a486fec408aa85e5ad0353d1cd514c9826"
    "c9e0"
)
SAMPLE_VALUE = {"to": "a@example.com", "n": 5}


def sealed(**changed: Any) -> SealedCodec:
    return SealedCodec(**{"keys": {"2026-11": OLD}, **changed})


def opened(codec: SealedCodec, data: bytes, type: Any = Any) -> Any:
    return codec.decoder(type)(data)


def test_form_is_the_one_that_was_released() -> None:
    assert sealed(random=lambda size: bytes(range(size))).encode(SAMPLE_VALUE) == SAMPLE
    assert opened(sealed(), SAMPLE) == SAMPLE_VALUE


def test_form_is_the_one_that_is_described() -> None:
    header = b"TSL\0" + b"\x01" + b"\x072026-11" + b"\x04json"
    assert SAMPLE.startswith(header)
    head, body = SAMPLE[: len(header) + 40], SAMPLE[len(header) + 40 :]
    key = aes_key_unwrap(OLD, head[len(header) :])
    assert AESGCM(key).decrypt(bytes(12), body, head) == b'{"to":"a@example.com","n":5}'


@given(value=plain, inner=st.sampled_from(["json", "msgpack"]))
def test_what_is_sealed_comes_back(value: Any, inner: str) -> None:
    codec = sealed(inner=inner)
    assert opened(codec, codec.encode(value)) == value


@pytest.mark.parametrize("at", range(len(SAMPLE)))
def test_every_flipped_bit_is_refused(at: int) -> None:
    codec = sealed(keys={"2026-11": OLD, "2026-10": NEW, "2026-13": OLD}, current="2026-11")
    read = codec.decoder(Any)
    for bit in range(8):
        harmed = bytearray(SAMPLE)
        harmed[at] ^= 1 << bit
        with pytest.raises(Undecodable):
            read(bytes(harmed))


@given(value=plain, data=st.data())
def test_payload_that_was_changed_anywhere_is_refused(value: Any, data: st.DataObject) -> None:
    codec = sealed()
    harmed = bytearray(codec.encode(value))
    at = data.draw(st.integers(0, len(harmed) * 8 - 1))
    harmed[at // 8] ^= 1 << at % 8
    with pytest.raises(Undecodable):
        opened(codec, bytes(harmed))


@given(data=st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: SAMPLE[:6] + rest))
def test_bytes_that_nobody_sealed_are_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        opened(sealed(), data)


@pytest.mark.parametrize("size", range(len(SAMPLE)))
def test_payload_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises(Undecodable):
        opened(sealed(), SAMPLE[:size])


def test_payload_that_goes_on_is_refused() -> None:
    with pytest.raises(Undecodable):
        opened(sealed(), SAMPLE + b"\0")


def test_same_value_is_sealed_differently_each_time() -> None:
    codec = sealed()
    assert codec.encode("a") != codec.encode("a")


def test_nothing_of_the_value_can_be_seen() -> None:
    assert b"secret" not in sealed().encode({"secret": "secret" * 100})


def test_old_key_opens_what_it_sealed_and_the_current_one_seals() -> None:
    before = sealed().encode("before")
    rotated = sealed(keys={"2026-11": OLD, "2026-12": NEW}, current="2026-12")
    assert opened(rotated, before) == "before"
    after = rotated.encode("after")
    assert b"2026-12" in after
    assert opened(sealed(keys={"2026-12": NEW}), after) == "after"


def test_key_that_is_gone_is_named_and_not_shown() -> None:
    with pytest.raises(Undecodable, match="'2026-11'") as raised:
        opened(sealed(keys={"2026-12": NEW}), SAMPLE)
    assert not _shows(str(raised.value), OLD, NEW)


def test_another_key_of_the_same_id_does_not_open() -> None:
    with pytest.raises(Undecodable, match="'2026-11'") as raised:
        opened(sealed(keys={"2026-11": NEW}), SAMPLE)
    assert not _shows(str(raised.value), OLD, NEW)
    assert not _shows(repr(sealed()), OLD)


def test_another_codec_inside_is_refused() -> None:
    with pytest.raises(Undecodable, match="inside is 'json'"):
        opened(sealed(inner="msgpack"), SAMPLE)


def test_version_that_is_not_known_is_said() -> None:
    with pytest.raises(Undecodable, match="version 02"):
        opened(sealed(), SAMPLE[:4] + b"\x02" + SAMPLE[5:])


def test_error_about_what_is_inside_does_not_quote_it() -> None:
    codec = sealed(inner=tenure.PickleCodec(b"k" * 32, name="inside"))
    assert opened(codec, codec.encode({1: {2}})) == {1: {2}}
    with pytest.raises(Undecodable, match="not the json") as raised:
        opened(sealed(), sealed().encode("confidential"), type=int)
    assert raised.value.__cause__ is raised.value.__context__ is None


class Talkative:
    """A codec that quotes what it reads, in an exception of its own."""

    name = "talkative"

    def encode(self, value: object) -> bytes:
        return str(value).encode()

    def decoder(self, type: Any) -> Any:
        def read(data: bytes) -> Any:
            raise ValueError(f"{data.decode()} is no {type}")

        return read


def test_exception_of_the_codec_inside_does_not_get_out() -> None:
    codec = sealed(inner=Talkative())
    with pytest.raises(Undecodable) as raised:
        opened(codec, codec.encode("confidential"))
    assert "confidential" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_whoever_enqueues_is_told_what_is_wrong_with_the_arguments() -> None:
    app = tenure.App("memory://")
    app.codecs.add(sealed())

    @app.task(codec="sealed")
    def send(number: int) -> None: ...

    with pytest.raises(InvalidRequest, match=r"Expected `int`, got `str` - at `\$.number`"):
        send.bind("text")  # type: ignore[arg-type]


def test_value_that_the_codec_inside_cannot_write_is_refused() -> None:
    with pytest.raises(Unencodable):
        sealed().encode(object())


@pytest.mark.parametrize(
    "changed",
    [
        {"keys": {}},
        {"keys": {"a": b"short"}},
        {"keys": {"a": "k" * 32}},
        {"keys": {"": OLD}},
        {"keys": {"a b": OLD}},
        {"keys": {"a" * 65: OLD}},
        {"current": "2026-12"},
        {"keys": {"a": OLD, "b": NEW}},
        {"inner": "yaml"},
        {"name": "with space"},
    ],
)
def test_codec_that_could_not_work_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        sealed(**changed)
    assert "kkk" not in str(raised.value)


def test_made_keys_differ_and_fit() -> None:
    one, other = SealedCodec.make_key(), SealedCodec.make_key()
    assert one != other
    assert sealed(keys={"a": one, "b": other}, current="a").encode(1)


def test_search_would_copy_what_is_sealed_and_is_refused() -> None:
    app = tenure.App("memory://")
    app.codecs.add(sealed())

    @app.task(codec="sealed", search=("to",))
    def send(to: str) -> None: ...

    with pytest.raises(InvalidRequest, match="metadata"):
        send.bind("a")


def test_arguments_of_older_versions_are_opened_and_brought_up() -> None:
    app = tenure.App("memory://")
    codec = sealed()
    app.codecs.add(codec)

    @app.task(codec="sealed", schema_version=2)
    def send(to: str, subject: str) -> None: ...

    @send.upcast(from_version=1)
    def one(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "subject": fields.pop("title")}

    read: Any = send.read(codec.encode({"to": "a", "title": "hi"}), "sealed", 1)
    assert (read.to, read.subject) == ("a", "hi")


def _shows(text: str, *keys: bytes) -> bool:
    return any(form in text for key in keys for form in (repr(key)[2:20], key.hex()[:16], str(list(key))[1:12]))
