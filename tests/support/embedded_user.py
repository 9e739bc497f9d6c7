"""A process that uses an embedded server, told what to do line by line on its standard input.

``start URL`` answers with the server's URL; ``pid`` with the process id of the server;
``set VALUE`` and ``get`` store and read one key; ``close`` ends the use; ``fork`` lets a
child start, use and leave the same server and end normally. The end of the input ends the process.
"""

import os
import signal
import sys

from echomq import embedded
from echomq.call import Command
from echomq.sync import connect


def _send(url: str, *parts: str) -> str:
    link = connect(url)
    try:
        return link.send(Command(parts=parts, decode=lambda reply: "" if reply is None else bytes(reply).decode()))
    finally:
        link.close()


def server_pid(url: str) -> int:
    """Return the process id of the server at a URL."""
    info = _send(url, "INFO", "server")
    return int(info.partition("process_id:")[2].split()[0])


def _fork(url: str) -> str:
    child = os.fork()
    if child == 0:
        with embedded.start(url) as use:
            _send(use.url, "PING", "child")
        sys.exit(0)
    return str(os.waitpid(child, 0)[1])


def main() -> None:
    """Obey until the input ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background processes that ignore it
    uses: list[embedded.Embedded] = []
    started = ""
    for line in sys.stdin:
        order, _, value = line.strip().partition(" ")
        answer = "ok"
        if order == "start":
            started = value
            uses.append(embedded.start(value))
            answer = uses[-1].url
        elif order == "pid":
            answer = str(server_pid(uses[-1].url))
        elif order == "set":
            answer = str(_send(uses[-1].url, "SET", "echomq-test", value))
        elif order == "get":
            answer = _send(uses[-1].url, "GET", "echomq-test")
        elif order == "close":
            uses.pop().close()
        elif order == "fork":
            answer = _fork(started)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
