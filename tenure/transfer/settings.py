"""Settings of tenants, queues and limit keys: read from one store, put into another, compared.

Not those of a store itself, which are its operator's, and not for how long a key is paused, which is over soon.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tenure.client.client import Client
from tenure.core.limit import Rate

RATES: Final = ("rate", "enqueue_rate")
PASSING: Final = ("paused_ms",)
SUBJECTS: Final = ("tenant", "key", "queue")  # in the order in which they are put: limits before what they limit

# subject -> name -> setting -> value
Settings = dict[str, dict[str, dict[str, Any]]]


class Differing(NamedTuple):
    """A setting that is another in the store that was copied to; None where it is not set."""

    tenant: str
    subject: str
    name: str
    setting: str
    expected: object
    found: object


async def read_settings(client: Client, tenant: str) -> Settings:
    own = client.as_tenant(tenant)
    found: Settings = {"tenant": {tenant: _kept(await own.configure("tenant", tenant))}}
    for subject in ("key", "queue"):
        named = await own.configure(subject, "*")
        found[subject] = {name: _kept(fields) for name, fields in named.items()}
    return {subject: {name: fields for name, fields in found[subject].items() if fields} for subject in SUBJECTS}


def _kept(fields: object) -> dict[str, Any]:
    assert isinstance(fields, Mapping)
    return {name: _plain(value) for name, value in fields.items() if name not in PASSING}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


async def put_settings(client: Client, tenant: str, settings: Settings) -> int:
    """What is set there stays, unless it is set here too. Answers how many of them were."""
    own = client.as_tenant(tenant)
    count = 0
    for subject in SUBJECTS:
        for name, fields in settings.get(subject, {}).items():
            changes = {field: _value(field, value) for field, value in fields.items()}
            await own.configure(subject, tenant if subject == "tenant" else name, **changes)
            count += len(changes)
    return count


def _value(field: str, value: Any) -> object:
    return Rate(*value) if field in RATES and value is not None else value


def compare_settings(tenant: str, expected: Settings, found: Settings) -> Iterator[Differing]:
    """Of every tenant, key and queue that has settings in the first store."""
    for subject in SUBJECTS:
        for name, fields in expected.get(subject, {}).items():
            others = found.get(subject, {}).get(tenant if subject == "tenant" else name, {})
            for field in sorted({*fields, *others}):
                if fields.get(field) != others.get(field):
                    yield Differing(tenant, subject, name, field, fields.get(field), others.get(field))
