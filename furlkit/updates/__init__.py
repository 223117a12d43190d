"""Weights at the start of a client's round.

    (w_g, w_k, memory, **options) -> (w, memory, decision)

w_g       the global model, completed by the client's stored parts
w_k       the client's weights after its last round; None in the first round, and if
          the catalogue's entry does not ask for them
memory    named numbers kept by the client between rounds
decision  the share of w_k in w; None if the update decides nothing
"""
