"""Tasks that no ``tasks.py`` imports."""

from echomq_django.framework import task

__all__ = ["double"]


@task
def double(number: int) -> int:
    """Count twice."""
    return 2 * number
