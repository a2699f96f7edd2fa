"""Jobs change their state in one place, by the table of `core.state`."""

import ast
from pathlib import Path

import pytest

import tenure.engine
from tenure.core import event, state
from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import Batch
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.engine.transition import transition
from tests.docs.page import ROOT

ENGINE = ROOT / "tenure" / "engine"
NOW = Now(1_800_000_000_000, 5_000)
OTHERS = {"answers", "remembered", "owed", "self"}  # what else has a state: answers, and columns of them
RESTORING = "facts.py"  # jobs as they were
EVENTS = {"enqueued", "enqueued_first", "enqueued_next", "imported", "started", "ended", "plain"}


def modules() -> list[Path]:
    assert tenure.engine.__file__
    return sorted(path for path in ENGINE.glob("*.py") if path.name != "transition.py")


def assigned(tree: ast.AST) -> list[ast.Attribute]:
    found: list[ast.Attribute] = []
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        found += [target for target in targets if isinstance(target, ast.Attribute)]
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_no_other_module_sets_the_state_of_a_job_or_writes_its_steps(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for target in assigned(tree):
        whose = target.value.id if isinstance(target.value, ast.Name) else ast.unparse(target.value)
        is_job_made = path.name == "job.py" and whose == "self"
        assert target.attr != "state" or whose in OTHERS or is_job_made or path.name == RESTORING, ast.unparse(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EVENTS:
            assert not ast.unparse(node.func.value).endswith("log"), ast.unparse(node)


def engine_with_a_job() -> Engine:
    engine = Engine(bytes(32), 1, NOW)
    engine.enqueue(Context(), Batch(Options(), [b"x"]), NOW)
    return engine


@pytest.mark.parametrize("cause", range(len(state.CAUSE_NAMES)), ids=lambda cause: state.CAUSE_NAMES[cause])
def test_step_that_is_not_in_the_table_is_a_bug_and_changes_nothing(cause: int) -> None:
    engine = engine_with_a_job()
    w = engine._w
    job = w.index.get(1)
    assert job is not None
    q = w.queue_of(job)
    before = (int(job.state), int(job.seq), w.log.seq, q.live(), engine.verify())
    for after in range(state.STATES):
        if not state.allows(cause, state.READY, after):
            with pytest.raises(AssertionError, match=state.CAUSE_NAMES[cause]):
                transition(w, q, job, cause, after)
    assert (int(job.state), int(job.seq), w.log.seq, q.live(), engine.verify()) == before


def test_every_step_has_a_type_of_event() -> None:
    for cause, (sources, targets) in state.TRANSITIONS.items():
        for before in sources:
            for after in targets:
                if state.allows(cause, before, after):
                    assert 0 <= event.type_of_step(cause, after) < len(event.EVENT_NAMES)
