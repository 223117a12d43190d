"""Losses of a batch: equations as pure functions, then a step or a learner."""
