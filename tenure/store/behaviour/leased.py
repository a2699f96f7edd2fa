"""One job of a claim, as the behaviours hand it around: a claim's answer comes in columns."""

from collections.abc import Sequence

import msgspec

from tenure.core.answer import Claimed
from tenure.core.job import Extras, Options


class Leased(msgspec.Struct, frozen=True):
    """What a worker knows of the job it runs."""

    id: int
    token: bytes
    payload: bytes
    attempt: int
    options: Options
    tenant: str
    lease_until: int
    lease_ms: int
    extras: Extras | None


def payloads(leased: Sequence[Leased]) -> list[bytes]:
    return [one.payload for one in leased]


def leased_of(claimed: Claimed) -> list[Leased]:
    return [
        Leased(
            claimed.ids[at],
            claimed.token,
            bytes(claimed.payloads[at]),
            claimed.attempts[at],
            claimed.options[at],
            claimed.tenants[at],
            claimed.lease_until[at],
            claimed.lease_ms[at],
            claimed.extras[at] if claimed.extras else None,
        )
        for at in range(len(claimed))
    ]
