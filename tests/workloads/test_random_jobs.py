"""Random jobs: valid, bounded, reproducible in any process, and varied."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.dataflow.graph import Dataflow
from streamtune.dataflow.operator import JOIN_TYPES, KNOWN_TYPES
from streamtune.dataflow.spec import parse_spec
from streamtune.errors import DataflowError
from streamtune.workloads import random_dataflow, random_job

seeds = st.integers(min_value=0, max_value=2**40)
sizes = st.integers(min_value=3, max_value=20)


@given(seeds, sizes)
def test_valid_and_within_the_size(seed: int, max_operators: int) -> None:
    # Building the Job has checked that it is a DAG with sources, rates, and no operator without inputs.
    flow = random_job(seed, max_operators).spec.job.dataflow
    assert 3 <= len(flow.operators) <= max_operators
    assert set(flow.types) <= set(KNOWN_TYPES)
    assert flow.types.count("sink") == 1
    for operator in flow.operators:
        assert operator.type == "sink" or flow.successors(operator.id), "every result is used"
        if operator.type != "sink":
            assert (len(flow.predecessors(operator.id)) == 2) == (operator.type in JOIN_TYPES)


@given(seeds, sizes)
def test_the_seed_alone_decides(seed: int, max_operators: int) -> None:
    assert random_job(seed, max_operators) == random_job(seed, max_operators)


@settings(deadline=None)  # YAML in pure Python is slow
@given(seeds)
def test_a_spec_survives_yaml(seed: int) -> None:
    spec = random_job(seed).spec
    assert parse_spec(yaml.safe_load(spec.to_yaml())) == spec


@given(seeds)
def test_every_operator_can_be_served_at_the_peak(seed: int) -> None:
    workload = random_job(seed)
    assert all(need is not None for need in workload.needs_at(10).values())
    for source in workload.spec.job.dataflow.sources:
        assert source.parallelism is not None
        capacity = workload.physics[source.id].capacity_per_s(source.parallelism)
        assert workload.rates_at(10)[source.id] <= 0.5 * capacity


@given(seeds, sizes)
def test_the_bare_dataflow_is_that_of_the_job(seed: int, max_operators: int) -> None:
    job = random_job(seed, max_operators).spec.job
    assert random_dataflow(seed, max_operators).canonical_form == job.dataflow.canonical_form


def test_the_same_in_another_process() -> None:
    program = "from streamtune.workloads import random_job; print(random_job(11).spec.to_yaml(), end='')"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": hash_seed}
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert seen == {random_job(11).spec.to_yaml().encode()}


def test_shapes_are_varied() -> None:
    flows = [random_dataflow(seed) for seed in range(300)]
    assert len({flow.canonical_form for flow in flows}) > 200
    assert sum(has_diamond(flow) for flow in flows) > 60
    assert sum(bool(JOIN_TYPES.intersection(flow.types)) for flow in flows) > 150
    assert {len(flow.operators) for flow in flows} == set(range(3, 21))
    assert {flow.types.count("source") for flow in flows} == {1, 2, 3, 4}


def has_diamond(flow: Dataflow) -> bool:
    """Whether two inputs of some inner operator go back to the same ancestor."""
    ancestors: dict[str, set[str]] = {}
    for operator_id in flow.order:
        lines = [ancestors[before] | {before} for before in flow.predecessors(operator_id)]
        ancestors[operator_id] = set().union(*lines)
        if flow.operator(operator_id).type != "sink" and len(lines) == 2 and lines[0] & lines[1]:
            return True
    return False


def test_many_jobs_differ_by_seed() -> None:
    digests = {hashlib.sha256(random_job(seed).spec.to_yaml().encode()).hexdigest() for seed in range(200)}
    assert len(digests) == 200


@pytest.mark.parametrize(("low", "high"), [(2, 20), (10, 9), (3, 2)])
def test_impossible_sizes_are_refused(low: int, high: int) -> None:
    with pytest.raises(DataflowError, match=f"but got {low} and {high}"):
        random_job(1, high, min_operators=low)
