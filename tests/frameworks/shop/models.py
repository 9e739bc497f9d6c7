"""What the shop stores."""

from __future__ import annotations

from django.db import models

__all__ = ["Order"]


class Order(models.Model):
    """What somebody bought."""

    item: models.CharField[str, str] = models.CharField(max_length=100)
    is_packed: models.BooleanField[bool, bool] = models.BooleanField(default=False)

    class Meta:
        """Where it belongs."""

        app_label = "shop"

    def __str__(self) -> str:
        return str(self.item)
