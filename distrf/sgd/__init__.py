"""Stochastic gradients in batches: schedule, work of a worker, optimizers, preconditioner, trainer, plan."""
