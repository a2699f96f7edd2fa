"""The engine against the model, with the store's file between its lives."""

from hypothesis import HealthCheck, Phase, settings

from tests.model.filed import FileMachine

TestModelThroughTheFile = FileMachine.TestCase
TestModelThroughTheFile.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
