# Everything sets itself up in .venv from Python 3.11 or newer; nothing else is needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: app host lab test lint notebooks exercises slides study report screenshots bench clean

app: .venv/app
	$(BIN)/python -m explorer

# For many people, behind a proxy: a server per core and one pool of workers. EXPLORER_ORIGIN and the other settings that
# `python -m explorer host --help` lists are environment variables; make passes them on.
host: .venv/app
	exec $(BIN)/python -m explorer host

lab: .venv/lab
	$(BIN)/jupyter lab notebooks

# Unit and property tests, the notebooks (by nbval), the browser test, and the examples in docstrings; a file of tests on
# each core at a time.
test: .venv/test lint
	$(BIN)/python -m pytest -n auto --dist loadfile --nbval --nbval-current-env tests notebooks
	$(BIN)/python -m pytest -q --doctest-modules explorer/accounting explorer/learning

# Runs the notebooks and stores them as the tests ask for; `make notebooks ONLY="02 03"` runs these two.
notebooks: .venv/notebooks
	$(BIN)/python notebooks/course.py execute $(ONLY)

# Copies without solutions for students, in build/exercises; it takes ONLY too.
exercises: .venv/notebooks
	$(BIN)/python notebooks/course.py exercises $(ONLY)

# Slides that need no network, in build/slides; it takes ONLY too.
slides: .venv/notebooks
	$(BIN)/python notebooks/course.py slides $(ONLY)

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The paper's experiments, an hour or two on two cores; after an interruption, what is missing of them. Adult comes from
# the folder EXPLORER_DATA_HOME, or from OpenML.
study: .venv/app
	$(BIN)/python -m explorer.study --output explorer/study/results/paper.csv

# README's results and their plots from that table.
report: .venv/app
	$(BIN)/python -m explorer.study.report

# README's picture; and with ALL=folder every page there, in three modes and two widths, to look at.
screenshots: .venv/test
	$(BIN)/python -m tests.ui.screenshots $(ALL)

# Ratios and times measured side by side; never part of the tests.
bench: .venv/bench
	for script in tests/benchmarks/*.py; do \
		name=tests.benchmarks.$$(basename $$script .py); echo "== $$name"; $(BIN)/python -m $$name || exit 1; \
	done

clean:
	rm -rf .venv

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.11 app"; exit 1; }
	$(PYTHON) -m venv .venv
	touch $@

.venv/app: .venv/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/lab .venv/notebooks .venv/test .venv/bench: .venv/%: .venv/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@
