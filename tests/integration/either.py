"""Django's tasks: a part of Django 6, before that the package `django-tasks`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING or find_spec("django.tasks") is None:
    from django_tasks import TaskContext, task, task_backends
    from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch
    from django_tasks.signals import task_enqueued, task_finished, task_started
else:
    from django.tasks import TaskContext, task, task_backends
    from django.tasks.exceptions import InvalidTask as InvalidTaskError
    from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started

__all__ = [
    "InvalidTaskError",
    "TaskContext",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
