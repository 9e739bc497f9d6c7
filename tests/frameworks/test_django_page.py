"""The page about Django is a project: its files are written, and it is run."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import django
import pytest

from echomq_django.framework import Task
from support.server_files import CHECKOUT
from support.servers import Server

PAGE = CHECKOUT / "docs" / "django.md"
FILE = re.compile(r'^```python title="([\w/.]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
AROUND = {
    "shop/__init__.py": "",
    "mysite/__init__.py": "",
    "shop/models.py": (
        "from django.db import models\n\n\nclass Order(models.Model):\n"
        "    item = models.CharField(max_length=100)\n    is_packed = models.BooleanField(default=False)\n"
    ),
    "manage.py": (
        "import os, sys\nfrom django.core.management import execute_from_command_line\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'mysite.settings'\nexecute_from_command_line(sys.argv)\n"
    ),
}
"""What every project has, and the page need not show."""

DATABASE = """
SECRET_KEY = "known to everybody"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
"""
BUY = """
from shop.orders import buy
from shop.results import story
from shop.signup import signup, mails
result = buy("lamp", "ada")
signup("ada")
print(result.id, mails.count(), story(result.id))
"""


@pytest.fixture
def manage(tmp_path: Path, redis_server: Server, prefix: str) -> Callable[..., str]:
    """Runs a command of the page's project."""
    files = {**AROUND, **dict(FILE.findall(PAGE.read_text("utf-8")))}
    files["mysite/settings.py"] += DATABASE
    for name, text in files.items():
        code = text.replace('"url": "redis://localhost"', f'"url": "{redis_server.url}", "prefix": "{prefix}"')
        code = code.replace('"redis://localhost"', f'"{redis_server.url}", prefix="{prefix}"')
        if not Task.__module__.startswith("django."):
            code = code.replace("django.tasks", "django_tasks").replace('"shop"]', '"shop", "django_tasks"]')
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, "utf-8")

    def run(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONWARNINGS": "error"}
        del environment["DJANGO_SETTINGS_MODULE"]
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_page_runs(manage: Callable[..., str]) -> None:
    """The project of the page passes its own tests and checks, and its worker does what it says."""
    assert "OK" in manage("test")
    manage("migrate", "--run-syncdb")
    result_id, mails, status = manage("shell", "-c", BUY).splitlines()[-1].split(" ")[:3]
    assert (mails, status) == ("2", "READY")
    printed = manage("echomq_worker", "--until-drained", "--concurrency", "2")
    assert printed.startswith("Working queues default, emails of 'default', 2 at a time")
    told = manage("shell", "-c", f"from shop.results import story; print(story({result_id!r}))")
    assert told.strip().endswith("lamp packed in attempt 1")


def test_framework_is_that_of_the_version() -> None:
    """Django's own tasks are used from 6.0 on, their backport before."""
    assert Task.__module__ == ("django.tasks.base" if django.VERSION >= (6, 0) else "django_tasks.base")
