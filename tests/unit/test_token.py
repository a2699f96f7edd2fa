"""Lease tokens: genuine ones are recognised, all others are not."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.clock import Now
from tenure.core.error import InvalidRequest
from tenure.core.job import Options
from tenure.core.request import Batch, Claim, Pick
from tenure.core.tenant import Context
from tenure.core.token import SECRET_BYTES, TOKEN_BYTES, Mint, claim_of, epoch_of
from tenure.engine.engine import Engine

SECRET = bytes(range(SECRET_BYTES))

claims = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**32 - 1)


def by_hand(secret: bytes, epoch: int, claim: int) -> bytes:
    """A token by the text of its format."""
    head = epoch.to_bytes(4, "big")
    hashes = blake2b(head + (claim // 8).to_bytes(8, "big"), key=secret).digest()
    start = claim % 8 * 8
    return head + claim.to_bytes(8, "big") + hashes[start : start + 8]


@given(epochs, claims)
def test_token_is_made_as_its_format_says(epoch: int, claim: int) -> None:
    token = Mint(SECRET, epoch).token(claim)
    assert token == by_hand(SECRET, epoch, claim)
    assert len(token) == TOKEN_BYTES == 20


@given(epochs, claims)
def test_genuine_token_is_recognised_and_names_its_claim(epoch: int, claim: int) -> None:
    mint = Mint(SECRET, epoch)
    assert mint.is_genuine(mint.token(claim))
    assert claim_of(mint.token(claim)) == claim
    assert epoch_of(mint.token(claim)) == mint.epoch


@given(epochs, epochs, claims)
def test_token_of_another_epoch_is_recognised(epoch: int, later: int, claim: int) -> None:
    assert Mint(SECRET, later).is_genuine(Mint(SECRET, epoch).token(claim))


@given(epochs, claims, st.integers(0, TOKEN_BYTES * 8 - 1))
def test_token_with_one_bit_changed_is_not_genuine(epoch: int, claim: int, bit: int) -> None:
    mint = Mint(SECRET, epoch)
    token = bytearray(mint.token(claim))
    token[bit // 8] ^= 1 << bit % 8
    assert not mint.is_genuine(bytes(token))


@given(st.binary(max_size=40))
def test_invented_token_is_not_genuine(token: bytes) -> None:
    assert not Mint(SECRET, 1).is_genuine(token)


@pytest.mark.parametrize("claim", [0, 7, 8, 1_000, 2**63 - 1])
def test_token_of_another_secret_is_not_genuine(claim: int) -> None:
    assert not Mint(SECRET, 1).is_genuine(Mint(SECRET[::-1], 1).token(claim))


@pytest.mark.parametrize("length", range(TOKEN_BYTES))
def test_truncated_token_is_not_genuine(length: int) -> None:
    mint = Mint(SECRET, 1)
    assert not mint.is_genuine(mint.token(9)[:length])


def test_lengthened_token_is_not_genuine() -> None:
    mint = Mint(SECRET, 1)
    assert not mint.is_genuine(mint.token(9) + b"\0")


def test_hash_of_a_neighbour_does_not_fit() -> None:
    """Eight claims share one hash; each must have its own part of it."""
    mint = Mint(SECRET, 1)
    tokens = [mint.token(claim) for claim in range(8, 16)]
    assert len({token[12:] for token in tokens}) == 8
    for own in tokens:
        assert [mint.is_genuine(own[:12] + other[12:]) for other in tokens] == [other is own for other in tokens]


@given(st.lists(claims, max_size=20))
def test_replayed_history_makes_the_same_tokens(history: list[int]) -> None:
    first = Mint(SECRET, 3)
    again = Mint(SECRET, 3)
    assert [first.token(claim) for claim in history] == [again.token(claim) for claim in history]
    assert [first.token(claim) for claim in reversed(history)] == [again.token(claim) for claim in reversed(history)]


def test_ten_thousand_claims_have_ten_thousand_tokens() -> None:
    mint = Mint(SECRET, 1)
    assert len({mint.token(claim) for claim in range(10_000)}) == 10_000
    assert len({mint.token(claim)[12:] for claim in range(10_000)}) == 10_000


def test_epochs_do_not_share_hashes() -> None:
    hashes = {Mint(SECRET, epoch).token(claim)[12:] for epoch in range(100) for claim in range(16)}
    assert len(hashes) == 1_600


# The engine's use of them.


def claim_all(engine: Engine, jobs: int) -> list[bytes]:
    now = Now(1_000, 1_000)
    engine.enqueue(Context(), Batch(Options(), [b""] * jobs), now)
    return [engine.claim(Context(), Claim((Pick("default"),)), now).token for _ in range(jobs)]


def test_engine_gives_every_claim_a_token_of_its_own() -> None:
    tokens = claim_all(Engine(SECRET, 1, Now(0, 0)), 200)
    assert len(set(tokens)) == 200
    assert all(Mint(SECRET, 1).is_genuine(token) for token in tokens)


def test_engine_gives_the_same_tokens_when_history_is_replayed() -> None:
    assert claim_all(Engine(SECRET, 1, Now(0, 0)), 20) == claim_all(Engine(SECRET, 1, Now(0, 0)), 20)


def test_engine_of_the_next_epoch_gives_other_tokens() -> None:
    assert not set(claim_all(Engine(SECRET, 1, Now(0, 0)), 20)) & set(claim_all(Engine(SECRET, 2, Now(0, 0)), 20))


def test_short_secret_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Engine(b"s" * 15, 1, Now(0, 0))
    assert refused.value.field == "secret"
    assert "s" * 15 not in str(refused.value)


@pytest.mark.parametrize("length", [16, 32, 64, 65, 100])
def test_secret_that_is_accepted_makes_tokens(length: int) -> None:
    try:
        engine = Engine(b"s" * length, 1, Now(0, 0))
    except InvalidRequest:
        assert length > 64
        return
    assert len(claim_all(engine, 1)[0]) == TOKEN_BYTES
