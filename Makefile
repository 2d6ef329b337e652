# Every command sets up what it needs at its first run; a second run starts at once.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
ARGS ?=
# Python keeps what it has compiled: without that each process of the tests compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this help
	@printf 'Mainstem. Commands (each sets up what it needs):\n\n'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | while IFS=$$'\t' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done
	@printf '\nPass options with ARGS, for example: make demo ARGS="--exit --json"\n'

$(READY): requirements/lock.txt requirements/uv.txt pyproject.toml scripts/setup
	@scripts/setup

.PHONY: setup
setup: $(READY) ## Make the virtual environment and check for Java

.PHONY: demo
demo: $(READY) ## A year of real flights through the log, Spark and the views
	@exec $(BIN)/mainstem demo $(ARGS)

.PHONY: serve
serve: $(READY) ## Start the log and the HTTP gateway in ./mainstem-data
	@exec $(BIN)/mainstem serve $(ARGS)

.PHONY: quick
quick: $(READY) ## Run the tests for while you work: under two minutes on two cores
	@exec $(BIN)/python -m pytest -n 3 -q -m 'not (slow or spark or browser or endtoend or maven)' $(ARGS)

.PHONY: test
test: $(READY) ## Run every test, three at a time (ARGS="tests/log -k recovery" for some, one at a time)
	@scripts/setup-tests || printf 'make: the tests that need it are skipped\n' >&2
	@exec $(BIN)/python -m pytest $(or $(ARGS),-n 3)

.PHONY: cluster-test
cluster-test: $(READY) ## The example on clusters that lose members, and programs that move to Apache Kafka and back (minutes, 5 GB)
	@exec $(BIN)/python -m pytest -m cluster tests/cluster $(ARGS)

.PHONY: torture
torture: $(READY) ## Kill Spark and the log 200 times, and see that nothing is lost or twice
	@MAINSTEM_TORTURE_HISTORIES=$${MAINSTEM_TORTURE_HISTORIES:-20} $(BIN)/python -m pytest -q tests/torture/test_seam.py
	@$(BIN)/python -m tests.torture.scenes
	@exec $(BIN)/python -m tests.torture.run $(ARGS)

.PHONY: spark-versions
spark-versions: $(READY) ## Test the Spark source and sink on PySpark 4.0, 4.1 and 4.2 (downloads 1.2 GB; minutes)
	@exec $(BIN)/python -m scripts.spark_versions $(ARGS)

.PHONY: sink-kills
sink-kills: $(READY) ## Kill a sink a hundred times at random and before each call, in each database (ARGS="-k mariadb" for one)
	@MAINSTEM_SINK_KILLS=$${MAINSTEM_SINK_KILLS:-100} MAINSTEM_SINK_STRIDE=$${MAINSTEM_SINK_STRIDE:-1} \
		exec $(BIN)/python -m pytest -q tests/sinks/test_sigkill.py tests/sinks/test_killed_steps.py $(ARGS)

.PHONY: mirror-kills
mirror-kills: $(READY) ## Kill a mirror, its source and its target two hundred times (MAINSTEM_MIRROR_KILLS=50 for fewer)
	@MAINSTEM_MIRROR_KILLS=$${MAINSTEM_MIRROR_KILLS:-200} exec $(BIN)/python -m pytest -q --timeout 7200 tests/mirror/test_kills.py $(ARGS)

.PHONY: mirror-history
mirror-history: $(READY) ## Judge what clients see of a mirror that is promoted, as planned and of a lost source, for ten minutes (MAINSTEM_HISTORY_S=20)
	@MAINSTEM_HISTORY_S=$${MAINSTEM_HISTORY_S:-300} exec $(BIN)/python -m pytest -q --timeout 7200 tests/mirror/test_history.py $(ARGS)

.PHONY: proofs
proofs: $(READY) ## Run generated tests of storage, JSON schemas and captures ten times deeper than `make test` does
	@MAINSTEM_CUT_SEEDS=$${MAINSTEM_CUT_SEEDS:-5000} MAINSTEM_SOUNDNESS=$${MAINSTEM_SOUNDNESS:-1000} \
		MAINSTEM_POSTGRES_SEEDS=$${MAINSTEM_POSTGRES_SEEDS:-30} exec $(BIN)/python -m pytest -q --timeout 7200 tests/log/test_simulation.py \
		tests/registry/test_json_schema_soundness.py tests/postgres/test_histories.py tests/postgres/test_native_rows.py $(ARGS)

.PHONY: tree-cuts
tree-cuts: $(READY) ## Cut the power of 1,000 histories of a verifiable topic, and see that no checkpoint was ahead
	@MAINSTEM_TREE_SEEDS=$${MAINSTEM_TREE_SEEDS:-1000} exec $(BIN)/python -m pytest -q tests/log/test_simulation_verifiable.py $(ARGS)

.PHONY: tree-fsck
tree-fsck: $(READY) ## Let Tessera's fsck check a verifiable topic of a million records, and find what was changed
	@MAINSTEM_TREE_RECORDS=$${MAINSTEM_TREE_RECORDS:-1000000} exec $(BIN)/python -m pytest -q tests/tlog/test_foreign_checkers.py $(ARGS)

.PHONY: capture-kills
capture-kills: $(READY) ## Kill a capture of PostgreSQL 1,000 times, and see that nothing is lost or twice (ARGS="--kills 100")
	@exec $(BIN)/python -m tests.postgres.killed $(ARGS)

.PHONY: witness
witness: ## Compile litewitness, the witness that a test of verifiable topics starts (half a minute, once; needs Go)
	@scripts/setup-witness

.PHONY: s3-server
s3-server: ## Compile versitygw, the S3 server that the tests of backups start (minutes, once; needs Go)
	@scripts/setup-s3-server

.PHONY: azure-server
azure-server: ## Install Azurite, the server of Azure's blobs that the tests of backups start (a minute, once; needs npm)
	@scripts/setup-azure-server

.PHONY: backup-kills
backup-kills: $(READY) s3-server azure-server ## Kill the log and its backup a hundred times, then lose the disk and restore
	@MAINSTEM_BACKUP_KILLS=$${MAINSTEM_BACKUP_KILLS:-100} exec $(BIN)/python -m pytest -q tests/backup/test_kills.py \
		tests/backup/test_remote_segments.py::test_kills_of_the_log_and_of_its_backup_lose_nothing $(ARGS)

.PHONY: fuzz
fuzz: $(READY) ## Send wrong requests of every API for an hour (MAINSTEM_FUZZ_S=60 and MAINSTEM_DESCRIBED_EXAMPLES=4 for minutes)
	@MAINSTEM_FUZZ_S=$${MAINSTEM_FUZZ_S:-3600} MAINSTEM_DESCRIBED_EXAMPLES=$${MAINSTEM_DESCRIBED_EXAMPLES:-50} \
		exec $(BIN)/python -m pytest -q --timeout 7200 tests/hostile/test_fuzz_requests.py tests/gateway/test_described_answers.py $(ARGS)

.PHONY: history
history: $(READY) ## Judge what real clients see of a log that is killed, for an hour (MAINSTEM_HISTORY_S=300)
	@MAINSTEM_HISTORY_S=$${MAINSTEM_HISTORY_S:-3600} MAINSTEM_LOG_KILLS=$${MAINSTEM_LOG_KILLS:-200} \
		exec $(BIN)/python -m pytest -q --timeout 7200 tests/history tests/broker/test_durability.py $(ARGS)

CONTROLS := tests/conformance/test_group_migration.py tests/conformance/test_sequences_after_abort.py
.PHONY: differential
differential: $(READY) ## Compare answers with Apache Kafka's for an hour (ARGS="--seed N" for one sequence)
	@$(if $(ARGS),:,MAINSTEM_CONTROLS=1 $(BIN)/python -m pytest -q $(CONTROLS))
	@exec $(BIN)/python -m tests.differential.run $(ARGS)

.PHONY: check
check: $(READY) ## Lint, format, types, import contracts and plain English, without the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs=2 --output-sync check-types check-imports check-words

.PHONY: check-types check-imports check-words
check-types:
	$(BIN)/mypy
check-imports:
	$(BIN)/lint-imports
check-words:
	$(BIN)/python -m pytest -q tests/house/test_plain_english.py

.PHONY: format
format: $(READY) ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(READY) ## Measure the log's own rates through librdkafka
	@exec $(BIN)/mainstem bench $(ARGS)

.PHONY: bench-spark
bench-spark: $(READY) ## Measure our Spark source and sink beside spark-sql-kafka
	@exec $(BIN)/python -m benchmarks.spark $(ARGS)

.PHONY: bench-verifiable
bench-verifiable: $(READY) ## Measure the produce rate of a verifiable topic beside an ordinary one
	@exec $(BIN)/python -m benchmarks.verifiable $(ARGS)

.PHONY: bench-views
bench-views: $(READY) ## Measure views beside a hand-written loop, and reads of one's own writes over HTTP
	@exec $(BIN)/python -m benchmarks.views $(ARGS)

.PHONY: native-code
native-code: $(READY) ## Compile the log's machine code again, after a change of its sources
	@$(BIN)/python -c 'from mainstem.record.native.walk_code import WALK; WALK.build_own()'

.PHONY: spark-jar
spark-jar: $(READY) ## Compile Spark's local files again, after a change of LocalFiles.java (needs a JDK 17)
	@$(BIN)/python -m scripts.local_files

.PHONY: compatibility
compatibility: $(READY) ## Write docs/reference/compatibility.md from the table of APIs
	@$(BIN)/python -m scripts.compatibility

.PHONY: reference
reference: $(READY) ## Write the generated pages of docs/reference: commands, settings, errors, HTTP routes
	@$(BIN)/python -m scripts.reference

.PHONY: screenshots
screenshots: $(READY) ## Take the documentation's pictures of the console from a running demo (ARGS=URL: of a node that is there)
	@scripts/setup-tests
	@$(BIN)/python -m scripts.screenshots $(ARGS)

.PHONY: docs
docs: $(READY) ## Build the documentation site in build/site, and check its links
	@$(BIN)/python -m scripts.site $(ARGS)

.PHONY: lock
lock: $(READY) ## Resolve the dependencies again, into requirements/lock.txt
	scripts/lock

.PHONY: dist
dist: $(READY) ## Build the wheel and the source archive into dist/, with the same bytes each time
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/hatchling build -d dist
	@cd dist && sha256sum *

.PHONY: image
image: ## Build both container images: the log alone, and all with Java (ARGS="--build-arg BASE=...")
	@scripts/image $(ARGS)

.PHONY: image-check
image-check: $(READY) ## Build both images and start each as Docker would: read-only, not root (minutes; needs root, buildah, runc)
	@MAINSTEM_IMAGE_CHECK=1 exec $(BIN)/python -m pytest -q -rs -s tests/packaging/test_image.py $(ARGS)

.PHONY: deploy-check
deploy-check: $(READY) ## Lint Helm chart, compose file, systemd unit, alert rules and dashboard (installs its tools with Go)
	@scripts/setup-deploy-tools .cache/deploy-tools
	@PATH="$$PWD/.cache/deploy-tools:$$PATH" exec $(BIN)/python -m pytest -q -rs tests/packaging tests/node/test_monitoring_files.py $(ARGS)

.PHONY: clean
clean: ## Remove the virtual environment, caches and the demo's data
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis mainstem-data
