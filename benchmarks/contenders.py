"""Who is measured: how each peer is installed, into a Python of its own, and started."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

__all__ = ["CONTENDERS", "NODE_FOLDER", "Contender", "command_of", "last_line"]

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / "benchmarks"
NODE_FOLDER = CACHE / "node"


@attrs.frozen(kw_only=True)
class Contender:
    """One job queue.

    Attributes:
        title: As tables show it.
        program: File in ``peers/``.
        wants: What pip installs for it; empty for what runs in this Python, or in Node.
        server: Kind of server it works on.
        size: Share of a scenario's jobs it is given, so that each run lasts about as long.
        shares_keys: Whether it speaks the shared protocol, and so can be filled and checked from outside.
        loop: Event loop it runs in; empty for that of the standard library.
    """

    title: str
    program: str
    wants: tuple[str, ...] = ()
    server: str = "redis"
    size: float = 0.05
    shares_keys: bool = False
    loop: str = ""


CONTENDERS = {
    "echomq": Contender(title="EchoMQ", program="echomq_peer.py", size=1, shares_keys=True),
    "echomq_uvloop": Contender(
        title="EchoMQ with uvloop", program="echomq_peer.py", size=1, shares_keys=True, loop="uvloop"
    ),
    "echomq_valkey": Contender(
        title="EchoMQ on Valkey", program="echomq_peer.py", server="valkey", size=1, shares_keys=True
    ),
    "bullmq_node": Contender(title="BullMQ 6.7.0, Node", program="bullmq_node.mjs", size=1, shares_keys=True),
    "bullmq_python": Contender(
        title="BullMQ 3.4.4, Python",
        program="bullmq_python.py",
        wants=("bullmq==3.4.4", "redis[hiredis]==8.1.0"),
        size=0.2,
        shares_keys=True,
    ),
    "arq": Contender(title="arq 0.28.0", program="arq_peer.py", wants=("arq==0.28.0", "redis[hiredis]")),
    "saq": Contender(
        title="saq 0.26.4", program="saq_peer.py", wants=("saq[redis,hiredis]==0.26.4", "typing_extensions")
    ),
    "taskiq": Contender(title="taskiq-redis 1.2.4", program="taskiq_peer.py", wants=("taskiq-redis==1.2.4",)),
    "streaq": Contender(title="streaQ 7.2.0", program="streaq_peer.py", wants=("streaq==7.2.0",)),
    "dramatiq": Contender(title="dramatiq 2.2.1", program="dramatiq_peer.py", wants=("dramatiq[redis]==2.2.1",)),
    "rq": Contender(title="RQ 3.0.0", program="rq_peer.py", wants=("rq==3.0.0",)),
    "celery": Contender(title="Celery 5.7.0", program="celery_peer.py", wants=("celery[redis]==5.7.0",)),
    "huey": Contender(title="huey 3.5.4", program="huey_peer.py", wants=("huey==3.5.4", "redis"), size=0.1),
}


def command_of(name: str) -> list[str] | None:
    """Install a contender into the cache if it is not there, and return how to start it; None without Node."""
    contender = CONTENDERS[name]
    program = str(HERE / "peers" / contender.program)
    if program.endswith(".mjs"):
        return ["node", program] if _node_is_ready() else None
    if not contender.wants:
        return [sys.executable, program]
    folder = CACHE / name
    ready = folder / "ready.json"
    if not ready.exists() or json.loads(ready.read_text("utf-8")) != list(contender.wants):
        print(f"installing {contender.title} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *contender.wants], check=True)
        ready.write_text(json.dumps(contender.wants), "utf-8")
    return [str(folder / "bin" / "python"), program]


def _node_is_ready() -> bool:
    if not (shutil.which("node") and shutil.which("npm")):
        return False
    if not (NODE_FOLDER / "node_modules" / "bullmq").is_dir():
        NODE_FOLDER.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--silent", "--no-save", "bullmq@6.7.0", "ioredis@6.0.0"]
        subprocess.run(install, cwd=NODE_FOLDER, check=True)
    return True


def last_line(text: str) -> dict[str, Any]:
    """Read a program's result: its last line, since some peers greet on standard output."""
    result: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return result
