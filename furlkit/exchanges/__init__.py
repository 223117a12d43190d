"""Data passed between rounds besides the model: a module for every exchange.

`exchange` defines the interface. A module checks the options of the exchange, opens the
files, returns the inputs of learners and terms, computes results after training, and
writes shared files and private memory. `catalogue.exchanges` declares the options.
"""
