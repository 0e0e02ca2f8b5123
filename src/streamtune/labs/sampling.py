"""Real samples: an instance as a process under a CPU quota and a memory limit, fed as fast as it takes records."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np

from streamtune.labs.cgroups import Hierarchy, ResourceGroup, find_hierarchy
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling import instance as instance_module
from streamtune.provisioning.sampling.instance import HEADER, INTERPRETER_MB
from streamtune.provisioning.sampling.samples import Convergence, Provision, Sample, has_converged, standard_error

OPERATORS = ("CO1", "CO2", "CMO1", "CMO2")
_BATCH = 64
_AHEAD = 4  # batches an instance has waiting, so that it never starves
_numbers = itertools.count()


def packed(keys: list[int]) -> bytes:
    """A batch as the instance reads it."""
    return HEADER.pack(len(keys)) + struct.pack(f"<{len(keys)}Q", *keys)


@cache
def _prepared() -> list[bytes]:
    """Batches made ahead: a load generator that is busy making keys would be measured instead of the instance."""
    generator = np.random.default_rng(0)
    return [packed(generator.integers(0, 1 << 40, _BATCH).tolist()) for _ in range(2048)]


def check_provision(provision: Provision) -> None:
    """Refuse what cannot be measured on this machine, before anything is started."""
    if provision.memory_mb < INTERPRETER_MB:
        raise ProvisioningError(
            f"{provision.memory_mb:g} MiB cannot hold the interpreter: give at least {INTERPRETER_MB:g} MiB"
        )
    cores, memory_mb = os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    if provision.cpu > cores:
        raise ProvisioningError(f"{provision.cpu:g} cores cannot be sampled: this machine has {cores}")
    if provision.memory_mb > memory_mb:
        raise ProvisioningError(
            f"{provision.memory_mb:.0f} MiB cannot be sampled: this machine has {memory_mb:.0f} MiB. Give less"
        )


class RunningInstance:
    """One operator instance under limits; a context manager that ends process, group and files."""

    def __init__(self, operator: str, provision: Provision, hierarchy: Hierarchy, state_mb: float) -> None:
        if operator not in OPERATORS:
            raise ProvisioningError(f"unknown operator '{operator}': choose from {', '.join(OPERATORS)}")
        check_provision(provision)
        self.folder = Path(tempfile.mkdtemp(prefix="streamtune-sample-"))
        self.group = ResourceGroup(hierarchy, f"streamtune-{os.getpid()}-{next(_numbers)}")
        try:
            self.group.limit(provision.cpu, provision.memory_mb)
            self.process = self._start(operator, provision, state_mb)
            self.done = self._read()  # the instance says that it is ready
        except BaseException:
            self.close()
            raise
        self._waiting = 0
        self._batches = itertools.cycle(_prepared())

    def _start(self, operator: str, provision: Provision, state_mb: float) -> subprocess.Popen[bytes]:
        # A shell joins the groups before it becomes the interpreter, so that every page is charged to them.
        joining = "".join(f"echo $$ > '{file}'; " for file in self.group.process_files)
        command = [sys.executable, "-I", "-S", str(instance_module.__file__), operator]
        arguments = [f"{provision.memory_mb:g}", f"{state_mb:g}", str(self.folder)]
        return subprocess.Popen(
            ["/bin/sh", "-c", f'{joining}exec "$@"', "instance", *command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _read(self) -> int:
        assert self.process.stdout is not None
        head = self.process.stdout.read(HEADER.size)
        if len(head) < HEADER.size:
            raise ProvisioningError(
                "the instance ended while it was sampled: its memory limit is too small for its state. Give it more"
            )
        return int(HEADER.unpack(head)[0])

    @property
    def is_full(self) -> bool:
        """Enough is waiting: wait for something to be done before the next batch."""
        return self._waiting >= _AHEAD

    def send(self, keys: list[int]) -> None:
        """Hand over one batch."""
        self._send(packed(keys))

    def _send(self, batch: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(batch)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise ProvisioningError("the instance ended while it was fed: give it more memory") from error
        self._waiting += 1

    def acknowledged(self) -> int:
        """Wait for one batch to be done; gives its records."""
        count = self._read()
        self._waiting -= 1
        return count

    def serve(self, seconds: float) -> float:
        """Records/s over about this long, with records always waiting."""
        begun, served = time.monotonic(), 0
        while (now := time.monotonic()) - begun < seconds:
            while not self.is_full:
                self._send(next(self._batches))
            served += self.acknowledged()
        return served / max(time.monotonic() - begun, now - begun, 1e-9)

    def drain(self) -> int:
        """Records of all batches still waiting."""
        return sum(self.acknowledged() for _ in range(self._waiting))

    def close(self) -> None:
        process = getattr(self, "process", None)
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.group.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class ProcessSampler:
    """Samples an operator for real."""

    operator: str
    state_mb: float = 48.0
    convergence: Convergence = field(default_factory=Convergence)
    hierarchy: Hierarchy = field(default_factory=find_hierarchy)

    def sample(self, provision: Provision) -> Sample:
        """Start an instance, feed it until its rate has converged, and end it."""
        settings = self.convergence
        rates: list[float] = []
        begun = time.monotonic()
        with RunningInstance(self.operator, provision, self.hierarchy, self.state_mb) as running:
            for _ in range(settings.warmup_chunks):
                running.serve(settings.chunk_s)
            before, measured_from = running.group.usage(), time.monotonic()
            while time.monotonic() - begun < settings.most_s or len(rates) < 2:
                rates.append(running.serve(settings.chunk_s))
                if has_converged(rates, settings):
                    break
            after, elapsed = running.group.usage(), time.monotonic() - measured_from
        spread = standard_error(rates)
        return Sample(
            cpu=provision.cpu,
            memory_mb=provision.memory_mb,
            performance_per_s=float(np.mean(rates)),
            spread=spread if np.isfinite(spread) else 1.0,
            seconds=time.monotonic() - begun,
            cpu_used=(after.cpu_s - before.cpu_s) / elapsed,
            throttled=after.throttled_periods - before.throttled_periods,
        )


def sample_beside(
    sampling: RunningInstance, normal: list[RunningInstance], stream: list[int], share: float
) -> tuple[int, int]:
    """Online sampling: the sampling instance takes a share of the live stream, the normal ones take the rest.

    Gives the records done by the sampling instance and by the normal ones; together they are all of the stream.
    """
    if not 0 < share < 1 or not normal:
        raise ProvisioningError(f"online sampling needs normal instances and a share in (0, 1), but got {share:g}")
    done, turn, owed = [0, 0], 0, 0.0
    for begin in range(0, len(stream), _BATCH):
        batch = stream[begin : begin + _BATCH]
        owed += share
        if owed >= 1:
            owed -= 1
            target, place = sampling, 0
        else:
            target, place, turn = normal[turn % len(normal)], 1, turn + 1
        while target.is_full:
            done[place] += target.acknowledged()
        target.send(batch)
    done[0] += sampling.drain()
    done[1] += sum(one.drain() for one in normal)
    return done[0], done[1]
