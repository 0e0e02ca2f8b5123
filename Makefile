# Every target builds the environment by itself when it is needed.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PYTHONHASHSEED := 0

.DEFAULT_GOAL := help
# No target of a plain name is a file.
.PHONY: $(shell grep -oE '^[a-z][a-z0-9-]*:' $(MAKEFILE_LIST) | tr -d ':')

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

env: $(STAMP)  ## build .venv from the pinned requirements.lock

# An extra package index with the CPU build of torch. On Linux, PyPI's torch brings gigabytes of CUDA; with
# make env TORCH_INDEX=https://download.pytorch.org/whl/cpu
# pip takes the CPU build of the same version. Empty where the usual index serves it already.
TORCH_INDEX ?=

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "streamtune needs Python 3.11: '$(PYTHON)' was not found. Install it, or set PYTHON=…"; exit 1; }
	@echo "==> building $(VENV) from requirements.lock: $$(grep -c == requirements.lock) pinned packages, 1.3 GB to download and 3 GB on disk"
	@echo "    with the CPU build of $$(grep -o '^torch==[0-9.]*' requirements.lock); some minutes the first time, nothing the next"
	@test -n "$(TORCH_INDEX)" || { echo "    On Linux, plain PyPI serves that torch with CUDA instead: several GB more. To avoid them:"; \
	  echo "    make env TORCH_INDEX=https://download.pytorch.org/whl/cpu"; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@grep -v '^torch==' requirements.lock > $(VENV)/hashed.txt
	@{ $(BIN)/python -m pip install --disable-pip-version-check --no-deps --require-hashes --requirement $(VENV)/hashed.txt && \
	   $(BIN)/python -m pip install --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) "$$(grep -o '^torch==[0-9.]*' requirements.lock)" && \
	   $(BIN)/python -m pip check && \
	   $(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation --editable . ; } \
	   > $(VENV)/pip.log 2>&1 || { grep -v '^WARNING: Location' $(VENV)/pip.log | tail -n 15; \
	   echo "pip could not build the environment (whole log: $(VENV)/pip.log). Fix the cause above and run 'make env' again."; exit 1; }
	@$(BIN)/python -c "import streamtune, pyspark, numba, torch_geometric" || { echo "the environment is incomplete: see the pip messages above, then 'make clean env'"; exit 1; }
	@touch $@

sbom: $(STAMP)  ## what the environment is made of, as CycloneDX, into build/sbom.json
	@mkdir -p build && $(BIN)/python -W ignore::UserWarning -m cyclonedx_py requirements requirements.lock --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json
	@echo "build/sbom.json: $$(grep -c '"purl"' build/sbom.json) components"

wheel: $(STAMP)  ## build the wheel and the sdist into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . > $(VENV)/build.log 2>&1 || { tail -n 15 $(VENV)/build.log; exit 1; }
	@ls dist

java:
	@java -version 2>&1 | grep -Eq 'version "(1[7-9]|2[0-9])' || { \
	  echo "Spark needs Java 17 or newer, but got: $$(java -version 2>&1 | head -n 1)."; \
	  echo "Install it (Debian/Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) and try again."; exit 1; }

demo: $(STAMP)  ## tune Nexmark Q5 over a cycle of rates and write an HTML report
	@$(BIN)/streamtune demo --out demo-report.html

# PYTEST_ARGS goes to every part, for example: make test PYTEST_ARGS="-k rescale"
test: $(STAMP) java  ## all tests and their coverage (starts its own Spark, Flink and Timely workers)
	@$(BIN)/python tests/run.py $(PYTEST_ARGS)

test-fast: $(STAMP)  ## the tests that start no JVM and no real engine
	@$(BIN)/python tests/run.py --fast $(PYTEST_ARGS)

FLINK_120 := .flink/1.20
$(FLINK_120)/.installed: | $(STAMP)
	@echo "==> fetching Flink 1.20 into $(FLINK_120)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(FLINK_120) apache-flink-libraries==1.20.5
	@touch $@

test-flink-versions: $(STAMP) java $(FLINK_120)/.installed  ## the tests on a real cluster, with Flink 1.20 and 2.3
	@echo "==> Flink 1.20"
	@STREAMTUNE_FLINK_HOME=$(FLINK_120)/pyflink $(BIN)/python -m pytest tests/engines/flink/test_integration.py
	@echo "==> Flink 2.3"
	@$(BIN)/python -m pytest tests/engines/flink/test_integration.py

lint: $(STAMP)  ## ruff, mypy and the import rules
	@echo "==> ruff, mypy, import-linter"
	@$(BIN)/ruff check src tests benchmarks docs examples conftest.py
	@$(BIN)/ruff format --check src tests benchmarks docs examples conftest.py
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: docs
docs: $(STAMP)  ## build the documentation into build/docs; warnings and broken links are errors
	@echo "==> building build/docs/index.html"
	@$(BIN)/python docs/generate.py --check
	@$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees -b html docs build/docs
	@$(BIN)/python docs/check_site.py build/docs

.PHONY: screenshots
screenshots: $(STAMP)  ## pictures of the dashboard from serve --demo into docs/images (needs Chromium; three minutes)
	@$(BIN)/python docs/screenshots.py

format: $(STAMP)  ## let ruff format and fix
	@$(BIN)/ruff format src tests benchmarks docs examples
	@$(BIN)/ruff check --fix src tests benchmarks docs examples

bench: bench-simulator bench-similarity bench-cluster bench-labels bench-history bench-pretrain bench-paper  ## all benchmarks on the simulator (hours)

bench-quality: $(STAMP)  ## sixty fixed cases of decision quality, against the stored scores (seconds)
	@$(BIN)/python benchmarks/quality.py

bench-drift: $(STAMP)  ## 2,000 windows of the same, then other code or data: the curve, into docs/images (a minute)
	@$(BIN)/python benchmarks/drift.py

bench-poisoned: $(STAMP)  ## a history a tenth of which lies: first plans, and jobs that run (a minute)
	@$(BIN)/python benchmarks/poisoned.py

bench-simulator: $(STAMP)  ## simulated seconds per second, and the onset of backpressure
	@$(BIN)/python benchmarks/simulator.py

bench-similarity: $(STAMP)  ## graph edit distance against networkx
	@$(BIN)/python benchmarks/similarity.py

check-pitfalls: $(STAMP)  ## make each pitfall of the edit distance and see a test fail
	@$(BIN)/python benchmarks/pitfalls.py

bench-paper: $(STAMP) java  ## the StreamTune paper's evaluation on the simulator (about an hour; QUICK=--quick for minutes)
	@$(BIN)/streamtune bench paper $(QUICK) --work build/bench-paper --report build/paper.html --results benchmarks/results/paper.json

bench-simulator-row: $(STAMP) java  ## StreamTune's own row of the main table of bench-paper, after a change of the tuner (a quarter of an hour, resumable)
	@$(BIN)/python benchmarks/simulator_row.py

LIGHT ?= --light
bench-coldstart: $(STAMP) java  ## first plans by every way, the certainty they ask for, poor readings (half an hour, resumable; QUICK=--quick for minutes, LIGHT= with encoders: much longer)
	@$(BIN)/streamtune bench coldstart $(LIGHT) $(QUICK) --work build/bench-coldstart --report build/coldstart.html --results benchmarks/results/coldstart.json
	@$(BIN)/python benchmarks/coldstart_pictures.py
	@$(BIN)/streamtune bench coldstart-certainty $(LIGHT) --seeds 0,1 $(QUICK) --work build/bench-coldstart --results benchmarks/results/coldstart-certainty.json
	@$(BIN)/streamtune bench learning-poor $(QUICK) --work build/bench-coldstart --results benchmarks/results/learning-poor.json
	@$(BIN)/streamtune bench coldstart-zerotune $(LIGHT) --seeds 0 $(QUICK) --work build/bench-coldstart --results benchmarks/results/coldstart-zerotune.json

bench-speed: $(STAMP) java  ## how long a recommendation takes (MODEL=a bundle with past operators; else one is made)
	@$(BIN)/python benchmarks/recommendation_speed.py $(MODEL)

bench-history: $(STAMP) java  ## labelling and featurising 0.1 to 10 million runs on Spark (half an hour, 10 GB of disk; resumable)
	@$(BIN)/python benchmarks/history.py

bench-small-files: $(STAMP) java  ## ingesting 1,000 to 100,000 files of one run each (a quarter of an hour; resumable)
	@$(BIN)/python benchmarks/small_files.py

bench-cluster: $(STAMP) java  ## clustering 20,000 runs on Spark
	@$(BIN)/python benchmarks/cluster.py

bench-cluster-scale: $(STAMP) java  ## clustering 10,000 and 100,000 shapes, and a sample against all pairs (an hour, resumable; ARGS="--shapes 10000")
	@$(BIN)/python benchmarks/cluster_scale.py $(ARGS)

bench-labels: $(STAMP)  ## labels against the simulator's truth, random plans and near the optimum
	@$(BIN)/python benchmarks/labels.py

# Models of the runs that flink-history and timely-history collected on real engines.
build/%-model: benchmarks/data/%/runs.jsonl.gz $(STAMP) | java
	@rm -rf build/$*-history && $(BIN)/streamtune history ingest build/$*-history $<
	@$(BIN)/streamtune history label build/$*-history && $(BIN)/streamtune history featurise build/$*-history
	@$(BIN)/streamtune pretrain build/$*-history --engine $* --out $@

bench-flink: build/flink-model  ## the paper's experiment on a real Flink (an hour and a half, resumable)
	@$(BIN)/python benchmarks/flink.py --model build/flink-model

PAPER_JOBS := nexmark-q1 nexmark-q2 nexmark-q3 nexmark-q5 nexmark-q8 pqp-linear-0 pqp-2way-0 pqp-3way-0
bench-flink-repeats: build/flink-model  ## StreamTune and DS2 on a real Flink three times over (an hour, resumable; quiet machine)
	@for n in 1 2 3; do $(BIN)/python benchmarks/flink.py --model build/flink-model --parts tuning --tuners streamtune ds2 --queries $(PAPER_JOBS) --lanes 8 \
		--pieces build/flink-repeat-$$n.json.gz --results benchmarks/results/flink-repeat-$$n.json --work build/flink-repeat-$$n || exit 1; done
	@$(BIN)/python benchmarks/flink_repeats.py build/flink-repeat-1.json.gz build/flink-repeat-2.json.gz build/flink-repeat-3.json.gz

bench-flink-cold: $(STAMP) java  ## first plans of eight held-out jobs on a real Flink, by every way (25 minutes, resumable; quiet machine)
	@$(BIN)/python benchmarks/flink_cold.py

bench-foreign: $(STAMP) java $(FLINK_120)/.installed  ## jobs that nobody here wrote, on Flink 2.3 and 1.20 (an hour, resumable)
	@$(BIN)/python benchmarks/foreign.py --parts tuning least
	@$(BIN)/python benchmarks/foreign.py --flink $(FLINK_120)/pyflink
	@$(BIN)/python benchmarks/foreign.py --flink $(FLINK_120)/pyflink --scheduler default
	@$(BIN)/python benchmarks/foreign_collect.py

bench-flink-watch: $(STAMP) java  ## twenty minutes of two watches, a killed TaskManager, resubmitted jobs
	@$(BIN)/python benchmarks/flink_watch.py $(ARGS)

bench-flink-watch-foreign: $(STAMP) java $(FLINK_120)/.installed  ## the same with jobs that nobody here wrote, on Flink 2.3 and 1.20 (forty minutes)
	@$(BIN)/python benchmarks/flink_watch.py --foreign
	@$(BIN)/python benchmarks/flink_watch.py --foreign --flink $(FLINK_120)/pyflink

bench-flink-chaos: $(STAMP) java  ## a real Flink under chaos while it is tuned, records counted at its sink (ten minutes, resumable; as root)
	@$(BIN)/python benchmarks/flink_chaos.py $(ARGS)

bench-fig8: build/timely-model  ## Fig. 8 on a real Timely Dataflow, by the 85 % rule and with growing queues (an hour, resumable)
	@$(BIN)/streamtune bench fig8 --model build/timely-model --seeds 0,1 --work build/fig8 --report build/fig8.html
	@$(BIN)/streamtune bench fig8 --model build/timely-model --backlog-growth 0.03 --work build/fig8-backlog --report build/fig8-backlog.html

flink-history: $(STAMP) java  ## labelled runs of a real Flink (resumable)
	@$(BIN)/python benchmarks/flink_history.py

bench-pretrain: $(STAMP) java  ## from history to model bundle, and whether the graph helps
	@$(BIN)/python benchmarks/pretrain.py

# PDSP-Bench's runs of Flink, if they are at hand.
REAL_RUNS ?= ../shared/data/pdsp/runs.jsonl.gz

bench-zerotune: $(STAMP) java  ## the ZeroTune paper's experiments, and real runs where there are any (an hour and more)
	@$(BIN)/streamtune bench zerotune --work build/zerotune --results benchmarks/results/zerotune.json \
	  $(if $(wildcard $(REAL_RUNS)),--real-runs $(REAL_RUNS))

bench-autoconfig-spark: $(STAMP) java  ## Fig. 8 of auto-configuration on a real Spark: our own Sundog (an hour, resumable; quiet machine; ARGS="--app count")
	@$(BIN)/python benchmarks/autoconfig_spark.py --page $(ARGS)

bench-autoconfig-flink: $(STAMP) java  ## auto-configuration of a SQL job on a real Flink (twenty minutes, resumable; quiet machine)
	@$(BIN)/python benchmarks/autoconfig_flink.py --page $(ARGS)

MINUTES ?= 8
bench-placement: $(STAMP)  ## Fischer's first study: model of hosts, real hosts (root; in slices, MINUTES=8), the partitioner's speed
	@$(BIN)/streamtune bench placement $(QUICK) --work build/placement --minutes $(MINUTES) \
		--report build/placement.html --results benchmarks/results/placement.json
	@$(BIN)/python benchmarks/placement.py speed
	@$(BIN)/python benchmarks/placement.py quality

bench-fuzz: $(STAMP)  ## 20,000 hostile command lines: no traceback, no hang, exit codes 0, 1, 2 and 130 only
	@$(BIN)/python benchmarks/fuzz_cli.py

bench-input-fuzz: $(STAMP) java  ## a million damaged specs, settings, answers, records, bundles and state files (resumable; CASES=20000 for a minute)
	@CASES=$(or $(CASES),1000000) $(BIN)/python benchmarks/input_fuzz.py

bench-sundog: $(STAMP) java  ## Sundog's speed: 1 to 50 M lines, rivals, stream, re-rank (half an hour, 4 GB of logs; resumable)
	@$(BIN)/python benchmarks/sundog.py --work build/bench-sundog

bench-sundog-study: $(STAMP) java  ## Sundog's study: old, recent and new data, the age of models, trends, real data
	@$(BIN)/streamtune bench sundog --work build/sundog-study $(if $(wildcard ../shared/data/movietweetings),--real-data ../shared/data) \
		--report build/sundog.html --results benchmarks/results/sundog-study.json

bench-sundog-kills: $(STAMP) java  ## kill -9 of Sundog's stream at 20 random moments; the tables must equal the batch's (resumable)
	@$(BIN)/python benchmarks/sundog_kills.py --work build/sundog-kills

bench-timely: $(STAMP)  ## the Timely engine itself: scaling, the 85 % rule, limits (two minutes)
	@$(BIN)/python benchmarks/timely.py

timely-history: $(STAMP)  ## 240 labelled runs on a real Timely; resumable (half an hour)
	@$(BIN)/python benchmarks/timely_history.py

FOLDERS ?= 1000
bench-hostile-folders: $(STAMP) java  ## 1,000 folders of hostile files against a plain reader (FOLDERS=30 for minutes)
	@FOLDERS=$(FOLDERS) $(BIN)/python benchmarks/hostile_folders.py

bench-disks: $(STAMP) java  ## every step of the pipeline on a full, read-only and slow disk (a quarter of an hour; as root, resumable)
	@$(BIN)/python benchmarks/disks.py

KILLS ?= 10
bench-kill: $(STAMP) java  ## kill -9 of everything that writes, at its steps and at random moments, then again (KILLS=1 for minutes)
	@KILLS=$(KILLS) $(BIN)/python benchmarks/kill_pipeline.py
	@KILLS=$(KILLS) LEARN_ON_SPARK=1 TUNE_ON_ENGINES=1 $(BIN)/python benchmarks/kill_processes.py

bench-provisioning: $(STAMP)  ## QEScalor's tables and figures, plan times, proactive against reactive (hours, resumable; tables as root)
	@$(BIN)/python benchmarks/provisioning.py times tables costs coverage forecasts proactive days flink-choice flink report

bench-service: $(STAMP)  ## what a fleet of 100, 300 and 1,000 jobs costs the service (a quarter of an hour, with nothing beside it)
	@$(BIN)/python benchmarks/service_fleet.py --results benchmarks/results/service.json

bench-service-flink: $(STAMP)  ## serve --demo flink end to end: plans applied live, two rounds of learning (twenty minutes, with nothing beside it)
	@rm -rf build/service-flink
	@$(BIN)/python benchmarks/service_flink.py 1 --results benchmarks/results/service.json
	@$(BIN)/python benchmarks/service_flink.py 2 --results benchmarks/results/service.json

soak-service: $(STAMP)  ## a week of simulated time, 40 jobs, two services, faults and 200 kills (a quarter of an hour; DAYS=1 KILLS_OF_SERVICES=30 for less)
	@$(BIN)/python benchmarks/service_soak.py --days $(DAYS) --kills $(KILLS_OF_SERVICES) --results benchmarks/results/service.json
soak-month: $(STAMP)  ## thirty days of the same, and whether memory and files stay flat (an hour)
	@$(BIN)/python benchmarks/service_soak.py --days 30 --kills 800 --name soak_month --results benchmarks/results/service.json
DAYS ?= 7
KILLS_OF_SERVICES ?= 200

clean:  ## remove the environment and everything that was built
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
