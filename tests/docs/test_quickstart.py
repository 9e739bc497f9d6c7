"""The two programs of the quickstart do together what the page says."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from support.server_files import CHECKOUT
from support.servers import Server

WITHIN_S = 180.0
FILE = re.compile(r"^```python fragment\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_two_programs(redis_server: Server, tmp_path: Path) -> None:
    """The worker fails the first attempt and tells so, the sender gets the result of the second one, Ctrl-C ends it."""
    for name, code in FILE.findall((CHECKOUT / "docs" / "quickstart.md").read_text("utf-8")):
        (tmp_path / name).write_text(code, "utf-8")
    env = {**os.environ, "ECHOMQ_URL": redis_server.url, "PYTHONUNBUFFERED": "1"}
    worker = subprocess.Popen(
        [sys.executable, "-m", "echomq", "worker", "app:make_worker"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        sent = subprocess.run(
            [sys.executable, "send.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=True,
        )
        assert sent.stdout.startswith("mail to grace@example.org\n2 attempts, log: ['sending']\nTraceback")
        worker.send_signal(signal.SIGINT)
        told, _ = worker.communicate(timeout=WITHIN_S)
        assert worker.returncode == 0
        assert "job 1 failed: the mail server sleeps" in told
    finally:
        worker.kill()
        worker.wait()
