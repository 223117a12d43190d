"""Terms added to the loss of any objective.

A module holds the equation, a pure function, and a maker

    make(net, given, **options) -> term or None        term(batch, forward) -> Tensor

`given` holds the files opened by local-train (see `training.learners.Given`), `forward`
the objective's views, h and z of the batch. A term with a separate forward pass may
return the pass, a Forward, for the collapse meter.
"""
