"""What is added to any objective.

A module holds the equation as a pure function, and a maker

    make(net, given, **options) -> term or None        term(batch, forward) -> Tensor

`given` has what local-train opened for terms (see `training.learners.Given`), `forward`
what the objective computed from the batch: its views, h and z. A term that makes a pass
of its own may give it whole, as another Forward, so that the collapse meter sees it.
"""
