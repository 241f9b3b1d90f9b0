import pytest

pytest.register_assert_rewrite("tests.runtimes.bench", "tests.runtimes.contract")
