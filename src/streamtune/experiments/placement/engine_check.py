"""The same designs through the ``Simulator`` engine itself: a job, a plan with a placement, bytes between hosts.

Straight lines and all-to-all stages are ordinary dataflows (forward and hash). OpenGov's keys spread unevenly from task
to task, which a dataflow does not say: there the fluid model stands alone.
"""

from __future__ import annotations

from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.plan import Instance
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings
from streamtune.experiments.placement.real_design import Design
from streamtune.placement.graph import Ints
from streamtune.workloads.placement_topologies import METRICS, Topology

_INT_BYTES = 4
_WINDOW = MeasurementWindow(30.0, 30.0)


def as_job(topology: Topology, rate: float) -> Job | None:
    """A topology as a job; None where its links are neither straight nor even."""
    edges = []
    for link in topology.links:
        straight = link.shares.shape[0] == link.shares.shape[1] and bool((link.shares.diagonal() == 1).all())
        if not straight and float(link.shares.max() - link.shares.min()) > 1e-12:
            return None
        if link.tuple_bytes % _INT_BYTES or abs(float(link.shares.sum(axis=1)[0]) - 1) > 1e-9:
            return None
        edges.append(Edge(link.source, link.target, "forward" if straight else "hash"))
    sizes = {link.source: int(link.tuple_bytes) // _INT_BYTES for link in topology.links}
    operators = []
    for component in topology.components:
        if component.name == METRICS:
            continue
        width = sizes.get(component.name, 1)
        if component.is_spout:
            spout = Operator(
                id=component.name, type="source", rate=rate * component.tasks, tuple_width_out=width, tuple_type="int"
            )
            operators.append(spout)
        else:
            kind = "sink" if component.name not in sizes else "map"
            operators.append(Operator(id=component.name, type=kind, tuple_width_out=width, tuple_type="int"))
    return Job(topology.name, Dataflow(tuple(operators), tuple(edges)))


def simulated_bytes_per_tuple(design: Design, hosts: int, part: Ints, rate: float) -> float | None:
    """Bytes between hosts per emitted tuple as the simulator reports them under this placement."""
    topology = design.build(hosts, design.seed)
    job = as_job(topology, rate)
    if job is None:
        return None
    names = [f"h{host}" for host in range(hosts)]
    placement, degrees = {}, {}
    for component in topology.components:
        if component.name == METRICS:
            continue
        degrees[component.name] = component.tasks
        for number in range(component.tasks):
            placement[Instance(component.name, number)] = names[part[topology.first[component.name] + number]]
    physics = {operator.id: OperatorPhysics(service_us=1.0, skew=0.0) for operator in job.dataflow.operators}
    cluster = Cluster(tuple(Host(cores=64, network_gbps=10) for _ in range(hosts)))
    engine = Simulator({job.name: physics}, SimulatorSettings.exact(), cluster=cluster)
    deployment = engine.deploy(job, Plan(degrees, placement=placement))
    seen = engine.observe(deployment, _WINDOW)
    assert seen.throughput_per_s is not None
    return float(engine.traffic(deployment).sum()) / seen.throughput_per_s
