"""What the server makes of the clients' models: ((w_k, n_k), ...) -> w."""
