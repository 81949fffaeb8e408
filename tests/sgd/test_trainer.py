"""What the trainer counts in an epoch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from distrf.sgd.batch_work import Sums
from distrf.sgd.trainer import Rules, Trainer


class Optimizer:
    """Takes no step; the penalty is 2 at any weights."""

    def penalty_value(self, weights):
        return 2.0

    def __getattr__(self, name):
        return lambda *args: None


@pytest.mark.parametrize("losses", [(1.0, 1.0), (1.0, 100.0), (100.0, 1.0)])
def test_the_penalty_of_an_epoch_is_a_mean_over_its_batches(losses):
    """Of all of them: one that is skipped, since its loss is too large, counts as the others do."""
    rules = Rules(1, None, 1, classes=False, guarded=True)
    state = SimpleNamespace(weights=np.zeros((2, 1)))
    trainer = Trainer(
        None, SimpleNamespace(n_rows=20), Optimizer(), state, rules, 1.0, [], fallback=np.zeros((2, 1))
    )
    trainer.training.first_ratio = 1.0
    batch = SimpleNamespace(rows=10)
    taken = [trainer._advance(batch, Sums(np.zeros((2, 1)), 10 * loss, 10.0, null=10.0)) for loss in losses]
    assert taken == [loss < 3 for loss in losses]
    assert trainer.training.penalty / trainer.training.weight == 2.0
