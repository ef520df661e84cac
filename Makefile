# The one door to the project: `make` prints what it can do. Needs make and Python >= 3.11, nothing else.
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PACKAGE := .venv/.package
STAMP := .venv/.installed
FLOOR := .venv-floor
NIGHTLY := .venv-nightly
TORCHED := .venv-torch
# A CPU build is enough: other wheels bring gigabytes of CUDA packages on Linux. TORCH_INDEX may be the address of an index
# of CPU builds, from which pip takes 2.13.0+cpu for this version.
TORCH ?= torch==2.13.0
# What other versions could break. Pages and doctests print numbers of the newest versions and stay out.
FLOOR_TESTS := tests/conformal tests/core tests/curvature tests/estimators tests/inspection tests/laws tests/metrics \
	tests/models tests/noise tests/plotting tests/predict tests/properties tests/test_oracles.py

# Two test workers with one BLAS thread each: more threads than cores make everything slower.
# SCIPY_ARRAY_API must be set before scipy is imported, or scikit-learn skips its array API checks.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
TEST_ENV := $(ONE_THREAD) SCIPY_ARRAY_API=1
NO_WINDOW := MPLBACKEND=Agg
# The same commit gives the same sdist and wheel, byte by byte, whenever and wherever they are built.
EPOCH = $(shell git log -1 --format=%ct 2> /dev/null || echo 1577836800)

.DEFAULT_GOAL := help
.NOTPARALLEL:  # every target installs into the same .venv
.PHONY: help demo test coverage floor nightly torch lint size format hooks check slow fuzz bench calibration networks paper paper-quick release results doc examples animation browser build clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(PACKAGE) ## Fit a regressor and a classifier, print their intervals' coverage, draw a picture
	@$(BIN)/python examples/demo.py --output doc/_build/demo.png

# Continuous integration, which sets CI, measures its one run of the tests; tracing takes half as long again.
test: $(STAMP) ## Run the tests, the doctests and the code of the pages (minutes)
ifdef CI
	@$(BIN)/coverage erase
	$(TEST_ENV) $(BIN)/coverage run -m pytest -n 2 --dist worksteal
	@$(BIN)/coverage combine --quiet
	@$(BIN)/python tests/coverage_report.py
else
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal
endif

coverage: ## Run the tests as continuous integration does, and list what none of them reaches (minutes)
	@$(MAKE) test CI=true

floor: $(FLOOR)/.installed ## Run most tests with the oldest versions that setup.cfg allows (minutes)
	$(TEST_ENV) $(FLOOR)/bin/python -m pytest -n 2 --dist worksteal -q $(FLOOR_TESTS)

# INDEX is the address of an index with nightly wheels; without one these are pre-releases. An environment of its own.
nightly: ## Run most tests with the scikit-learn, numpy and scipy of tomorrow (minutes)
	$(PYTHON) -m venv --clear $(NIGHTLY)
	$(NIGHTLY)/bin/python -m pip install --quiet -e ".[test]"
	$(NIGHTLY)/bin/python -m pip install --quiet --upgrade --pre $(if $(INDEX),--index-url $(INDEX)) scikit-learn numpy scipy
	$(TEST_ENV) $(NIGHTLY)/bin/python -m pytest -n 2 --dist worksteal -q $(FLOOR_TESTS)

# SCALING=1 adds modules of 1,000 to 100,000 parameters on 1,000 to 100,000 rows (minutes). CPU time is steady on busy cores.
torch: $(TORCHED)/.installed ## Test torch modules in an environment of their own, and compare with laplace-torch (minutes)
	$(TEST_ENV) $(TORCHED)/bin/python -m pytest -n 2 --dist worksteal -q -o addopts="--doctest-modules" tests/torch_modules skribbon/models/torch
	$(NO_WINDOW) $(ONE_THREAD) $(TORCHED)/bin/python examples/torch_module.py
	$(ONE_THREAD) $(TORCHED)/bin/python benchmarks/bench_torch.py --clock cpu
	$(if $(SCALING),$(ONE_THREAD) $(TORCHED)/bin/python benchmarks/bench_torch_scaling.py)

lint: $(STAMP) ## Check style, docstrings, formatting, types and size
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/size.py

size: $(PACKAGE) ## Count lines, files, constants and calls of a fit, and compare each with its limit
	@$(BIN)/python .ci/size.py

format: $(STAMP) ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: .venv/.hooks ## Have git call `make lint` before a commit and `make test` before a push
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

check: lint doc examples build ## All else that must hold before a change goes in

# addopts keeps tests/slow out of `make test`; here it is emptied
slow: .venv/.bayes ## Run the slow tests of the statistical promises (long)
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal -o addopts="" tests/slow

fuzz: $(STAMP) ## Fit 10,000 random cases (others with SEED=1), ask 130,000 laws of them and list every kind of failure (a quarter of an hour)
	SKRIBBON_FUZZ=10000 SKRIBBON_FUZZ_SEED=$(or $(SEED),0) $(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal -q -o addopts="" -p no:cacheprovider tests/properties

bench: $(STAMP) $(TORCHED)/.installed ## Measure speed and memory against the base fit and a bare matrix product
	$(BIN)/python benchmarks/bench_import.py
	$(BIN)/python benchmarks/bench_core.py
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_core.py --only afg
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_predictions.py
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_growth.py
	$(BIN)/python benchmarks/bench_calibration.py cost
	$(BIN)/python benchmarks/bench_curvature.py
	$(BIN)/python benchmarks/bench_dask.py
	$(ONE_THREAD) $(TORCHED)/bin/python benchmarks/bench_peers.py

calibration: $(STAMP) ## Measure calibration by a written protocol: simulated, statsmodels, UCI, California, Adult (over an hour)
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_calibration.py simulated linear uci california networks
	$(BIN)/python benchmarks/bench_classifiers.py new-splits
	$(BIN)/python benchmarks/bench_classifiers.py confirmation
	$(BIN)/python benchmarks/bench_classifiers.py intervals
	$(BIN)/python benchmarks/bench_classifiers.py report
	$(BIN)/python benchmarks/bench_calibration.py adult
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_conformal.py
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_populations.py
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_simulations.py
	$(ONE_THREAD) $(BIN)/python benchmarks/stability.py
	$(BIN)/python benchmarks/bench_public.py

networks: $(STAMP) ## Measure calibration of networks as people train them, by a written protocol (two hours; resumes)
	$(BIN)/python benchmarks/bench_networks.py development
	$(BIN)/python benchmarks/bench_networks.py confirmation
	$(BIN)/python benchmarks/bench_networks.py splits
	$(BIN)/python benchmarks/bench_networks.py report

paper: .venv/.bayes ## Measure the paper's tables and figures again (less than an hour; resumes)
	$(BIN)/python benchmarks/paper/run.py

paper-quick: .venv/.bayes ## The same with fewer trials (minutes)
	$(BIN)/python benchmarks/paper/run.py --quick

# A run that has a good result of the present tree of skribbon/ is skipped, so this can be made in pieces.
release: $(STAMP) ## Run everything that a release needs, and keep results and minutes in doc/results (many hours; resumes)
	@$(BIN)/python benchmarks/release.py

results: $(PACKAGE) ## Make the results page, its figures and the tables of the appendix from the records in doc/results
	@$(BIN)/python benchmarks/results_page.py

doc: .venv/.doc ## Build the documentation with its gallery into doc/_build/html (minutes)
	$(ONE_THREAD) $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet doc doc/_build/html
	@echo "Open doc/_build/html/index.html"

examples: .venv/.notebook .venv/.doc ## Run every script of the gallery and every case study, without a window (minutes)
	@set -e; for script in examples/plot_*.py; do echo "$$script"; \
	$(NO_WINDOW) $(ONE_THREAD) $(BIN)/python -W error::UserWarning $$script > /dev/null; done
	$(ONE_THREAD) $(BIN)/python doc/notebooks.py

animation: $(PACKAGE) ## Draw the animated explanation of the method again, with the seconds of doc/animation.json
	@$(ONE_THREAD) $(BIN)/python doc/animation.py

# Debian and its relatives; as root. Without a browser, tests/test_browser.py is skipped.
browser: ## Install Chromium, in which the tests open the interactive page and the animation
	apt-get update --quiet
	apt-get install --yes --quiet chromium

# The wheel is built from the sdist, so that both are known to be whole; then a user's machine is played:
# an empty environment, the wheel alone, and the README's code.
build: .venv/.build ## Build sdist and wheel, and run the README's code with the wheel in an empty environment
	rm -rf build dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m build --outdir dist . > /dev/null
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python .ci/same_sdist.py dist/*.tar.gz
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet dist/*.whl
	$(NO_WINDOW) build/wheel/bin/python tests/markdown_code.py README.md doc/package.md

clean: ## Remove caches, build output and benchmark results; the virtual environment stays
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .coverage htmlcov benchmarks/results
	rm -rf doc/_build doc/auto_examples doc/generated doc/sg_execution_times.rst
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

# .venv/.doc installs the extra "doc" of setup.cfg, and so on
.venv/.%: $(STAMP)
	$(BIN)/python -m pip install --quiet -e ".[$*]"
	@touch $@

# setup.cfg is the one home of the floors: numpy>=1.26 becomes the constraint numpy==1.26. PYTHON must be the oldest
# supported one too: these releases have no wheels for the newest.
$(FLOOR)/.installed: setup.cfg
	$(PYTHON) -m venv --clear $(FLOOR)
	awk '/^[^ ]/ { on = /^install_requires/; next } on { sub(">=", "=="); print $$1 }' setup.cfg > $(FLOOR)/floors.txt
	$(FLOOR)/bin/python -m pip install --quiet --constraint $(FLOOR)/floors.txt -e ".[test]"
	@touch $@

# laplace-torch's requirements bring a torchvision for another build of torch, which torchmetrics then fails to import.
$(TORCHED)/.installed: setup.cfg
	$(PYTHON) -m venv --clear $(TORCHED)
	$(TORCHED)/bin/python -m pip install --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) "$(TORCH)" -e ".[test,torch]"
	$(TORCHED)/bin/python -m pip install --quiet "$(TORCH)" laplace-torch skorch mapie statsmodels
	$(TORCHED)/bin/python -m pip uninstall --quiet --yes torchvision
	@touch $@

# What tests and checks need comes on top of the package, so that a first look does not wait for it.
$(STAMP): $(PACKAGE)
	@echo "Installing what tests and checks need into .venv (minutes on a slow connection)"
	$(BIN)/python -m pip install --quiet -e ".[test,lint,dask]"
	@touch $@

$(PACKAGE): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("skribbon needs Python 3.11 or newer, but \
	$(PYTHON) is %d.%d: try make PYTHON=/path/to/python3.11" % sys.version_info[:2])'
	@echo "Installing skribbon and what it needs into .venv (minutes on a slow connection)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	@touch $@
