# Everything sets itself up in .venv from Python 3.11 or newer; nothing else is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TESTS ?= tests notebooks

.PHONY: app host lab docs test tests test-lowest nightly lint notebooks exercises slides study report screenshots bench clean

app: $(VENV)/app
	$(BIN)/python -m explorer

# For many people, behind a proxy: a server per core and one pool of workers. EXPLORER_ORIGIN and the other settings that
# `python -m explorer host --help` lists are environment variables; make passes them on.
host: $(VENV)/app
	exec $(BIN)/python -m explorer host

lab: $(VENV)/lab
	$(BIN)/jupyter lab notebooks

# The documentation in build/docs, with the course's pictures, which the first time takes minutes; it needs no network to
# build or to read. Warnings are errors.
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -b html -t pictures docs build/docs

# Unit and property tests, the notebooks (by nbval), the browser test, the documentation built without its pictures, and
# the examples in docstrings; a file of tests on each core at a time.
test: lint tests
	$(BIN)/python -m pytest -q --doctest-modules explorer/accounting explorer/learning

# The tests alone; TESTS="tests/pages tests/interface" runs these.
tests: $(VENV)/test
	$(BIN)/python -m pytest -n auto --dist loadfile --nbval --nbval-current-env $(TESTS)

# The tests with the oldest versions that pyproject.toml allows, in .venv-lowest: make PYTHON=python3.11 test-lowest
test-lowest:
	mkdir -p build
	sed -nE 's/^ *"([A-Za-z0-9_.-]+)(\[[a-z]+\])?>=([0-9.]+)",?$$/\1==\3/p' pyproject.toml | sort -u > build/lowest.txt
	PIP_CONSTRAINT=$(CURDIR)/build/lowest.txt $(MAKE) VENV=.venv-lowest tests

# The same suite with what is not released yet, in .venv-nightly: what will break next.
nightly:
	rm -f .venv-nightly/test
	PIP_PRE=1 PIP_UPGRADE=1 PIP_UPGRADE_STRATEGY=eager $(MAKE) VENV=.venv-nightly tests

# Runs the notebooks and stores them as the tests ask for; `make notebooks ONLY="02 03"` runs these two.
notebooks: $(VENV)/notebooks
	$(BIN)/python notebooks/course.py execute $(ONLY)

# Copies without solutions for students, in build/exercises; it takes ONLY too.
exercises: $(VENV)/notebooks
	$(BIN)/python notebooks/course.py exercises $(ONLY)

# Slides that need no network, in build/slides; it takes ONLY too.
slides: $(VENV)/notebooks
	$(BIN)/python notebooks/course.py slides $(ONLY)

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python # without looking up a newer pyright

# The paper's experiments, an hour or two on two cores; after an interruption, what is missing of them. Adult comes from
# the folder EXPLORER_DATA_HOME, or from OpenML.
study: $(VENV)/app
	$(BIN)/python -m explorer.study --output explorer/study/results/paper.csv

# docs/results.md and its plots from that table.
report: $(VENV)/app
	$(BIN)/python -m explorer.study.report

# README's picture; and with ALL=folder every page there, in three modes and two widths, to look at.
screenshots: $(VENV)/test
	$(BIN)/python -m tests.ui.screenshots $(ALL)

# Ratios and times measured side by side; never part of the tests.
bench: $(VENV)/bench
	for script in tests/benchmarks/*.py; do \
		name=tests.benchmarks.$$(basename $$script .py); echo "== $$name"; $(BIN)/python -m $$name || exit 1; \
	done

clean:
	rm -rf .venv .venv-lowest .venv-nightly build

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.11 app"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/app: $(VENV)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/lab $(VENV)/notebooks $(VENV)/docs $(VENV)/test $(VENV)/bench: $(VENV)/%: $(VENV)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@
