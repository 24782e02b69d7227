# Everything a contributor runs. `make help` lists it; `make test check` is what CI runs.
#
#   PYTHON=python3.13 make env    another interpreter for a new .venv
#   PYTEST_ARGS='-k produce -x'   extra arguments for pytest
#   TEST_WORKERS=0                one process, for a debugger
#   OLD=113e00c                  where `make upgrade-test` begins
#   SCALE=50                      how many times its examples `make properties` gives each test
#   SEEDS=100 FIRST=7             which seeds `make simulate` runs (BROKER_SEEDS of whole brokers)
#   FRAMES=1000 BATCHES=1000      how much `make fuzz` sends (SET=name=value: a broker setting; SEED=7)
#   BENCH_ARGS='--scale 0.02'     options of `make bench` and `make bench-growth`
#   NIGHTLY=1                     ten times as many seeds, and others every night

PYTHON ?= python3
# A test waits for more than half of its time: a third worker uses what two leave idle of two
# processors. Those of `make test-fast` never wait.
TEST_WORKERS ?= 3
FAST_WORKERS ?= 2
PYTEST_ARGS ?=
ifdef NIGHTLY
SEEDS ?= 10000
BROKER_SEEDS ?= 1000
# Days since 1970: nights follow on each other's seeds.
FIRST ?= $(shell expr $$(date +%s) / 86400 \* 10000)
else
SEEDS ?= 1000
BROKER_SEEDS ?= 100
FIRST ?= 0
endif

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PACKAGES := minikafka client/minikafka_client spark_connector/pyspark_minikafka
PURE := $(addprefix minikafka/,protocol storage replication consensus security metadata coordinator)
PURE_TESTS = $(wildcard $(PURE:minikafka/%=tests/%))
# Folders too: their date changes when a file is added or deleted.
TYPED_FILES := $(shell find $(PACKAGES) -name __pycache__ -prune -o \( -name '*.py' -o -type d \) -print)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help acl-table env demo lab lab-long lab-mutants lab-shown lab-site bench bench-growth bench-pythons fast-env test test-fast simulate properties failpoints judges fuzz check lint format-check mypy pyright imports format coverage \
  constraints clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '%-18s %s\n' "$$target" "$$text"; done

# --- the environment: one stamp file per set of extras, so that a second call is instant ---------

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

DEV_ENV := $(VENV)/installed-dev
DEMO_ENV := $(VENV)/installed-demo
BENCH_ENV := $(VENV)/installed-bench

$(DEV_ENV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[test,check]'
	@touch $@

$(DEMO_ENV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[demo,spark]'
	@touch $@

$(BENCH_ENV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[bench]'
	@touch $@

env: $(DEV_ENV)  ## create .venv with everything that test and check need

# --- what it does --------------------------------------------------------------------------------

demo: $(DEMO_ENV)  ## 336,776 flights through a cluster whose leader is killed, and into Spark (SECURE=1: TLS, SCRAM, ACLs)
	$(BIN)/python -m examples.demo.run $(if $(SECURE),--secure)

lab: $(DEV_ENV)  ## attack every claim about delivery: lab.html and lab.json (in build/)
	@mkdir -p build
	$(BIN)/minikafka lab run --quick --json build/lab.json --html build/lab.html

lab-long: $(DEV_ENV)  ## the same with 1,000 seeds a cell (SEEDS=, FIRST=)
	@mkdir -p build
	$(BIN)/minikafka lab run --long --seeds $(SEEDS) --first $(FIRST) --json build/lab-long.json --html build/lab-long.html

lab-mutants: $(DEV_ENV)  ## does the lab notice? Each seeded defect, and the table in docs/lab.md (half an hour)
	$(BIN)/python -m tests.lab.mutants

lab-shown: $(DEV_ENV)  ## is what the claims allow shown in each of its cells, with few faults? (a minute)
	$(BIN)/python -m tests.lab.shown

lab-site: $(DEV_ENV)  ## build the lab for the browser in build/lab-site (needs npm)
	$(BIN)/python -m minikafka.lab.web build/lab-site

bench: $(BENCH_ENV)  ## our broker beside Apache Kafka in ten minutes, as build/benchmarks/report.html (BENCH_ARGS='--scale 0.02 --rounds 1')
	$(BIN)/python -m benchmarks suite $(BENCH_ARGS)

bench-growth: $(BENCH_ENV)  ## the cost of a record as topics, partitions, connections, producers and brokers grow, in ten minutes
	$(BIN)/python -m benchmarks suite --growth --output build/growth $(BENCH_ARGS)

# A virtual environment for each version, as for test-fast.
BENCH_PYTHONS ?= python3.12 python3.13

bench-pythons: $(BENCH_ENV)  ## the broker under other Pythons, by turns (BENCH_PYTHONS='python3.12 PATH/OF/python3.13')
	for python in $(BENCH_PYTHONS); do \
	  $(MAKE) --no-print-directory fast-env PYTHON=$$python || exit 1; \
	done
	$(BIN)/python -m benchmarks pythons $(BENCH_ARGS) \
	  $$(for python in $(BENCH_PYTHONS); do \
	    echo .venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])')/bin/python; done)

# --- what CI runs --------------------------------------------------------------------------------

test: $(DEV_ENV)  ## run all tests
	$(BIN)/python -m pytest -n $(TEST_WORKERS) $(PYTEST_ARGS)

# A virtual environment for each version, without Spark; hypothesis looks at few examples. Modules are
# compiled when they are imported. A quarter of the tests are hostile messages, which say nothing about a
# version of Python.
FAST_TESTS = $(PURE_TESTS) tests/broker/handlers tests/client/core tests/client/plans tests/interop/test_producers.py
FAST_VERSION = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
FAST_VENV = .venv-$(FAST_VERSION)

fast-env:
	test -x $(FAST_VENV)/bin/python || $(PYTHON) -m venv $(FAST_VENV)
	$(FAST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[test-fast]'

test-fast: fast-env  ## run the fast part of the tests on another Python: PYTHON=python3.13 make test-fast
	HYPOTHESIS_PROFILE=quick $(FAST_VENV)/bin/python -m pytest -n $(FAST_WORKERS) $(FAST_TESTS) \
	  --ignore=tests/protocol/test_hostile_messages.py $(PYTEST_ARGS)

simulate: $(DEV_ENV)  ## run SEEDS=1000 seeds of each simulation, beginning with FIRST=0
	$(BIN)/python -m tests.simulation.raft --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.cluster --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.cluster --quorum --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.transactions --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.groups --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.groups.streams_simulation --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.shares --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.brokers --seeds $(BROKER_SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.brokers.transactions --seeds $(BROKER_SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation.programs --seeds $(BROKER_SEEDS) --first $(FIRST)

SCALE ?= 50

properties: $(DEV_ENV)  ## hypothesis tries SCALE=50 times its examples, others each time (hours)
	HYPOTHESIS_SCALE=$(SCALE) $(BIN)/python -m pytest -n $(TEST_WORKERS) \
	  $$(grep -rlw hypothesis tests --include='test_*.py') $(PYTEST_ARGS)

failpoints: $(DEV_ENV)  ## kill, stop and fail a broker at each failpoint that clients pass
	$(BIN)/pytest -q -n 0 tests/testing/all_failpoints.py

judges: $(DEV_ENV)  ## run other clients and brokers, and write what they say into docs/compatibility.md
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -p tests.compatibility.recording tests/interop tests/peers \
	  --deselect tests/interop/test_fuzz_live.py --deselect tests/interop/test_fuzz_campaign.py \
	  --deselect tests/interop/test_large_requests.py $(PYTEST_ARGS)
	$(BIN)/python -m tests.compatibility.judges

FRAMES ?= 100000
BATCHES ?= 100000
SEED ?= 0

FUZZ_SECONDS ?= 120

fuzz: $(DEV_ENV)  ## hostile bytes for every parser (FUZZ_SECONDS=120), then FRAMES and BATCHES=100000 for a broker
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS) --seed $(SEED)
	$(BIN)/python -m tests.interop.fuzz_campaign --frames $(FRAMES) --batches $(BATCHES) --seed $(SEED) \
	  $(addprefix --set ,$(SET))

upgrade-test: $(DEV_ENV)  ## upgrade a cluster from the commit OLD= to this code, broker by broker, under load
	$(BIN)/python -m tests.upgrade.rolling $(OLD)

check: lint format-check mypy pyright imports  ## style, types and architecture (-k: do not stop at the first)

acl-table: $(DEV_ENV)  ## ask Apache Kafka who may do what, and store its answers
	$(BIN)/python -m tests.peers.acl_table

lint: $(DEV_ENV)
	$(BIN)/ruff check

format-check: $(DEV_ENV)
	$(BIN)/ruff format --check

mypy: $(DEV_ENV)
	$(BIN)/mypy $(wildcard minikafka client spark_connector tests benchmarks examples)

# Unlike the others pyright keeps no cache, so it runs only when a file has changed.
pyright: .cache/pyright-passed

.cache/pyright-passed: $(TYPED_FILES) pyproject.toml constraints.txt | $(DEV_ENV)
	$(BIN)/pyright
	@mkdir -p $(@D)
	@touch $@

imports: $(DEV_ENV)
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import_linter

# --- now and then --------------------------------------------------------------------------------

format: $(DEV_ENV)  ## let ruff format and repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

coverage: $(DEV_ENV)  ## fail below 100 % branch coverage of the floors under the broker
	$(BIN)/python -m pytest -n $(TEST_WORKERS) $(PURE:%=--cov=%) --cov-branch \
	  --cov-report=term-missing:skip-covered --cov-fail-under=100 $(PURE_TESTS) $(PYTEST_ARGS)

constraints: $(DEV_ENV) $(DEMO_ENV) $(BENCH_ENV)  ## pin what .venv holds now in constraints.txt
	$(BIN)/python .ci/pin_constraints.py constraints.txt

clean:  ## remove caches, builds and .venv
	rm -rf $(VENV) .venv-3.* .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
