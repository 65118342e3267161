"""The engine without processes and threads, alone and where Python has neither, as in a browser."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import sklearn
from work import Unreadable, fail, fail_unreadably, square

from explorer.compute import PoolFull
from explorer.compute.inline import InlineEngine

PACKAGE = Path(__file__).parents[2] / "explorer"

# Scikit-learn 1.9 loads multiprocessing.connection, which before Python 3.13 cannot be loaded without _multiprocessing.
LIBRARIES_DO_WITHOUT = sys.version_info >= (3, 13) or not (Path(sklearn.__file__).parent / "callback").is_dir()

# What Pyodide lacks; and none of the package's own modules may ask for processes, even where they could be had.
WITHOUT_PROCESSES = (
    f"""
absent = {("_multiprocessing", "_posixshmem") if LIBRARIES_DO_WITHOUT else ()}
"""
    + """
import builtins, importlib, sys, threading

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def refuse(self):
    raise RuntimeError("can't start new thread")

def guarded(name, namespace=None, *arguments, **named):
    own = ((namespace or {}).get("__name__") or "").startswith("explorer")
    if own and name.partition(".")[0] in ("multiprocessing", "_multiprocessing"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return imported(name, namespace, *arguments, **named)

sys.meta_path.insert(0, Absent())
threading.Thread.start = refuse
imported, builtins.__import__ = builtins.__import__, guarded
"""
)


def run_without_processes(code):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_PROCESSES + code], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_job_has_run_when_it_was_submitted():
    job = InlineEngine().submit(square, x=7)
    assert (job.done(), job.started, job.pid) == (True, True, os.getpid())
    assert job.result(0) == 49
    assert list(job.messages) == ["squaring", 7]


def test_errors_are_those_of_the_other_engines():
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        InlineEngine().submit(fail).result(0)
    # Where another test has loaded Dask, its tblib lets pickle read what it could not, and the error is itself.
    with pytest.raises((RuntimeError, Unreadable), match="no third way"):
        InlineEngine().submit(fail_unreadably).result(0)
    engine = InlineEngine()
    engine.close("closed for the day")
    with pytest.raises(PoolFull, match="closed for the day"):
        engine.submit(square, x=1).result(0)


def test_answers_are_there_at_once_and_remembered():
    engine, work = InlineEngine(), partial(list, (1, 2))
    with pytest.raises(KeyError):
        engine.recall(work)
    engine.answer(work).result(0).append(3)
    assert engine.recall(work) == [1, 2]
    calls = []
    for _ in range(2):
        engine.answer(lambda: calls.append(1)).result(0)  # cannot be pickled
    assert calls == [1, 1]
    with pytest.raises(ZeroDivisionError):
        engine.answer(partial(divmod, 1, 0)).result(0)


def test_pages_are_imported_and_work_is_done_where_there_are_no_processes():
    names = ["explorer.compute", "explorer.compute.inline", "explorer.study", "explorer.app"] + [
        ".".join(("explorer", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for folder in ("accounting", "learning", "interface", "pages")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        if path.stem != "dask_records"  # of an extra, which asks for processes when it is loaded (Dask 2024.8)
    ]
    code = f"""
for name in {names!r}:
    importlib.import_module(name)
from explorer import compute
import work
print(type(compute.engine()).__name__, compute.engine().submit(work.fit).result()[1:])
"""
    assert run_without_processes(code) == "InlineEngine ((5,), 1.0)\n"


def test_the_block_is_a_block():
    """The test above would pass without it; so is shown that it fails what must fail."""
    code = """
for name in ("explorer.compute.local", "explorer.compute.remote", "explorer.hosting.supervisor"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error.name)
"""
    assert set(run_without_processes(code).split()) == {"multiprocessing"}
    assert run_without_processes("print('multiprocessing.forkserver' in sys.modules)") == "False\n"
