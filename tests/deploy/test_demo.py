"""The demo while it is stopped: its servers may be gone before its processes are, and are not started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from deploy.embedded.environment import ROOT

# Redis answers as long as the file is there; the one process takes two looks to end.
DEMO = """
import sys, time
from pathlib import Path
from deploy.embedded import demo, redis

demo.announce = lambda url, started: print("ready", flush=True)
demo.redis.answers = lambda url: Path(sys.argv[1]).exists()
demo.redis.start = lambda folder: Path(sys.argv[1]).touch()
with demo.kept({"GPUAAS_BROKER_URL"}) as over:
    demo.serve(time.monotonic(), sys.argv[2], over)
"""
SLOW = "trap '' TERM; echo runs; n=0; while [ $n -lt 25 ]; do n=$((n+1)); sleep 0.1; done\n"


def test_a_server_that_leaves_with_the_demo_is_not_started_again(tmp_path: Path) -> None:
    there, procfile, slow = (tmp_path / name for name in ("redis", "Procfile", "slow"))
    there.touch()
    slow.write_text(SLOW)
    procfile.write_text(f"slow: sh {slow}\n")
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO, str(there), str(procfile)],
        cwd=ROOT,
        env={**os.environ, "GPUAAS_DEMO_FOLDER": str(tmp_path), "GPUAAS_BROKER_URL": "redis://", "PORT": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if "runs" in line:
            there.unlink()
            demo.send_signal(signal.SIGINT)
            break
    told = "".join([*lines, *demo.stdout])
    assert demo.wait(timeout=20) == 0
    assert "SIGINT received" in told
    assert "started again" not in told
    assert not there.exists()
