"""A plain connection to each server in turn."""

from vectors.conftest import raw_client

__all__ = ["raw_client"]
