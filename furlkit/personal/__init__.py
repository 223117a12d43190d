"""A model that a client trains for itself, beside the one that it sends.

A module holds the equations, and one of

    learner(learner, own, terms, memory, **options) -> Learner    trained together
    term(net, w, **options) -> Term or None                       trained afterwards

`learner` is what trains the model that is sent and `own` the same for the client's own
model; `terms` are those of the own model, `memory` has what the client remembers. `net`
is the own model's net, and `w` has the weights of the other model by name, as it was
received and as it was trained.
"""
