"""Ours: begin with what is known, search only what is left, and measure again where it pays.

1. **Open with knowledge.** What similar jobs ended with (warm starts), or today's defaults, or the base weights.
2. **Let the running job speak.** As soon as a trial brings readings (rates and busy shares), the shares of parallelism
   follow from them as in DS2; one coordinate is left for all operators, the total (see ``reduced``, ``beliefs``).
3. **Search the rest** (total, batch, concurrency…) with a small Gaussian process over these few coordinates and one
   more, how far a trial's shares were from what is believed now: trials from before the job had spoken still count,
   at a distance. What is gained is weighed by the chance that it works at all, which a second process learns from the
   trials that failed; close to a failure nothing is tried.
4. **Measure again** where it decides: three times early to learn the noise; if there is any, every third step and
   later two of three go to whatever may still be the best.

Without readings and weights it is a Gaussian-process optimiser for a few dimensions, with the same care about noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamtune.autoconfig.choice import Candidate, candidates, mostly_failed, noise_of
from streamtune.autoconfig.process import Process, fit, one_thread
from streamtune.autoconfig.space import Configuration, Space, Value, Vector, key_of
from streamtune.autoconfig.strategies.ascent import clamped
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.strategies.beliefs import Beliefs, believe
from streamtune.autoconfig.strategies.reduced import Reduced
from streamtune.autoconfig.trial import Suggestion, Trial

_WARM_TRIALS, _UNLIKE = 3, 0.2
_TOTALS = 0.5, 0.7, 0.9
_NOISE_CHECKS = (5, 9, 13)
_HOW_NOISY = "how noisy is it?"
_CONFIRM_SOME, _CONFIRM_MOST = 12, 30
_NOTICEABLE_NOISE = 0.01
_RANDOM_POINTS, _LOCAL_POINTS = 48, 24  # per coordinate
_MOST_COORDINATES = 4
_DEVIATED_POINTS = 96
_BAD_RADIUS = 0.05
_LARGEST_FIT = 240
_DEEPEST = 3.0
_DESIGN, _DESIGN_POINTS = 4, 16
_LEAST_CHANCE, _FAILED_OFTEN = 0.02, 2
_BALANCING_STEPS, _BUSY, _CLOSE, _GROWTH, _LEAST_KEPT = 3, 0.9, 0.04, 1.6, 0.1
_DEVIATION, _DEVIATION_SCALE = 0.35, 2.0


class Ours(Strategy):
    """See the module's text."""

    name = "ours"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.reduced = Reduced.of(self.space, self.problem.hosts)
        self._sign = 1.0 if self.problem.objective.maximise else -1.0

    def ask(self, trials: Sequence[Trial]) -> Suggestion:
        beliefs = believe(self.space, self.reduced.hints, trials, self._prior())
        with one_thread():
            return (
                self._opening(trials, beliefs)
                or self._balanced(trials, beliefs)
                or self._again(trials, beliefs)
                or self._search(trials, beliefs)
            )

    # -- 1: knowledge ----------------------------------------------------------------------------------------------

    def _prior(self) -> dict[str, float]:
        """Shares before anything ran: base weights, or equal ones, times what such operators took in a similar job.

        The less alike the jobs are, the less it says which operator was mapped onto which.
        """
        nearest = self.warm[0] if self.warm else {}
        trust = max(0.0, 1.0 - float(nearest.get("distance", 1.0)) / _UNLIKE)
        work = nearest.get("work", {})
        return {
            name: (self.space.knobs[name].weight or 1.0) * float(work.get(name, 1.0)) ** trust
            for name in self.reduced.hints
        }

    def _carried(self, beliefs: Beliefs) -> list[Configuration]:
        """The best of similar jobs, nearest first: one where this job tells the rest itself, else up to three.

        From another graph its total is taken and spread by this job's own shares: which operator is which is a guess.
        """
        told = []
        for place in range(_WARM_TRIALS):
            for session in self.warm:
                configurations = session.get("configurations", [])
                if place < len(configurations):
                    knobs = {**self.space.defaults, **configurations[place]}
                    totals = session.get("totals", [])
                    if self.reduced.hints and session.get("distance", 0.0) > 0 and place < len(totals):
                        knobs.update(self.reduced.hints_for(float(totals[place]), beliefs.shares))
                    told.append(self.space.repair(knobs))
        return told[: 1 if beliefs.observed else _WARM_TRIALS]

    def _opening(self, trials: Sequence[Trial], beliefs: Beliefs) -> Suggestion | None:
        number = len(trials)
        told = self._carried(beliefs)
        if number < len(told):
            return Suggestion(knobs=told[number], why="what a similar job ended with")
        if number == len(told) and self.space.has_defaults:
            return Suggestion(knobs=self.space.repair(self.space.defaults), why="the defaults")
        if sum(not trial.failed for trial in trials) >= self._design_size(beliefs):
            return None
        knobs = self.fresh(self._designed(trials, beliefs), trials, number)
        return Suggestion(knobs=knobs, why="first look" if number == 0 else "initial design")

    def _designed(self, trials: Sequence[Trial], beliefs: Beliefs) -> Configuration:
        """The next point of the design whose categories have not failed whenever they were tried."""
        number, bad = len(trials), failing_choices(self.space, trials, 1)
        found = []
        for place in range(number, number + _DESIGN_POINTS if bad else number + 1):
            point = self._design_point(place)
            if self.reduced.hints and number > 0 and not any(not trial.failed for trial in trials):
                point[0] *= 0.5**number  # nothing has worked yet: go towards fewer instances
            found.append(self.decode(point, beliefs))
            if not any((name, value) in bad for name, value in found[-1].items()):
                return found[-1]
        return found[0]

    def _design_size(self, beliefs: Beliefs) -> int:
        """One trial is enough for one coordinate that the job's readings place; without them it must be bracketed."""
        if self.reduced.dimensions > 1:
            return min(_DESIGN, 1 + self.reduced.dimensions)
        return len(_TOTALS) if self.reduced.hints and not beliefs.observed else 1

    def _design_point(self, number: int) -> Vector:
        from scipy.stats import qmc

        size = max(1, self.reduced.dimensions)
        points = qmc.Sobol(size, seed=self.seed).random(_DESIGN_POINTS)
        point = np.asarray(points[number % _DESIGN_POINTS], dtype=float)
        if number == 0:
            point[:] = 0.5
        elif self.reduced.hints:
            point[0] = _TOTALS[number % len(_TOTALS)]
        return point

    def decode(self, point: Vector, beliefs: Beliefs) -> Configuration:
        knobs = self.reduced.decode(point, beliefs.shares) if self.reduced.hints else self.space.decode(point)
        if not beliefs.contentious:
            return knobs
        lowest = {name: self.space.knobs[name].from_unit(np.zeros(1)) for name in beliefs.contentious}
        return self.space.repair({**knobs, **lowest})

    # -- 2: the total that the running job asks for ----------------------------------------------------------------

    def _balanced(self, trials: Sequence[Trial], beliefs: Beliefs) -> Suggestion | None:
        """Where the busiest instances are just about busy: fewer hold the job up, more only take turns on the cores.

        A trial whose busiest operator has instances to spare was held up by something else than instances: so many
        fewer would have done. One whose busiest operator is busy all the time needs more. After a few steps, or once
        both were seen close to each other, the search takes over.
        """
        good = [trial for trial in trials if not trial.failed]
        if not beliefs.observed or len(good) >= self._design_size(beliefs) + _BALANCING_STEPS:
            return None
        seen = [
            (self._total(trial.knobs), busy) for trial in good if (busy := self._busiest(trial, beliefs)) is not None
        ]
        if not seen:
            return None
        short = max((total for total, busy in seen if busy >= _BUSY), default=0.0)
        ample = min((total * max(busy, _LEAST_KEPT) for total, busy in seen if busy < _BUSY), default=math.inf)
        wanted = ample if math.isfinite(ample) else short * _GROWTH
        if short and math.isfinite(ample):
            wanted = math.sqrt(short * ample) if ample > short else (short + ample) / 2
        knobs = {**self.space.filled(good[-1].knobs), **self.reduced.hints_for(wanted, beliefs.shares)}
        lowest = {name: self.space.knobs[name].from_unit(np.zeros(1)) for name in beliefs.contentious}
        found = self.space.repair({**knobs, **lowest})
        if any(abs(self._total(found) / total - 1.0) < _CLOSE for total, _ in seen):
            return None
        return Suggestion(knobs=found, why=f"about {wanted:.0f} instances would be busy all the time")

    def _total(self, knobs: Configuration) -> float:
        full = self.space.filled(knobs)
        return sum(float(full[name]) for name in self.reduced.hints)

    def _busiest(self, trial: Trial, beliefs: Beliefs) -> float | None:
        """Busy share of the scarcest operator's instances, by the job's whole work and the believed shares."""
        read = {
            name: one
            for name in self.reduced.hints
            if name not in beliefs.contentious
            and (one := trial.operators.get(self.space.knobs[name].operator or "")) is not None
        }
        if trial.failed or not read or len(read) + len(beliefs.contentious) < len(self.reduced.hints):
            return None
        work = sum(one.busy * one.parallelism for one in read.values())
        whole = sum(beliefs.shares[name] for name in read)
        return max(work * beliefs.shares[name] / whole / one.parallelism for name, one in read.items())

    # -- 4: measuring again ----------------------------------------------------------------------------------------

    def _again(self, trials: Sequence[Trial], beliefs: Beliefs) -> Suggestion | None:
        found = candidates(trials)
        number = len(trials)
        if len(found) < 2:
            return None
        noise = noise_of(found)
        repeated = [one for one in found if len(one.values) > 1]
        if noise is None:
            if _owes_check(trials, repeated) and not _is_exact([one.values for one in repeated]):
                best = max(found, key=lambda one: self._sign * one.mean)
                return Suggestion(knobs=best.knobs, why=f"trial {best.number} again: {_HOW_NOISY}")
            return None
        turn = number % 3 == 0 if number < _CONFIRM_MOST else number % 3 != 0
        if noise.share([one.mean for one in found]) < _NOTICEABLE_NOISE or number < _CONFIRM_SOME or not turn:
            return None
        # With the doubt in their favour: of many that were measured once, some of the good ones had bad luck. What is
        # expected of one, and how much in doubt, is also told by the others near it.
        process = self._process(found, beliefs)
        mean, doubt = process.predict(np.array([self.features(one.knobs, beliefs) for one in found]))
        chosen = found[int(np.argmax(mean + doubt))]
        return Suggestion(knobs=chosen.knobs, why=f"trial {chosen.number} again: it may be the best")

    # -- 2 and 3: the search ---------------------------------------------------------------------------------------

    def _search(self, trials: Sequence[Trial], beliefs: Beliefs) -> Suggestion:
        number = len(trials)
        good = candidates(trials)
        if len(good) < 2:
            knobs = self.decode(self._design_point(number), beliefs)
            return Suggestion(knobs=self.fresh(knobs, trials, number), why="by what the running job told")
        process = self._process(good, beliefs)
        best = float(process.predict(process.x)[0].max())
        offered = self._offers(good, beliefs, number)
        failed = mostly_failed(trials)
        bad = [self.features(trial.knobs, beliefs) for trial in trials if key_of(trial.knobs) in failed]
        tried = {key_of(trial.knobs) for trial in trials}
        hopeless = failing_choices(self.space, trials, _FAILED_OFTEN)
        points = np.array([self.features(knobs, beliefs) for knobs in offered])
        gains = process.improvement(points, best) * self._chances(trials, points, beliefs)
        for place, (knobs, point) in enumerate(zip(offered, points, strict=True)):
            near_failure = any(float(np.max(np.abs(point - one))) < _BAD_RADIUS for one in bad)
            if near_failure or key_of(knobs) in tried or any(one in hopeless for one in knobs.items()):
                gains[place] = -1.0
        chosen = int(np.argmax(gains))
        knobs = offered[chosen] if gains[chosen] >= 0 else self.fresh(offered[chosen], trials, number)
        told = "the running job's shares" if beliefs.observed else "what is known"
        return Suggestion(knobs=knobs, why=f"largest expected improvement around {told}")

    def _chances(self, trials: Sequence[Trial], points: Vector, beliefs: Beliefs) -> Vector:
        """How likely each point works at all, by a process over which trials failed; 1 while none has."""
        kept = trials[-_LARGEST_FIT:]
        if not any(trial.failed for trial in kept):
            return np.ones(len(points))
        known = np.array([self.features(trial.knobs, beliefs) for trial in kept])
        worked = np.array([float(not trial.failed) for trial in kept])
        mean, _ = fit(known, worked, groups=self._groups(beliefs)).predict(points)
        return np.clip(mean, _LEAST_CHANCE, 1.0)

    def _process(self, good: Sequence[Candidate], beliefs: Beliefs) -> Process:
        """Fitted to all good configurations, on a logarithmic scale where values allow; noise as repeats told it."""
        kept = sorted(good, key=lambda one: -self._sign * one.mean)[:_LARGEST_FIT]
        means = np.array([one.mean for one in kept])
        noise = noise_of(good)
        logarithmic = self._is_logarithmic(means)
        if logarithmic:  # far below the best it does not matter how far: the process should be right at the top
            values = self._sign * np.sign(means) * np.log(np.abs(means))
            values = np.maximum(values, values.max() - _DEEPEST)
        else:
            values = self._sign * means
        typical = float(abs(means.mean()))
        sd = None if noise is None else noise.at(typical) / (typical if logarithmic else 1.0)
        return fit(
            np.array([self.features(one.knobs, beliefs) for one in kept]),
            values,
            np.array([float(len(one.values)) for one in kept]),
            groups=self._groups(beliefs),
            noise_sd=sd,
        )

    def _is_logarithmic(self, means: Vector) -> bool:
        """Whether all have one sign; and, where small is good, none is so near 0 that it would dwarf all others."""
        if not (np.all(means > 0) or np.all(means < 0)):
            return False
        grows = self._sign * float(means[0]) > 0
        return grows or bool(np.median(np.abs(means)) <= math.exp(_DEEPEST) * np.abs(means).min())

    def features(self, knobs: Configuration, beliefs: Beliefs) -> Vector:
        """Coordinates of the process: the reduced ones and how the shares differ from what is believed.

        Where the job has spoken, one number says how far the scarcest operator is below its share. Where it has not,
        the beliefs are weak and every operator's deviation counts, all with one length scale.
        """
        reduced = self.reduced.encode(knobs)
        if not self.reduced.hints:
            return reduced
        if beliefs.observed:
            return np.append(reduced, self._mismatch(knobs, beliefs))
        full = self.space.filled(knobs)
        degrees = np.array([float(full[name]) for name in self.reduced.hints])
        shares = np.array([beliefs.shares[name] for name in self.reduced.hints])
        return np.append(reduced, np.clip(np.log(degrees / (degrees.sum() * shares)) / _DEVIATION_SCALE, -1.0, 1.0))

    def _groups(self, beliefs: Beliefs) -> list[int]:
        """Column → length scale."""
        own = list(range(max(1, self.reduced.dimensions)))
        if not self.reduced.hints:
            return own
        return own + [len(own)] * (1 if beliefs.observed else len(self.reduced.hints))

    def _mismatch(self, knobs: Configuration, beliefs: Beliefs) -> float:
        """How far the scarcest operator is below its share, on a logarithmic scale, within [0, 1]."""
        full = self.space.filled(knobs)
        steady = [name for name in self.reduced.hints if name not in beliefs.contentious] or list(self.reduced.hints)
        per_share = np.array([float(full[name]) / max(beliefs.shares[name], 1e-9) for name in steady])
        total = sum(float(full[name]) for name in steady) / max(sum(beliefs.shares[name] for name in steady), 1e-9)
        wasted = sum(float(full[name]) - self.space.knobs[name].bounds[0] for name in beliefs.contentious)
        return float(np.clip(math.log(total / per_share.min()) / 4.0 + wasted / max(total, 1.0), 0.0, 1.0))

    def _offers(self, good: Sequence[Any], beliefs: Beliefs, number: int) -> list[Configuration]:
        """Points all over the reduced cube, and around the best ones."""
        generator = self.generator(number)
        size = max(1, self.reduced.dimensions)
        counted = min(size, _MOST_COORDINATES)
        cube = [generator.random(size) for _ in range(counted * _RANDOM_POINTS)]
        top = sorted(good, key=lambda one: -self._sign * one.mean)[:3]
        around = []
        for _ in range(counted * _LOCAL_POINTS):
            centre = self.reduced.encode(top[int(generator.integers(len(top)))].knobs)
            moved = generator.random(size) < max(0.3, 2.0 / size)
            moved[int(generator.integers(size))] = True
            step = generator.normal(0.0, generator.choice([0.02, 0.06, 0.15]), size)
            around.append(np.clip(centre + step * moved, 0.0, 1.0))
        found = [self.decode(point, beliefs) for point in [*cube, *around]]
        if self.reduced.hints and not beliefs.observed:
            found += [self._deviated(top[place % len(top)].knobs, generator) for place in range(_DEVIATED_POINTS)]
        return list({key_of(knobs): knobs for knobs in found}.values())

    def _deviated(self, knobs: Configuration, generator: np.random.Generator) -> Configuration:
        """A good configuration with some operators up and some down: how shares are learnt from values alone."""
        hints = self.reduced.hints
        count = int(generator.integers(1, max(2, len(hints) // 2) + 1))
        picked = generator.choice(len(hints), size=min(count, len(hints)), replace=False)
        full = self.space.filled(knobs)
        for place in picked:
            name = hints[int(place)]
            factor = math.exp(float(generator.choice([-1.0, 1.0])) * _DEVIATION)
            wanted = float(full[name]) * factor
            full[name] = clamped(self.space.knobs[name], math.floor(wanted) if factor < 1 else math.ceil(wanted))
        return self.space.repair(full)


def failing_choices(space: Space, trials: Sequence[Trial], least: int) -> set[tuple[str, Value]]:
    """Values of categories that failed ``least`` times and never worked, where another value of the knob has worked."""
    bad: set[tuple[str, Value]] = set()
    for name, knob in space.knobs.items():
        if knob.type != "category":
            continue
        outcomes: dict[str, list[bool]] = {}
        for trial in trials:
            if name in trial.knobs:
                outcomes.setdefault(repr(trial.knobs[name]), []).append(not trial.failed)
        if any(any(worked) for worked in outcomes.values()):
            found = ((value, outcomes.get(repr(value), [])) for value in knob.choices)
            bad |= {(name, value) for value, worked in found if len(worked) >= least and not any(worked)}
    return bad


def _owes_check(trials: Sequence[Trial], repeated: Sequence[Candidate]) -> bool:
    """Whether a look at the noise is due; one that failures or the opening held up is made good, not twice running."""
    if trials[-1].why.endswith(_HOW_NOISY):
        return False
    done = sum(len(one.values) - 1 for one in repeated)
    return len(trials) in _NOISE_CHECKS or done < sum(len(trials) >= check for check in _NOISE_CHECKS)


def _is_exact(repeats: Sequence[Sequence[float]]) -> bool:
    """Whether what was measured twice gave the same twice."""
    return bool(repeats) and all(max(values) - min(values) <= 1e-3 * abs(max(values)) for values in repeats)
