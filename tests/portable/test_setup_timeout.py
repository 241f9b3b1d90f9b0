"""The timeout of setup commands, with and without the program `timeout`."""

import os
import subprocess

import pytest

from gascity.control.launch import with_timeout


@pytest.mark.parametrize("path", [os.environ["PATH"], "/nowhere"], ids=["program", "none"])
def test_a_command_that_takes_too_long_is_ended(path: str) -> None:
    def status(command: str, seconds: float) -> int:
        bounded = with_timeout(command, seconds, {"PATH": path})
        return subprocess.run(["/bin/sh", "-c", bounded], timeout=60).returncode

    assert status("sleep 1000; echo never", 0.2) == 124
    assert status("exit 7", 60) == 7
    assert status('test "$(echo it\\\'s)" = "it\'s"', 60) == 0
