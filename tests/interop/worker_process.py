"""Our worker in a process of its own, until SIGTERM: ``python worker_process.py URL PREFIX OPTIONS``.

It does what a job's data says; the line ``ready`` on standard output tells that it works.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from echomq import Worker
from interop.processing import work


def main(url: str, prefix: str, options: str) -> None:
    """Work until told to end."""
    worker = Worker("mail", work, url, prefix=prefix, **json.loads(options))
    worker.on("ready", lambda: print("ready", flush=True))
    worker.run_sync()


if __name__ == "__main__":
    main(*sys.argv[1:])
