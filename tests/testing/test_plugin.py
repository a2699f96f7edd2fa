"""The pytest plugin, as somebody else's tests use it."""

import os
import sys

import pytest

from tenure import testing

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

SHOP = """
    import tenure

    app = tenure.App("tenure://nowhere:1", name="shop")

    @app.task
    async def double(n: int) -> int:
        return 2 * n
"""


@pytest.fixture
def shop(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return pytester


def run(shop: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return shop.runpytest_subprocess("-p", "tenure.testing.plugin", "-p", "no:xdist", "-q", *arguments)


def test_fixtures_take_the_app_of_the_ini_file(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\ntenure_app = shop:app\npythonpath = .\nasyncio_mode = auto\n")
    shop.makepyfile(
        test_shop="""
        from shop import app, double
        from tenure.testing import advance, assert_enqueued, run_all, run_all_sync

        def test_inline(tenure_inline):
            assert double.enqueue_sync(2).result_sync() == 4

        def test_manual(tenure_manual, tenure_clock):
            job = double.options(delay="1h").enqueue_sync(2)
            assert_enqueued(double, n=2)
            assert run_all_sync(app) == 0
            tenure_clock.advance("1h")
            assert run_all_sync(app) == 1
            assert job.result_sync() == 4

        async def test_in_a_loop(tenure_manual):
            job = await double.enqueue(2)
            async with app:
                assert await run_all(app) == 1
                assert await job.result() == 4

        def test_each_test_begins_with_nothing(tenure_manual):
            assert run_all_sync(app) == 0
            assert tenure_manual.sent == []
            assert_enqueued(double, n=3)
        """
    )
    result = run(shop)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*double(n=3) was not enqueued. Nothing was enqueued.*"])


def test_fixture_of_the_user_says_which_app(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_shop="""
        import pytest
        from shop import app, double

        @pytest.fixture
        def tenure_app():
            return app

        def test_inline(tenure_inline):
            assert double.enqueue_sync(2).result_sync() == 4
        """
    )
    run(shop, "-o", "pythonpath=.").assert_outcomes(passed=1)


def test_missing_app_is_said(shop: pytest.Pytester) -> None:
    shop.makepyfile(test_shop="def test_inline(tenure_inline): ...")
    result = run(shop)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*say which app is tested: tenure_app = module:app*"])


def test_who_does_not_use_it_does_not_notice(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_other="""
        import sys

        def test_nothing_is_opened():
            assert "tenure.testing.plugin" in sys.modules
            assert not {"tenure.app.app", "tenure.testing.mode", "fastapi", "django", "PIL"} & sys.modules.keys()
        """
    )
    run(shop, "-p", "no:asyncio", "-W", "error", "--strict-markers").assert_outcomes(passed=1)


def test_public_names_are_there() -> None:
    assert set(testing.__all__) <= set(dir(testing))
    assert all(getattr(testing, name) for name in testing.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = testing.nothing  # type: ignore[attr-defined]
