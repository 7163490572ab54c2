"""The built-in tasks."""

from speclocal.jobs.tasks import built_in_tasks


def test_there_is_a_task_of_every_kind() -> None:
    tasks = built_in_tasks()
    assert [task.kind for task in tasks] == ["chat", "summary", "code edit", "extraction", "prose"]
    assert len({task.name for task in tasks}) == len(tasks)
    assert all(len(task.text) > 40 for task in tasks)
