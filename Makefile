# Everything that is done with this project. `make demo` needs Python 3.11 with venv, nothing else.

PYTHON ?= python3
BIN := .venv/bin
SCREEN := chromium-headless-shell fonts-noto-cjk
ARGS ?=
# Tests also wait for servers and the database: four workers keep two cores busy.
WORKERS ?= 4
USUAL := not stress and not image and not clients and not deploy
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where it is set, each of the many processes that tests start compiles every file anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run demo test test-pooled test-serializable test-clients test-image mutants check fix
.PHONY: test-nightly hooks client messages bench stress lock browser languages compilers promtool
.PHONY: python-shop node-shop php-shop
.PHONY: test-deploy manifests board sbom notice FORCE
.DEFAULT_GOAL := help

help:
	@echo 'make demo               serve with a demo merchant and a checkout session to pay: the quickest look'
	@echo 'make run                serve (ARGS="--workers 2" for two processes)'
	@echo 'make test               all tests (ARGS="-k name" for some)'
	@echo 'make test-nightly       all tests with ten times as many random examples, new ones each time'
	@echo 'make test-pooled        all tests through a PgBouncer in transaction mode'
	@echo 'make test-serializable  all tests with every transaction serializable'
	@echo 'make test-clients       generated clients compile, buy and refund (Go, Java, Node.js)'
	@echo 'make test-image         the container image, built and run (needs podman or docker)'
	@echo 'make test-deploy        chart, manifests, units and SBOM, by Helm, Kubernetes and systemd'
	@echo 'make check              formatting, lint, workflow files, layers, types, known vulnerabilities'
	@echo 'make fix                apply the fixes that ruff can make, and format'
	@echo 'make client             write what is generated of both clients, and the tables of fields in the contract'
	@echo 'make messages           write the texts of the source into the catalogues of translators'
	@echo 'make python-shop        a shop of examples/ beside `make demo`; also node-shop, php-shop'
	@echo 'make manifests          write the Kubernetes manifests, which are made of the chart'
	@echo 'make board              write the board of Grafana, which is made of a table'
	@echo 'make sbom               write what runs to dist/opentill.cdx.json (CycloneDX)'
	@echo 'make notice             write NOTICE, the licences of what runs'
	@echo 'make hooks              install git hooks: git runs make check before commits and pushes'
	@echo 'make bench              measure each target of speed and size (ARGS="--only pay" for some)'
	@echo 'make mutants            mutation tests: break one thing at a time, see that a test fails (ARGS="--sql 200" for more)'
	@echo 'make stress             long runs: kill -9, failing receivers, many clients'
	@echo 'make lock               write the lock files after a change of pyproject.toml (ARGS=--upgrade for new versions)'

run: .venv/stamp
	$(BIN)/opentill serve $(ARGS)

demo: .venv/stamp
	$(BIN)/opentill demo $(ARGS)

test: .venv/stamp-dev browser languages
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(USUAL)' $(ARGS)

test-nightly: .venv/stamp-dev browser languages
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(USUAL)' --hypothesis-profile=nightly $(ARGS)

test-pooled: .venv/stamp-dev browser languages
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || \
		{ echo 'No PgBouncer. Debian: apt-get install pgbouncer' >&2; exit 1; }
	OPENTILL_TEST_PGBOUNCER=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(USUAL)' $(ARGS)

test-serializable: .venv/stamp-dev browser languages
	OPENTILL_TEST_ISOLATION=serializable $(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(USUAL)' $(ARGS)

test-clients: .venv/stamp-dev .venv-clients/stamp compilers
	$(BIN)/pytest -m clients tests/generated tests/javascript $(ARGS)

# Needs an engine: podman or docker. What it needs from where you are stands in tests/image.
test-image: .venv/stamp-dev
	$(BIN)/pytest -m image $(ARGS)

# Chart, manifests, units and SBOM, as Helm, Kubernetes, systemd and Prometheus read them.
test-deploy: .venv/stamp-dev .venv-deploy/stamp promtool
	$(BIN)/pytest -m deploy $(ARGS)

# What deploy/ has and is made of something else.
manifests: .venv-deploy/stamp
	.venv-deploy/bin/python tools/manifests.py

board: .venv/stamp-dev
	$(BIN)/python tools/board.py

# What runs, with versions, licences and digests: CycloneDX 1.6.
sbom: .venv/stamp-dev .venv-deploy/stamp
	mkdir -p dist
	.venv-deploy/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml \
		--mc-type application --output-reproducible --validate --output-file dist/opentill.cdx.json
	$(BIN)/python tools/licenses.py dist/opentill.cdx.json

notice: .venv/stamp-dev
	$(BIN)/python tools/licenses.py

check: .venv/stamp-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tools.plain_names
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml
	$(BIN)/zizmor --offline --quiet --persona=pedantic .github
	env PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements-dev.lock

# A check that is added above is added to .pre-commit-config.yaml too: tests/test_hooks.py.
hooks: .venv/stamp-dev
	$(BIN)/pre-commit install

fix: .venv/stamp-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

client: .venv/stamp-dev
	$(BIN)/python -m tools.python_client
	$(BIN)/python tools/blocking_client.py
	$(BIN)/python tools/javascript_client.py
	$(BIN)/python -m tools.contract_tables

messages: .venv/stamp-dev
	$(BIN)/python -m tools.messages

# The shops of examples/, beside a running `make demo`: their READMEs.
SHOP := . ./opentill-data/demo.env && export OPENTILL_URL="$${API%/v1}" && exec
python-shop: .venv/stamp
	@$(SHOP) $(BIN)/python examples/python-shop/shop.py

node-shop: clients/javascript/dist/index.js
	@mkdir -p examples/node-shop/node_modules/@opentill
	@ln -sfn ../../../../clients/javascript examples/node-shop/node_modules/@opentill/client
	@$(SHOP) node examples/node-shop/shop.mjs

php-shop:
	@$(SHOP) php -S 127.0.0.1:3000 examples/php-shop/shop.php

clients/javascript/dist/index.js: clients/javascript/package-lock.json $(wildcard clients/javascript/src/*.ts)
	cd clients/javascript && npm ci --no-audit --no-fund --ignore-scripts && npm run build

bench: .venv/stamp-dev .venv-bench/stamp
	$(BIN)/python -m benchmarks $(ARGS)

stress: .venv/stamp-dev
	$(BIN)/pytest -m stress $(ARGS)

# Records at first which tests cover what; ARGS="--record" does so again.
mutants: .venv/stamp-dev
	PYTHONPATH=src:. $(BIN)/python -m mutants $(ARGS)

# uv only resolves here; installing is pip's business and checks every hash. requirements.lock is what
# runs, and what installs it; requirements-dev.lock is that with the same versions, and all the rest;
# requirements-opentelemetry.lock is what runs where traces are wanted.
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock:
	$(COMPILE) pyproject.toml --extra build --extra dev --extra opentelemetry $(ARGS) \
		--output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --extra build --upgrade --constraint requirements-dev.lock \
		--output-file requirements.lock
	$(COMPILE) pyproject.toml --extra build --extra opentelemetry --upgrade \
		--constraint requirements-dev.lock --output-file requirements-opentelemetry.lock
	$(COMPILE) tests/deploy/requirements.in $(ARGS) --output-file tests/deploy/requirements.lock
	$(COMPILE) benchmarks/peers/requirements.in $(ARGS) --output-file benchmarks/peers/requirements.lock
	$(COMPILE) tests/generated/requirements.in $(ARGS) --output-file tests/generated/requirements.lock
	$(BIN)/python tools/licenses.py
	for place in clients/javascript tests/generated/node tests/browser/axe; do ( cd $$place && \
		npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved ) || exit 1; done

# Where an environment was made, if that is not here: the programs in it name that place, and would run
# what stands there. Python writes it into pyvenv.cfg.
moved = $(shell from=$$(sed -n 's/^command = .* -m venv //p' $(1)/pyvenv.cfg 2>/dev/null); \
	test -z "$$from" || test "$$from" = "$$(pwd -P)/$(1)" || echo FORCE)

# $(call environment,FOLDER): a Python environment that is whole or of this place, else a new one. Its
# stamps are the last files that are written and the first that go, so that what was interrupted is
# made anew, whenever that was.
define environment
	@if test -e $(1)/stamp && test -z '$(call moved,$(1))'; then rm -f $(1)/stamp $(1)/stamp-dev; else \
		if test -n '$(call moved,$(1))'; then \
			echo 'This checkout was moved or copied: making its Python environment in $(1) anew.'; \
		else echo 'Making a Python environment in $(1)'; fi; \
		rm -rf $(1) && $(PYTHON) -m venv $(1); \
	fi
endef

FORCE:

# $(call install,FILE): all that a lock file names, and the name of each as it comes. A pipe's status is
# its last command's, so what went well leaves a file.
define install
	@rm -f .venv/complete
	@{ $(BIN)/python -m pip install --require-hashes -r $(1) && touch .venv/complete; } | \
		while read -r word name rest; do case "$$word" in \
			Collecting) printf ' %s' "$${name%%=*}" ;; \
			Installing) printf '\n%s\n' 'All there; unpacking them.' ;; \
		esac; done
	@test -e .venv/complete || { echo; echo 'pip failed, see above; try again.' >&2; exit 1; }
	@rm .venv/complete
endef

.venv/stamp: requirements.lock pyproject.toml $(call moved,.venv)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or newer is needed; set PYTHON=python3.12 or the like.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'Python lacks venv; installing the package python3-venv.'; \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy python3-venv; \
		else \
			echo 'Python lacks venv. On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; \
		fi
	$(call environment,.venv)
	@printf 'Fetching the %s packages that OpenTill runs on, once:' "$$(grep -c '^[a-z].*==' requirements.lock)"
	$(call install,requirements.lock)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@echo 'OpenTill is installed in .venv'
	@touch $@

.venv/stamp-dev: requirements-dev.lock .venv/stamp
	@echo 'Adding what the tests and checks need, once:'
	@rm -f .venv/stamp .venv/stamp-dev
	$(call install,requirements-dev.lock)
	@touch .venv/stamp
	@touch $@

# What OpenTill is held against has an environment of its own.
.venv-bench/stamp: benchmarks/peers/requirements.lock $(call moved,.venv-bench)
	$(call environment,.venv-bench)
	.venv-bench/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# So have the generators of clients, of which one is a Java program in a Python package.
.venv-clients/stamp: tests/generated/requirements.lock $(call moved,.venv-clients)
	$(call environment,.venv-clients)
	.venv-clients/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# Helm's library and the schemas of Kubernetes are large, so they are apart as well.
.venv-deploy/stamp: tests/deploy/requirements.lock $(call moved,.venv-deploy)
	$(call environment,.venv-deploy)
	.venv-deploy/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# What evaluates the alert rules; without it their tests are skipped and say so.
promtool:
	@command -v promtool >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends prometheus; \
		else \
			echo 'Some tests are skipped. Debian: apt-get install prometheus' >&2; \
		fi

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

# The browser tests drive the system's Chromium; without it they are skipped and say so. Its headless
# shell takes half the time of the whole program, which is used where there is no shell.
browser:
	@command -v chromium-headless-shell >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			{ apt-get update -q && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(SCREEN); } || \
			command -v chromium; \
		else \
			command -v chromium >/dev/null || \
			echo 'No chromium: the browser tests are skipped. Debian: apt-get install $(SCREEN)' >&2; \
		fi

# The JavaScript client and the example shops are tested where their languages are; elsewhere those
# tests are skipped and say so.
languages:
	@missing=; \
	{ command -v node && command -v npm; } >/dev/null || missing="$$missing nodejs npm"; \
	php -m 2>/dev/null | grep -q pdo_sqlite || missing="$$missing php-cli php-sqlite3"; \
	test -z "$$missing" || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
		else \
			echo "Some tests are skipped. Debian: apt-get install$$missing" >&2; \
		fi
