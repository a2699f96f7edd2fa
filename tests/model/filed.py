"""The pair and its machine with the store's file between two lives of the engine.

Every step is on disk before the next one, as for a caller who waits for `fsync`. Checkpoints begin at random and are
still at it when the next steps come. A restart is a clean stop, a kill, or a loss of power that takes unsynced writes.
"""

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tenure.engine.journal import STORE
from tenure.store.embedded import sqlite
from tests.crash.inline import Host
from tests.crash.workload import hurried
from tests.model.claim import Mismatch
from tests.model.model import Model
from tests.model.pair import Pair
from tests.model.test_model import Machine
from tests.model.wish import TENANTS

CLEAN = "clean"
KILL = "kill"
POWER = "power"


class FilePair(Pair):
    def __init__(self, tenants: tuple[str, ...], host: Host) -> None:
        super().__init__(tenants)
        self.host = host
        host.start(self.now)
        self.engine = host.store.engine
        self.model = Model(host.store._file.secret, 1, self.now)

    def write_down(self) -> None:
        self.engine._w.journal.mark((STORE,))  # so that the time is written down though nothing changed
        if not self.host.commit(self.now):
            raise Mismatch("the disk took nothing")

    def checkpoint(self, jobs: int) -> None:
        self.host.begin_checkpoint(self.now, jobs)

    def restart_by(self, how: str, chance: random.Random) -> None:
        if how == CLEAN:
            self.host.stop_cleanly()
        else:
            self.host.crash(chance, how == POWER)
        self.host.start(self.now)
        self.engine = self.host.store.engine
        self.restarted()


class FileMachine(Machine):
    pair: FilePair

    def make_pair(self) -> Pair:
        self._undo = ExitStack()
        self._undo.enter_context(hurried())
        # No number is skipped: the model gives the next one.
        self._undo.enter_context(mock.patch.object(sqlite, "RESERVE", 0))
        folder = self._undo.enter_context(tempfile.TemporaryDirectory())
        host = Host(Path(folder))
        self._undo.callback(host.end)
        return FilePair(TENANTS, host)

    def teardown(self) -> None:
        self._undo.close()

    @rule(jobs=st.sampled_from((0, 1, 2, 5, 100)))
    def checkpoint(self, jobs: int) -> None:
        self.pair.checkpoint(jobs)

    @rule(how=st.sampled_from((CLEAN, KILL, POWER, POWER)), saved=st.booleans(), seed=st.integers(0, 1 << 32))
    def restart(self, how: str, saved: bool, seed: int) -> None:
        if saved:
            self.pair.checkpoint(100)
        self.pair.restart_by(how, random.Random(seed))
        self.tickets.clear()
