# All tasks of this project. `make demo` needs only Python 3.11 or newer with venv.

PYTHON ?= python3
BIN := .venv/bin
SCREEN := chromium-headless-shell fonts-noto-cjk
ARGS ?=
# Tests spend time waiting for servers and the database, so four workers keep two cores busy.
WORKERS ?= 4
USUAL := not stress and not image and not clients and not deploy
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# With this variable set, each of the many processes of the tests would compile every file again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run demo dev test test-pooled test-serializable test-clients test-image mutants check fix
.PHONY: test-nightly hooks client messages bench stress lock browser languages compilers promtool
.PHONY: python-shop node-shop php-shop
.PHONY: test-mariadb test-deploy manifests board sbom notice FORCE
.DEFAULT_GOAL := help

help:
	@echo 'make demo               serve with a demo merchant and a checkout session to pay; the quickest way to try OpenTill'
	@echo 'make run                serve (ARGS="--workers 2" for two processes)'
	@echo 'make dev                only install the packages for tests and checks; the other targets do it when they need them'
	@echo 'make test               run all tests (ARGS="-k name" for some, WORKERS=2 for two at once)'
	@echo 'make test-nightly       run all tests with ten times as many random examples, different ones in each run'
	@echo 'make test-pooled        run all tests through PgBouncer in transaction mode'
	@echo 'make test-serializable  run all tests with serializable transactions'
	@echo 'make test-clients       test clients generated for Go, Java and Node.js: they compile, pay and refund'
	@echo 'make test-mariadb       test the import of an old Epay server with a real MariaDB (needs its server)'
	@echo 'make test-image         build, run and test the container image (needs podman or docker)'
	@echo 'make test-deploy        test chart, manifests, units and SBOM with the tools that read them'
	@echo 'make check              check formatting, lint, names, workflow files, layers, types and known vulnerabilities'
	@echo 'make fix                apply the fixes that ruff can make, and format'
	@echo 'make client             generate both clients, and the tables of fields in the contract'
	@echo 'make messages           update the translation catalogues from the texts in the source'
	@echo 'make python-shop        run a shop of examples/ while `make demo` runs; also node-shop, php-shop'
	@echo 'make manifests          generate the Kubernetes manifests from the chart'
	@echo 'make board              generate the Grafana dashboard from the table in tools/board.py'
	@echo 'make sbom               write the SBOM of the runtime packages to dist/opentill.cdx.json (CycloneDX)'
	@echo 'make notice             write NOTICE, the licences of the runtime packages'
	@echo 'make hooks              install git hooks that run make check before commits and pushes'
	@echo 'make bench              measure every performance target (ARGS="--only pay" for some)'
	@echo 'make mutants            run mutation tests: each change of the code must make a test fail (ARGS="--sql 200" for more)'
	@echo 'make stress             run the stress tests: kill -9, failing receivers, many clients'
	@echo 'make lock               write the lock files after a change of pyproject.toml (ARGS=--upgrade for new versions)'

run: .venv/stamp
	$(BIN)/opentill serve $(ARGS)

demo: .venv/stamp
	$(BIN)/opentill demo $(ARGS)

dev: .venv/stamp-dev

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

# `make test` skips these tests without MariaDB's server.
test-mariadb: .venv/stamp-dev
	@test -x /usr/sbin/mariadbd || { echo 'No MariaDB. Debian: apt-get install mariadb-server' >&2; exit 1; }
	$(BIN)/pytest tests/epay_import/test_mariadb.py $(ARGS)

# Needs podman or docker; tests/image lists what else it needs from the machine.
test-image: .venv/stamp-dev
	$(BIN)/pytest -m image $(ARGS)

# Tests chart, manifests, units, SBOM and alert rules with Helm, Kubernetes' schemas, systemd and Prometheus.
test-deploy: .venv/stamp-dev .venv-deploy/stamp promtool
	$(BIN)/pytest -m deploy $(ARGS)

# Generated files of deploy/.
manifests: .venv-deploy/stamp
	.venv-deploy/bin/python tools/manifests.py

board: .venv/stamp-dev
	$(BIN)/python tools/board.py

# The runtime packages with versions, licences and digests, as CycloneDX 1.6.
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

# Every check above is also in .pre-commit-config.yaml; tests/test_hooks.py compares them.
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

# The shops of examples/ need a running `make demo`; their READMEs say how to start it.
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
	cd clients/javascript && npm run prepare

bench: .venv/stamp-dev .venv-bench/stamp
	$(BIN)/python -m benchmarks $(ARGS)

stress: .venv/stamp-dev
	$(BIN)/pytest -m stress $(ARGS)

# The first run records which tests cover which lines; ARGS="--record" records it again.
mutants: .venv/stamp-dev
	PYTHONPATH=src:. $(BIN)/python -m mutants $(ARGS)

# uv only resolves versions; pip installs the packages and checks their hashes. requirements.lock has the
# runtime and build packages. requirements-dev.lock adds, with the same versions, the packages for tests
# and checks. requirements-opentelemetry.lock has the runtime packages with tracing.
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
	for place in clients/javascript tests/generated/node tests/browser/axe tests/gateways/ganache; do ( cd $$place && \
		npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved ) || exit 1; done

# FORCE if the environment was created in another place: its programs contain that path and would run the
# code there. Python writes the path into pyvenv.cfg.
moved = $(shell from=$$(sed -n 's/^command = .* -m venv //p' $(1)/pyvenv.cfg 2>/dev/null); \
	test -z "$$from" || test "$$from" = "$$(pwd -P)/$(1)" || echo FORCE)

# $(call environment,FOLDER): create a Python environment, unless there is a complete one that was created
# in this place. Its stamps are written last and deleted first, so an environment whose installation was
# interrupted is created again.
define environment
	@if test -e $(1)/stamp && test -z '$(call moved,$(1))'; then rm -f $(1)/stamp $(1)/stamp-dev; else \
		if test -n '$(call moved,$(1))'; then \
			echo 'This checkout was moved or copied: creating its Python environment in $(1) again.'; \
		else echo 'Making a Python environment in $(1)'; fi; \
		rm -rf $(1) && $(PYTHON) -m venv $(1); \
	fi
endef

FORCE:

# $(call install,FILE): install the packages of a lock file and print their names as they arrive. A pipe
# has the exit code of its last command, so a successful installation creates a file.
define install
	@rm -f .venv/complete
	@{ $(BIN)/python -m pip install --require-hashes -r $(1) && touch .venv/complete; } | \
		while read -r word name rest; do case "$$word" in \
			Collecting) printf ' %s' "$${name%%=*}" ;; \
			Installing) printf '\n%s\n' 'All packages are downloaded; installing them.' ;; \
		esac; done
	@test -e .venv/complete || { echo; echo 'pip failed; see the messages above and try again.' >&2; exit 1; }
	@rm .venv/complete
endef

.venv/stamp: requirements.lock pyproject.toml $(call moved,.venv)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'OpenTill needs Python 3.11 or newer. Set PYTHON, for example PYTHON=python3.12.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'Python lacks venv; installing the package python3-venv.'; \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy python3-venv; \
		else \
			echo 'Python lacks venv. On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; \
		fi
	$(call environment,.venv)
	@printf 'Downloading the %s packages that OpenTill needs (only this time):' "$$(grep -c '^[a-z].*==' requirements.lock)"
	$(call install,requirements.lock)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@echo 'OpenTill is installed in .venv'
	@touch $@

.venv/stamp-dev: requirements-dev.lock .venv/stamp
	@echo 'Downloading the packages for tests and checks (only this time):'
	@rm -f .venv/stamp .venv/stamp-dev
	$(call install,requirements-dev.lock)
	@touch .venv/stamp
	@touch $@

# The systems that benchmarks compare OpenTill with have their own environment.
.venv-bench/stamp: benchmarks/peers/requirements.lock $(call moved,.venv-bench)
	$(call environment,.venv-bench)
	.venv-bench/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# The client generators have their own environment. One of them is a Java program in a Python package.
.venv-clients/stamp: tests/generated/requirements.lock $(call moved,.venv-clients)
	$(call environment,.venv-clients)
	.venv-clients/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# Helm's library and the schemas of Kubernetes are large, so they have their own environment too.
.venv-deploy/stamp: tests/deploy/requirements.lock $(call moved,.venv-deploy)
	$(call environment,.venv-deploy)
	.venv-deploy/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# promtool evaluates the alert rules. Without it, their tests are skipped with a message.
promtool:
	@command -v promtool >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends prometheus; \
		else \
			echo 'Some tests are skipped. Debian: apt-get install prometheus' >&2; \
		fi

# These compile and run the generated clients. One of the linters needs Node.js 20.19 or newer.
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

# The browser tests need the system's Chromium and are skipped with a message without it. The headless
# shell takes half the time of the full browser, which is the fallback.
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

# The tests of the JavaScript client and the example shops need Node.js and PHP. Without them, those tests
# are skipped with a message.
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
