"""What a client starts a round from.

    (w_g, w_k, memory, **options) -> (w, memory, decision)

w_g       the global model, completed by what the client has kept
w_k       the client's weights after its last round; None in its first one, and where
          the catalogue's entry does not ask for them
memory    named numbers that the client keeps between rounds
decision  how much of its own the client kept; None where there is nothing to decide
"""
