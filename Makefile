# Everything that is done with this project. `make run` needs Python 3.11 with venv, nothing else.

PYTHON ?= python3
BIN := .venv/bin
SCREEN := chromium chromium-driver fonts-noto-cjk
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run demo test test-pooled test-serializable test-clients mutants check fix bench stress
.PHONY: lock browser compilers
.DEFAULT_GOAL := help

help:
	@echo 'make demo               serve, with a merchant and a session to pay: the quickest look'
	@echo 'make run                serve'
	@echo 'make test               all tests (ARGS="-k name" for some)'
	@echo 'make test-pooled        all of them through a PgBouncer in transaction mode'
	@echo 'make test-serializable  all of them with every transaction serializable'
	@echo 'make test-clients       generated clients compile, buy and refund (Go, Java, Node.js)'
	@echo 'make check              formatting, lint, types, layers, known vulnerabilities'
	@echo 'make fix                what can be put right by itself'
	@echo 'make bench              each target of speed and size, met or not (ARGS="--only pay" for some)'
	@echo 'make mutants            breaks one thing at a time: does a test notice? (ARGS="--sql 200" for more)'
	@echo 'make stress             long runs: kill -9, failing receivers, many clients'
	@echo 'make lock               the lock files anew, after a change of pyproject.toml'

run: .venv/stamp
	$(BIN)/opentill serve $(ARGS)

demo: .venv/stamp
	$(BIN)/opentill demo $(ARGS)

test: .venv/stamp browser
	$(BIN)/pytest -n 3 --dist worksteal -m 'not stress and not clients' $(ARGS)

test-pooled: .venv/stamp browser
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || \
		{ echo 'No PgBouncer. Debian: apt-get install pgbouncer' >&2; exit 1; }
	OPENTILL_TEST_PGBOUNCER=1 $(BIN)/pytest -n 3 --dist worksteal -m 'not stress and not clients' $(ARGS)

test-serializable: .venv/stamp browser
	OPENTILL_TEST_ISOLATION=serializable $(BIN)/pytest -n 3 --dist worksteal -m 'not stress and not clients' $(ARGS)

test-clients: .venv/stamp .venv-clients/stamp compilers
	$(BIN)/pytest tests/generated $(ARGS)

check: .venv/stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements.lock

fix: .venv/stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/stamp .venv-bench/stamp
	$(BIN)/python -m benchmarks $(ARGS)

stress: .venv/stamp
	$(BIN)/pytest -m stress $(ARGS)

# Records at first which tests cover what; ARGS="--record" does so again.
mutants: .venv/stamp
	PYTHONPATH=src:. $(BIN)/python -m mutants $(ARGS)

# uv only resolves here; installing is pip's business and checks every hash.
lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --upgrade --output-file requirements.lock
	uv pip compile benchmarks/peers/requirements.in --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --upgrade \
		--output-file benchmarks/peers/requirements.lock
	uv pip compile tests/generated/requirements.in --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --upgrade \
		--output-file tests/generated/requirements.lock
	cd tests/generated/node && npm install --package-lock-only --ignore-scripts \
		--omit-lockfile-registry-resolved

.venv/stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed; set PYTHON=python3.12 or the like.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy python3-venv; \
		else \
			echo 'Python lacks venv. On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; \
		fi
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# What OpenTill is held against has an environment of its own.
.venv-bench/stamp: benchmarks/peers/requirements.lock
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# So have the generators of clients, of which one is a Java program in a Python package.
.venv-clients/stamp: tests/generated/requirements.lock
	test -x .venv-clients/bin/python || $(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# What compiles and runs generated clients; node has to be 20.19 or newer for one of the linters.
compilers:
	@missing=; \
	command -v go >/dev/null || missing="$$missing golang-go"; \
	command -v javac >/dev/null || missing="$$missing default-jdk-headless"; \
	command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
		else \
			echo "Missing. Debian: apt-get install$$missing" >&2; exit 1; \
		fi; \
	fi

# The browser tests drive the system's Chromium; without it they are skipped and say so.
browser:
	@command -v chromium >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(SCREEN); \
		else \
			echo 'No chromium: the browser tests are skipped. Debian: apt-get install $(SCREEN)' >&2; \
		fi
