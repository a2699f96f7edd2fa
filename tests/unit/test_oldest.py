"""Reading from the oldest event on works whatever was just dropped."""

from tenure.core.bound import make_options
from tenure.core.clock import Now
from tenure.core.request import STORE, Batch, Configure
from tenure.core.tenant import Context
from tenure.engine.engine import Engine


def test_reading_from_the_oldest_on_is_never_too_late() -> None:
    now = Now(1_000, 0)
    engine = Engine(bytes(16), 1, now)
    engine.configure(Context(), Configure(STORE, "", {"events_max": 10}), now)
    for step in range(200):
        at = Now(1_000 + step, step)
        engine.enqueue(Context(), Batch(make_options(), [b"x"] * (1 + step % 7)), at)
        page = engine.events(Context(), "", 100, at)
        assert page.events
