"""What a client starts a round from: (w_g, w_k, memory, **options) -> (w, memory).

w_g      the global model
w_k      the client's weights after its last round; None in its first one, and where
         the catalogue's entry does not ask for them
memory   named numbers that the client keeps between rounds
"""
