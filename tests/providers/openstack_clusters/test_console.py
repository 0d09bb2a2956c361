"""What is read of the console of a machine that is silent: one line, whatever was written there."""

import pytest

from gpuaas.providers.openstack.clusters.health import LINE_MOST, console_line

SENTENCE = "at the stage packages: apt-get update failed: no route to the mirror"


@pytest.mark.parametrize(
    ("output", "line", "ours"),
    [
        ("", "", False),
        ("\n \n\t\n", "", False),
        ("[    0.000000] Linux version 6.12\r\nc-1-gpu-1 login: ", "c-1-gpu-1 login:", False),
        (f"boot\r\ngpuaas: {SENTENCE}\r\n\r\nDebian GNU/Linux 12 tty1\n\nc-1-gpu-1 login: ", SENTENCE, True),
        (f"gpuaas: an earlier one\ngpuaas: {SENTENCE}\n", SENTENCE, True),
        (f"[  OK  ] Started cron.\x1b[0m gpuaas: {SENTENCE}\n", SENTENCE, True),
        ("\x1b[1;31mE:\x1b[0m  disk\x00 \x9b is\tfull \x07\n", "E: disk is full", False),
        ("45%\r90%\rno space left\n", "no space left", False),
        ("a" * 2000, "a" * LINE_MOST, False),
    ],
)
def test_of_a_console_one_clean_line_is_read(output: str, line: str, ours: bool) -> None:
    assert console_line(output) == (line, ours)
