"""Golden numbers with their arithmetic, and what happens with strange input."""

from __future__ import annotations

import numpy as np
import pytest

from streamtune.errors import StreamTuneError
from streamtune.placement import (
    SCHEDULERS,
    CommunicationGraph,
    Even,
    Exact,
    Greedy,
    GreedyPlacementSettings,
    Host,
    Hosts,
    Metis,
    Ours,
    OursSettings,
    PlacementError,
    Problem,
    scheduler,
)
from streamtune.placement.balance import lower_bound

UNAWARE = [name for name in SCHEDULERS if name != "flink"]  # flink needs the operators of the tasks


def chains(count: int, depth: int, bytes_per_s: float = 100.0) -> CommunicationGraph:
    """The thesis' Parallel topology: straight lines of one spout and bolts."""
    tasks = [f"stage{d}-{i}" for d in range(depth) for i in range(count)]
    edges = [(d * count + i, (d + 1) * count + i, bytes_per_s) for d in range(depth - 1) for i in range(count)]
    return CommunicationGraph.of(tasks, np.ones(len(tasks)), edges)


def all_to_all(count: int, depth: int) -> CommunicationGraph:
    tasks = [f"stage{d}-{i}" for d in range(depth) for i in range(count)]
    edges = [
        (d * count + i, (d + 1) * count + j, 1.0) for d in range(depth - 1) for i in range(count) for j in range(count)
    ]
    return CommunicationGraph.of(tasks, np.ones(len(tasks)), edges)


@pytest.mark.parametrize("hosts", [4, 10, 80])
def test_straight_lines_have_no_remote_bytes(hosts: int) -> None:
    placed = Ours().place(Problem(chains(hosts, 8), Hosts.equal(hosts)))
    assert placed.remote_bytes_per_s == 0
    assert placed.imbalance == 1


def test_even_deals_in_turn_and_shuffled_lines_are_nearly_all_remote() -> None:
    problem = Problem(chains(10, 8), Hosts.equal(10))
    # 10 instances per stage on 10 hosts: instance i of every stage lands on host i.
    assert Even().place(problem).remote_bytes_per_s == 0
    # A random partner is on the same one of 10 hosts with probability 7/79: 91 % remote, as PLATFORM.md measured 90 %.
    shares = [Even(shuffled=True, seed=seed).place(problem).remote_share for seed in range(20)]
    assert np.mean(shares) == pytest.approx(1 - 7 / 79, abs=0.02)


def test_all_to_all_stages_are_the_reference_topologys_case() -> None:
    problem = Problem(all_to_all(10, 8), Hosts.equal(10))
    assert Even().place(problem).remote_share == pytest.approx(0.9)
    ours, greedy = Ours().place(problem), Greedy().place(problem)
    # Two neighbouring stages share 2.5 hosts: 4 × 4 of 100 pairs are local on each, in 4 of 7 hops: 22.9 % local.
    assert 1 - 0.4 * 4 / 7 - 1e-9 <= ours.remote_share <= 0.785
    assert ours.remote_share <= greedy.remote_share < 0.9


def test_greedy_puts_the_heaviest_pair_together_first() -> None:
    # Pairs by traffic: c–d (50), a–b (40), b–c (30). Two instances per host (α = 0): c, d, then a, b; b–c stays remote.
    graph = CommunicationGraph.of(list("abcd"), [1, 1, 1, 1], [(0, 1, 40), (1, 2, 30), (2, 3, 50)])
    placed = Greedy().place(Problem(graph, Hosts.equal(2)))
    assert placed.remote_bytes_per_s == 30
    assert placed.assignment["a"] == placed.assignment["b"] != placed.assignment["c"] == placed.assignment["d"]


def test_greedy_moves_an_instance_when_one_of_the_nine_ways_is_better() -> None:
    # a–b (10) and c–d (9) are together; then b–c (8): each host is full, so they stay apart. With α = 1 and γ large
    # everything may share a host, and the nine ways pull b to c's host and the others after it.
    graph = CommunicationGraph.of(list("abcd"), [1, 1, 1, 1], [(0, 1, 10), (2, 3, 9), (1, 2, 8)])
    apart = Greedy().place(Problem(graph, Hosts.equal(2)))
    assert apart.remote_bytes_per_s == 8
    loose = Greedy(GreedyPlacementSettings(alpha=1.0, gamma=100.0)).place(Problem(graph, Hosts.equal(2)))
    # α = 1 still leaves at least one instance on the second host (4 − 2 + 1 = 3 on the first): the cheapest cut is 8.
    assert loose.remote_bytes_per_s == 8


def test_greedy_keeps_what_runs_below_its_threshold() -> None:
    graph = CommunicationGraph.of(list("abcd"), [1, 1, 1, 1], [(0, 1, 40), (1, 2, 39.9), (2, 3, 40)])
    worse = {"a": "h0", "b": "h1", "c": "h1", "d": "h0"}  # remote 80, the greedy schedule has 39.9
    assert Greedy().place(Problem(graph, Hosts.equal(2), current=worse)).remote_bytes_per_s == 39.9
    other = {"a": "h1", "b": "h1", "c": "h0", "d": "h0"}  # just as good under other names
    assert Greedy().place(Problem(graph, Hosts.equal(2), current=other)).assignment == other


def test_strict_greedy_gives_up_as_the_original() -> None:
    # γ = 1 allows a load of 1.5 per host: 1 and 2 fit nowhere together, and 2 fits nowhere at all.
    graph = CommunicationGraph.of(list("ab"), [1.0, 2.0], [(0, 1, 5.0)])
    placed = Greedy(GreedyPlacementSettings(gamma=1.0, relax=False)).place(Problem(graph, Hosts.equal(2)))
    assert "old schedule stays" in placed.notes[0]
    assert placed.assignment == {"a": "h0", "b": "h1"}


def test_metis_says_what_balance_it_reached() -> None:
    placed = Metis().place(Problem(all_to_all(80, 8), Hosts.equal(80)))
    assert placed.imbalance > 1.03
    assert "was not kept" in placed.notes[0]
    ours = Ours().place(Problem(all_to_all(80, 8), Hosts.equal(80)))
    assert ours.imbalance_kept


def test_hosts_of_different_size_get_load_by_size() -> None:
    hosts = Hosts.of([Host(name="big", cpu=3), Host(name="small", cpu=1)])
    placed = Ours().place(Problem(chains(8, 1), hosts))
    assert sorted(placed.assignment.values()).count("big") == 6  # 8 tasks, 3 : 1
    assert placed.imbalance == pytest.approx(1.0)


def test_memory_is_a_constraint_of_its_own() -> None:
    # By load alone {a, b} | {c, d} cuts nothing; a and b need 60 MB each and a host has 100: they must be apart.
    graph = CommunicationGraph.of(list("abcd"), [1] * 4, [(0, 1, 9.0), (2, 3, 5.0)], memory_mb=[60, 60, 10, 10])
    free = Ours().place(Problem(graph, Hosts.equal(2)))
    assert free.remote_bytes_per_s == 0
    hosts = Hosts.of([Host(name="x", memory_mb=100), Host(name="y", memory_mb=100)])
    tight = Ours().place(Problem(graph, hosts))
    assert tight.problem.host_memory(tight.part).max() <= 100
    assert tight.remote_bytes_per_s == Exact().place(Problem(graph, hosts)).remote_bytes_per_s == 14


def test_zones_with_a_price_are_cut_where_it_is_cheapest() -> None:
    # A ring of 4 pairs. Heavy edges within pairs; two light edges of 5 and two of 4: zones must be cut at the 4s.
    edges = [(0, 1, 90.0), (2, 3, 90.0), (4, 5, 90.0), (6, 7, 90.0), (1, 2, 5.0), (3, 4, 4.0), (5, 6, 5.0), (7, 0, 4.0)]
    graph = CommunicationGraph.of([f"t{n}" for n in range(8)], [1] * 8, edges)
    hosts = Hosts(tuple(Host(name=f"h{n}", zone="east" if n < 2 else "west") for n in range(4)), price_per_gb=0.02)
    placed = Ours().place(Problem(graph, hosts))
    assert placed.remote_bytes_per_s == 18
    assert placed.cross_zone_bytes_per_s == 8
    assert placed.price_per_s == pytest.approx(8 * 0.02 / 1e9)


def test_a_small_gain_moves_nothing_and_a_large_one_does() -> None:
    graph = CommunicationGraph.of(list("abcd"), [1] * 4, [(0, 1, 100.0), (2, 3, 100.0)], state_mb=[1] * 4)
    apart = {"a": "h0", "b": "h1", "c": "h0", "d": "h1"}
    # Moving b and d (or a swap) moves 2 MB and saves 200 B/s: over an hour 0.72 MB, over a day 17 MB.
    hour = Ours().place(Problem(graph, Hosts.equal(2), current=apart, horizon_s=3600))
    assert hour.moves == {}
    assert "nothing moves" in hour.notes[-1]
    day = Ours().place(Problem(graph, Hosts.equal(2), current=apart, horizon_s=86_400))
    assert len(day.moves) == 2
    assert day.remote_bytes_per_s == 0
    assert day.moved_state_mb == 2


def test_fresh_parts_get_the_names_of_the_hosts_they_run_on() -> None:
    graph = chains(6, 4)
    ideal = {f"stage{d}-{i}": f"h{(i + 2) % 6}" for d in range(4) for i in range(6)}
    slightly_off = {**ideal, "stage0-0": "h3", "stage0-1": "h2"}
    placed = Ours().place(Problem(graph, Hosts.equal(6), current=slightly_off))
    assert placed.remote_bytes_per_s == 0
    assert len(placed.moves) == 2


def test_more_hosts_than_tasks_leaves_some_empty_and_says_so() -> None:
    for name in UNAWARE:
        placed = scheduler(name).place(Problem(chains(1, 3), Hosts.equal(5)))
        assert len(set(placed.assignment.values())) == 3
        # 3 tasks of load 1 on 5 hosts: the mean is 0.6, the largest 1.
        assert placed.imbalance == pytest.approx(1 / 0.6)
        assert any("more hosts (5) than tasks (3)" in note for note in placed.notes)


def test_a_balance_that_cannot_be_kept_is_said_with_its_reason() -> None:
    graph = CommunicationGraph.of(list("abcd"), [7, 1, 1, 1])
    placed = Ours().place(Problem(graph, Hosts.equal(2)))
    # Total 10, mean 5: the largest task alone is 7 / 5.
    assert placed.imbalance == pytest.approx(1.4)
    assert not placed.imbalance_kept
    assert "imbalance 1.03 cannot be kept: no placement has less than 1.4 (task 'a' alone)" in placed.notes[0]


def test_the_lower_bound_knows_tasks_that_must_share() -> None:
    # 10 equal tasks on 3 hosts: some host has 4, the mean is 10 / 3.
    graph = CommunicationGraph.of([str(n) for n in range(10)], [1.0] * 10)
    assert lower_bound(Problem(graph, Hosts.equal(3))) == pytest.approx(1.2)


def test_a_hard_balance_is_found() -> None:
    # Largest first ends at 17 | 13 (8 + 5 + 4 | 7 + 6); {8, 7} | {6, 5, 4} is even.
    graph = CommunicationGraph.of(list("abcde"), [8, 7, 6, 5, 4])
    placed = Ours().place(Problem(graph, Hosts.equal(2), imbalance=1.0))
    assert placed.imbalance == 1.0
    assert placed.imbalance_kept


def test_zero_traffic_and_zero_load() -> None:
    silent = CommunicationGraph.of(list("abcd"), [1, 1, 1, 1], [(0, 1, 0.0)])
    for name in UNAWARE:
        placed = scheduler(name).place(Problem(silent, Hosts.equal(2)))
        assert placed.remote_bytes_per_s == 0
        assert placed.imbalance == 1
        assert placed.remote_share == 0
    idle = CommunicationGraph.of(list("ab"), [0, 0], [(0, 1, 5.0)])
    for name in UNAWARE:
        assert scheduler(name).place(Problem(idle, Hosts.equal(2))).imbalance == 1


def test_a_graph_in_two_pieces_is_cut_between_them() -> None:
    edges = [(0, 1, 5.0), (1, 2, 5.0), (3, 4, 5.0), (4, 5, 5.0)]
    graph = CommunicationGraph.of(list("abcdef"), [1] * 6, edges)
    assert graph.pieces.tolist() == [0, 0, 0, 1, 1, 1]
    assert Ours().place(Problem(graph, Hosts.equal(2))).remote_bytes_per_s == 0


def test_hosts_that_vanish_lose_their_tasks_and_nothing_else_moves() -> None:
    graph = CommunicationGraph.of([f"t{n}" for n in range(6)], [1] * 6, state_mb=[10] * 6)
    current = {f"t{n}": f"h{n % 3}" for n in range(6)}
    left = Hosts.of([Host(name="h0"), Host(name="h1")])
    placed = Ours().place(Problem(graph, left, current=current))
    assert set(placed.moves) == {"t2", "t5"}
    assert any("hosts that are gone: h2" in note for note in placed.notes)


def test_a_host_too_small_for_any_instance_stays_empty() -> None:
    graph = CommunicationGraph.of(list("abcd"), [1] * 4, memory_mb=[100] * 4)
    hosts = Hosts.of([Host(name="tiny", memory_mb=50), Host(name="x", memory_mb=300), Host(name="y", memory_mb=300)])
    placed = Ours().place(Problem(graph, hosts))
    assert "tiny" not in placed.assignment.values()
    assert placed.imbalance == 1.0
    assert any("stay empty: tiny" in note for note in placed.notes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CommunicationGraph.of([], []), "no tasks"),
        (lambda: CommunicationGraph.of(["a", "a"], [1, 1]), "'a' is used twice"),
        (lambda: CommunicationGraph.of(["a"], [-1]), "task 'a': load must be finite and at least 0, but got -1"),
        (lambda: CommunicationGraph.of(["a"], [float("nan")]), "but got nan"),
        (lambda: CommunicationGraph.of(["a", "b"], [1, 1], [(0, 1, float("inf"))]), "edge a → b"),
        (lambda: CommunicationGraph.of(["a"], [1], [(0, 4, 1.0)]), "outside the 1 tasks"),
        (lambda: Hosts.equal(0), "between 1 and"),
        (lambda: Hosts.of([Host(name="x"), Host(name="x")]), "'x' is there twice"),
        (lambda: Problem(chains(2, 2), Hosts.equal(2), imbalance=0.9), "at least 1, but got 0.9"),
        (lambda: Problem(chains(2, 2), Hosts.equal(2), imbalance=float("nan")), "but got nan"),
        (lambda: Problem(chains(2, 2), Hosts.equal(2), horizon_s=0), "above 0, but got 0"),
        (lambda: Problem(chains(2, 2), Hosts.equal(2), pins={"nobody": "h0"}), "no such task"),
        (lambda: Problem(chains(2, 2), Hosts.equal(2), pins={"stage0-0": "gone"}), "that host is not there"),
        (lambda: scheduler("magic"), "no scheduler 'magic': choose one of ours, ours-link, even"),
        (lambda: Exact().place(Problem(chains(80, 8), Hosts.equal(80))), "for small graphs"),
    ],
)
def test_bad_input_has_one_clear_error(make: object, message: str) -> None:
    with pytest.raises(StreamTuneError, match=message.replace("(", r"\(")):
        make()  # type: ignore[operator]


def test_memory_that_is_not_there_is_one_clear_error() -> None:
    graph = CommunicationGraph.of(list("abc"), [1] * 3, memory_mb=[60] * 3)
    with pytest.raises(PlacementError, match="task 'a' needs 60 MB, the largest host has 50"):
        Problem(graph, Hosts.of([Host(name="x", memory_mb=50)]))
    with pytest.raises(PlacementError, match="the tasks need 180 MB, the 2 hosts have 140 MB"):
        Problem(graph, Hosts.of([Host(name="x", memory_mb=70), Host(name="y", memory_mb=70)]))
    # 180 MB fit 200 MB in sum, but no host holds two tasks of 60 MB within 100 MB.
    with pytest.raises(PlacementError, match="not in pieces that fit the hosts"):
        Ours().place(Problem(graph, Hosts.of([Host(name="x", memory_mb=100), Host(name="y", memory_mb=100)])))


def test_the_fast_way_keeps_the_promises_too() -> None:
    rng = np.random.default_rng(1)
    count, edges = 3000, 9000
    a = rng.integers(0, count, edges)
    b = (a + rng.geometric(0.05, edges)) % count
    graph = CommunicationGraph.from_arrays(
        [str(n) for n in range(count)], rng.uniform(0.5, 2, count), a, b, rng.lognormal(5, 1, edges)
    )
    fast = Ours(OursSettings(small=0))
    problem = Problem(graph, Hosts.equal(20))
    placed, metis, even = fast.place(problem), Metis().place(problem), Even().place(problem)
    assert placed.imbalance_kept
    assert placed.remote_bytes_per_s <= even.remote_bytes_per_s
    equal_balance = fast.place(Problem(graph, Hosts.equal(20), max(1.0, metis.imbalance)))
    assert equal_balance.remote_bytes_per_s <= metis.remote_bytes_per_s * 1.001


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_perfect_balance_is_found(seed: int) -> None:
    # Five hosts of four tasks that sum up to 100 each, shuffled: moves and swaps end near 1.002, bin completion at 1.
    rng = np.random.default_rng(seed)
    loads = np.concatenate([rng.dirichlet(np.full(4, 4.0)) * 100 for _ in range(5)])
    rng.shuffle(loads)
    graph = CommunicationGraph.of([str(n) for n in range(20)], loads)
    placed = Ours().place(Problem(graph, Hosts.equal(5), imbalance=1.0))
    assert placed.imbalance_kept


def test_many_hosts_with_few_tasks_each_keep_the_balance() -> None:
    # Three tasks a host on 2,000 hosts: largest-first ends at 1.065, no single move helps, swaps do.
    rng = np.random.default_rng(0)
    count = 6000
    a = rng.integers(0, count, 2 * count)
    b = (a + rng.geometric(0.05, 2 * count)) % count
    graph = CommunicationGraph.from_arrays(
        [str(n) for n in range(count)], rng.uniform(0.5, 2, count), a, b, np.ones(2 * count)
    )
    placed = Ours().place(Problem(graph, Hosts.equal(2000)))
    assert placed.imbalance_kept
    assert placed.remote_share < 0.9
