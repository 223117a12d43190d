"""Personal models, trained by a client beside the copy of the global model.

A module holds the equations, and one of

    learner(learner, own, terms, memory, **options) -> Learner    trained together
    term(net, w, **options) -> Term or None                       trained afterwards

`learner` trains the sent model, `own` the personal model; `terms` are terms of the
personal model, `memory` holds the client's memory. `net` is the personal net, and `w`
holds the weights of the sent model by name, received and trained.
"""
