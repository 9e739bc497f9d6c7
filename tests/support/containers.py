"""Servers in containers, through testcontainers, where a container engine answers.

The engine is asked once a run. ``ECHOMQ_TEST_CONTAINERS=0`` leaves it out, ``=1``
demands it. ``ECHOMQ_TEST_REDIS_IMAGE`` and ``ECHOMQ_TEST_VALKEY_IMAGE`` name other images.
"""

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import attrs

from support.server_files import KINDS
from support.servers import Engine, free_port, wait_until_ready

__all__ = ["ContainerServer", "engine_answers", "start_container"]

IMAGES = {"redis": "redis:7", "valkey": "valkey/valkey:9"}
DEFAULT_SOCKET = Path("/var/run/docker.sock")


@functools.cache
def engine_answers() -> bool:
    """Tell whether containers can be run here.

    Raises:
        RuntimeError: None can, and ``ECHOMQ_TEST_CONTAINERS=1`` demands them.
    """
    wish = os.environ.get("ECHOMQ_TEST_CONTAINERS", "")
    answers = wish != "0" and _ask_engine()
    if wish == "1" and not answers:
        raise RuntimeError("ECHOMQ_TEST_CONTAINERS=1, but no container engine answers; see DOCKER_HOST")
    return answers


def _ask_engine() -> bool:
    if not os.environ.get("DOCKER_HOST") and not DEFAULT_SOCKET.exists():
        return False
    import docker
    from docker.errors import DockerException

    try:
        with contextlib.closing(docker.from_env(timeout=5)) as client:
            return bool(client.ping())
    except DockerException:
        return False


@attrs.define(kw_only=True)
class ContainerServer:
    """A server in a container, published on one port of this machine."""

    container: Any
    host: str
    port: int

    def start(self) -> None:
        """See :meth:`Engine.start`."""
        self.container.get_wrapped_container().start()
        wait_until_ready(self.host, self.port)

    def stop(self) -> None:
        """See :meth:`Engine.stop`."""
        self.container.get_wrapped_container().stop(timeout=10)

    def kill(self) -> None:
        """See :meth:`Engine.kill`."""
        self.container.get_wrapped_container().kill()

    def pause(self) -> None:
        """See :meth:`Engine.pause`."""
        self.container.get_wrapped_container().pause()

    def resume(self) -> None:
        """See :meth:`Engine.resume`."""
        self.container.get_wrapped_container().unpause()

    def close(self) -> None:
        """See :meth:`Engine.close`."""
        self.container.stop()


def start_container(name: str) -> Engine | None:
    """Start a server in a container, or return None where no engine answers or the image is not to be had.

    Args:
        name: ``"redis"`` or ``"valkey"``; other names have no image here.
    """
    image = os.environ.get(f"ECHOMQ_TEST_{name.upper()}_IMAGE") or IMAGES.get(name)
    if image is None or not engine_answers():
        return None
    from docker.errors import DockerException
    from testcontainers.community.redis import RedisContainer
    from testcontainers.community.valkey import ValkeyContainer

    kind = {"redis": RedisContainer, "valkey": ValkeyContainer}[KINDS[name].family]
    port = free_port()  # chosen here, since a container that is started again would get another one
    container = kind(image).with_bind_ports(6379, port)
    try:
        container.start()
        host = container.get_container_host_ip()
        wait_until_ready(host, port)
    except (DockerException, TimeoutError):
        container.stop()
        if os.environ.get("ECHOMQ_TEST_CONTAINERS") == "1":
            raise
        return None
    return ContainerServer(container=container, host=host, port=port)
