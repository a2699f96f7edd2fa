# GNU make. Nothing outside the clone is written: the environment is .venv, every build product is under build/ or dist/.

PYTHON ?= python3
SEEDS ?= 100
EXAMPLES ?= 1000
CYCLES ?= 200
IMAGES ?= 10000
ROUNDS ?= 3
CASES ?= 2000
FUZZ ?= 20
JOBS ?= 3
ARGS ?=
BENCH ?= engine durable server http worker memory load lake spark

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

BIN := .venv/bin
ENVIRONMENT := .venv/.installed
COMPILED := build/compiled
COMPILED_STAMP := build/compiled.stamp
SOURCE_LIST := build/sources.list
SOURCES := $(sort $(shell find tenure -type f -not -path '*/__pycache__/*' -not -name '*.so' 2>/dev/null))

# The build is chosen by PYTHONPATH alone. PYTHONSAFEPATH keeps the working directory off sys.path, in this process and
# in those it starts: it would come first there, and the sources would shadow the compiled build.
export PYTHONSAFEPATH := 1
# The tests start many processes: none is to compile the sources again.
unexport PYTHONDONTWRITEBYTECODE
INTERPRETED_ENV := TENURE_BUILD=interpreted PYTHONPATH="$(CURDIR)"
COMPILED_ENV := TENURE_BUILD=compiled PYTHONPATH="$(CURDIR)/$(COMPILED):$(CURDIR)"

SIDE_BY_SIDE := -n $(JOBS) --dist worksteal

# What lies around the engine is not compiled: its suites run once, on the compiled engine where there is one. So do the
# slow tests, which are campaigns in small and whole processes.
AROUND := tests/conformance/test_server.py tests/conformance/test_joined.py $(addprefix tests/,http grpc server security client task worker app cli \
	testing integration examples backup lake transfer spark)
ONCE = $$(if $(HAS_COMPILED); then printf -- "--ignore=%s " $(wildcard $(AROUND)); fi)
NOT_TWICE = "$$(if $(HAS_COMPILED); then echo 'not slow'; else echo 'not spark'; fi)"
FUZZED := tests/server/test_fuzz.py tests/http/test_openapi.py
# Two sessions of Spark, each in a process of its own, and by themselves.
SPARK := tests/spark
HAS_JAVA := command -v java > /dev/null || [ -n "$${JAVA_HOME:-}" ]

HAS_COMPILED := [ "$${TENURE_COMPILE:-}" != 0 ] && [ -f $(COMPILED_STAMP) ]
IS_CURRENT := [ -z "$$(find tenure -name '*.py' -newer $(COMPILED_STAMP))" ]

# $(call with_compiled,what): what on the compiled build, or on the interpreted one with a notice.
with_compiled = if $(HAS_COMPILED); then $(COMPILED_ENV) $(1); \
	else echo "NOTICE: there is no compiled build, this runs on the interpreted one"; $(INTERPRETED_ENV) $(1); fi

define statics
$(BIN)/ruff format --check .
$(BIN)/ruff check .
$(BIN)/mypy
endef

.PHONY: help setup compile run demo test java check format bench model simulate kill share crash damage fuzz golden spark-faults lock proto dist clean FORCE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(ENVIRONMENT) ## Create .venv with the hash-locked tools

$(ENVIRONMENT): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Tenure needs Python 3.11 or later")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

compile: $(COMPILED_STAMP) ## Build the package with the compiled core and engine into build/compiled

# The list changes when a source is added or removed, which the times of the sources do not show.
$(SOURCE_LIST): FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(SOURCES) | cmp -s - $@ || printf '%s\n' $(SOURCES) > $@

# Without a compiler there is no stamp, so that the next run looks for one again.
$(COMPILED_STAMP): $(ENVIRONMENT) $(SOURCE_LIST) $(SOURCES) setup.py pyproject.toml
	@rm -rf $@ $(COMPILED) build/partial build/temp
	$(BIN)/python setup.py --quiet build --build-lib build/partial --build-temp build/temp
	@if [ -n "$$(find build/partial -name '*.so')" ]; then mv build/partial $(COMPILED); touch $@; \
	else rm -rf build/partial; echo "NOTICE: the core and the engine were not compiled, Tenure goes on interpreted"; fi

run: setup ## Run the server until Ctrl-C, on the compiled build if there is a current one (ARGS=--help)
	@if $(HAS_COMPILED) && $(IS_CURRENT); then $(COMPILED_ENV) $(BIN)/python -m tenure serve $(ARGS); \
	else $(INTERPRETED_ENV) $(BIN)/python -m tenure serve $(ARGS); fi

demo: setup ## Show the main job being done: fair claims, a stalled worker, a cancel, why a job waits
	@if $(HAS_COMPILED) && $(IS_CURRENT); then $(COMPILED_ENV) $(BIN)/python -m tenure.demo $(ARGS); \
	else $(INTERPRETED_ENV) $(BIN)/python -m tenure.demo $(ARGS); fi

test: setup compile java ## Check format, lint and types, then run the tests on both builds
	$(statics)
	$(INTERPRETED_ENV) $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ONCE) -m $(NOT_TWICE) $(ARGS)
	@if $(HAS_COMPILED); then set -x; $(COMPILED_ENV) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not spark" $(ARGS); else \
	echo; echo "********************************************************************"; \
	echo "NOTICE: THE COMPILED HALF WAS NOT RUN: no C compiler, or TENURE_COMPILE=0."; \
	echo "********************************************************************"; fi
	@if $(HAS_JAVA); then set -x; $(call with_compiled,$(BIN)/python -m pytest -n 2 --dist worksteal $(SPARK) -m spark); else \
	echo "NOTICE: THE TESTS ON SPARK WERE NOT RUN: there is no Java; see make java"; fi

java: ## Install Java 17 for Spark where it is missing and may be installed (Debian)
	@if $(HAS_JAVA); then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless; \
	else echo "NOTICE: Spark needs Java 17 or later: install openjdk-17-jre-headless, or set JAVA_HOME"; fi

check: setup ## Check format, lint, types and imports, then run the fast tests interpreted
	$(statics)
	$(INTERPRETED_ENV) $(BIN)/python -m pytest -q tests/unit/test_imports.py
	$(INTERPRETED_ENV) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" --ignore=tests/unit/test_imports.py --ignore=$(SPARK) $(ARGS)

format: setup ## Format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup compile ## Run the programs in bench on the compiled build (BENCH=names, ARGS=arguments)
	@for name in $(BENCH); do echo "== $$name"; $(call with_compiled,$(BIN)/python -m bench.$$name $(ARGS)); done

model: setup compile ## Run the engine against its model on new random histories (EXAMPLES=1000)
	@$(call with_compiled,$(BIN)/python -m tests.model --examples $(EXAMPLES) $(ARGS))

simulate: setup compile ## Run the simulation on the compiled build (SEEDS=100)
	@$(call with_compiled,$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS))

kill: setup compile ## Kill stores at work and count what is lost, on the compiled build (CYCLES=200)
	@$(call with_compiled,$(BIN)/python -m tests.kill --cycles $(CYCLES) $(ARGS))

share: setup compile ## Kill and stop owners of shared files and count what is lost, on the compiled build (CYCLES=200)
	@$(call with_compiled,$(BIN)/python -m tests.share --cycles $(CYCLES) $(ARGS))

crash: setup compile ## Lose power many times and balance the books, on the compiled build (IMAGES=10000)
	@$(call with_compiled,$(BIN)/python -m tests.crash --images $(IMAGES) $(ARGS))

damage: setup compile ## Harm files in many ways and open them, on the compiled build (CASES=2000)
	@$(call with_compiled,$(BIN)/python -m tests.damage --cases $(CASES) $(ARGS))

fuzz: setup compile ## Send bent and broken messages, and requests made after the API's description (FUZZ=20 times those of make test)
	@export TENURE_FUZZ=$(FUZZ); $(call with_compiled,$(BIN)/python -m pytest $(SIDE_BY_SIDE) -o timeout=7200 $(FUZZED) $(ARGS))

golden: setup compile ## Record anew what goes over the wire and what the simulation sees; git diff shows what has changed
	@$(call with_compiled,$(BIN)/python -m tests.golden --jobs $(JOBS) $(ARGS))

spark-faults: setup compile java ## Let nodes and executors of a Spark cluster die at work, on the compiled build (ROUNDS=3)
	@$(call with_compiled,$(BIN)/python -m tests.spark.faults --rounds $(ROUNDS) $(ARGS))

lock: setup ## Write the lock files anew (ARGS=--upgrade for the newest versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" $(ARGS) pyproject.toml requirements/dev.in requirements/lake.in requirements/spark.in \
	-o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
	rm -rf tenure.egg-info # it would look like an installed package

proto: setup ## Write the code for gRPC anew from tenure/wire/tenure.proto
	@mkdir -p build/proto
	$(BIN)/python -m grpc_tools.protoc -Itenure/v1=tenure/wire --python_out=build/proto --pyi_out=build/proto \
	tenure/v1/tenure.proto
	cp build/proto/tenure/v1/tenure_pb2.py build/proto/tenure/v1/tenure_pb2.pyi tenure/server/grpc/

# What an earlier build left under build/lib* would go into the wheel.
dist: setup ## Build the wheel into dist
	rm -rf dist build/lib build/lib.* build/bdist.*
	$(BIN)/python -m pip wheel -q --no-input --disable-pip-version-check --no-deps --no-build-isolation \
	--check-build-dependencies --wheel-dir dist .
	rm -rf tenure.egg-info
	@ls dist

clean: ## Remove everything that make has made
	rm -rf .venv build dist tenure.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
