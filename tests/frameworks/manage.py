"""The shop's ``manage.py``, for tests that need a process of their own."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "frameworks.shop.settings")
    execute_from_command_line(sys.argv)
