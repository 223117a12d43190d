"""Terms added to the loss of any objective.

A module holds the equation, a pure function, and a maker

    make(net, given, **options) -> term or None        term(batch, forward) -> Tensor

`given` maps the inputs that the term's entry in the catalogue names to their values:
`received`, the model that the client received; `learner`; data of exchanges. `forward` is
the objective's pass over the batch: its views, h and z. A term that makes a pass of its
own may return this pass, as another Forward, so that the collapse meter sees it.
"""
