# The one door to the project: `make` prints what it can do. Needs make and Python >= 3.11, nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# Two test workers with one BLAS thread each: more threads than cores make everything slower.
# SCIPY_ARRAY_API must be set before scipy is imported, or scikit-learn skips its array API checks.
TEST_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 SCIPY_ARRAY_API=1

.DEFAULT_GOAL := help
.PHONY: help demo test lint format slow bench calibration paper paper-quick examples clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## Fit a regressor and a classifier, print their intervals' coverage, draw a picture
	@$(BIN)/python examples/demo.py --output doc/_build/demo.png

test: $(STAMP) ## Run the tests and the doctests (minutes)
	$(TEST_ENV) $(BIN)/python -m pytest -n 2

lint: $(STAMP) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# addopts keeps tests/slow out of `make test`; here it is emptied
slow: .venv/.bayes ## Run the slow tests of the statistical promises (long)
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 -o addopts="" tests/slow

bench: $(STAMP) ## Measure speed and memory against the base fit and a bare matrix product
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_calibration.py cost
	$(BIN)/python benchmarks/bench_curvature.py

calibration: $(STAMP) ## Measure calibration on real data: California Housing, UCI, Adult (an hour)
	$(BIN)/python benchmarks/bench_calibration.py california
	$(BIN)/python benchmarks/bench_calibration.py uci
	$(BIN)/python benchmarks/bench_calibration.py adult

paper: .venv/.bayes ## Make the paper's tables and figures again, and the page about them (an hour)
	$(BIN)/python benchmarks/paper/run.py --page

paper-quick: .venv/.bayes ## The same with fewer trials (minutes)
	$(BIN)/python benchmarks/paper/run.py --quick

examples: $(STAMP) ## Run every script of the gallery, without a window (a minute or two)
	@set -e; for script in examples/plot_*.py; do echo "$$script"; \
	MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 $(BIN)/python -W error::UserWarning $$script > /dev/null; done

clean: ## Remove caches, build output and benchmark results; the virtual environment stays
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .coverage htmlcov doc/_build benchmarks/results
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.venv/.bayes: $(STAMP)
	$(BIN)/python -m pip install --quiet -e ".[bayes]"
	@touch $@

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("skribbon needs Python 3.11 or newer, but \
	$(PYTHON) is %d.%d: try make PYTHON=/path/to/python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[test,lint]"
	@touch $@
