"""Adding jobs when a session of SQLAlchemy has committed, so that no worker looks for a row that is not there."""

from .commit import on_commit

__all__ = ["on_commit"]
