"""Settings of the shop; what differs from run to run comes from the environment."""

import os
from pathlib import Path

import django

FOLDER = Path(os.environ["SHOP_FOLDER"])
DEBUG = False
SECRET_KEY = "known to everybody"
USE_TZ = True
INSTALLED_APPS = ["echomq_django", "frameworks.shop", *(() if django.VERSION >= (6, 0) else ("django_tasks",))]
DATABASES = {
    alias: {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / f"{alias}.sqlite3"}
    for alias in ("default", "audit")
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {
    "default": {
        "BACKEND": "echomq_django.backend.EchoMQBackend",
        "QUEUES": ["default", "emails"],
        "OPTIONS": {
            "url": os.environ.get("SHOP_URL", "redis://127.0.0.1:1"),
            "prefix": os.environ.get("SHOP_PREFIX", "shop"),
        },
    },
}
