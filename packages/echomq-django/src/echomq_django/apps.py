"""The application, for ``INSTALLED_APPS``."""

from django.apps import AppConfig

__all__ = ["EchoMQConfig"]


class EchoMQConfig(AppConfig):
    """Brings the command ``echomq_worker``."""

    name = "echomq_django"
    verbose_name = "EchoMQ"
