"""Terms added to the loss of any objective.

A module holds the equation, a pure function, and a maker

    make(net, given, **options) -> term or None        term(batch, forward) -> Tensor

`given` has the inputs named in the catalogue: `received`, the model from the server;
`last`, the client's weights after the last round; `learner`; data of exchanges.
`forward` is the objective's pass over the batch: views, h and z. A term with a separate
pass may return a second Forward for the collapse meter.
"""
