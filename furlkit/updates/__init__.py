"""What a client starts a round from: (w_global, w_local, ...) -> w."""
