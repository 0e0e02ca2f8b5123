"""A tenth of a history lies: what that does to first plans and to jobs that run.

python benchmarks/poisoned.py
"""

from __future__ import annotations

from streamtune.experiments.poisoned import ATTACKS, LIE, effects, history, summary

RUNS, SEEDS = 3_000, (0, 1, 2)


def main() -> None:
    print(f"{RUNS:,} runs, a tenth of them with rates × or ÷ {LIE:g}; seeds {SEEDS}; four jobs at 2, 5 and 10·W_u")
    for name, attack in ATTACKS.items():
        found = [
            one for seed in SEEDS for runs in [history(RUNS, seed)] for one in effects(runs, attack(runs, seed), seed)
        ]
        print(f"- {name}: {summary(found)}")


if __name__ == "__main__":
    main()
