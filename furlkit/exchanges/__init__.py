"""Data that passes between rounds besides the model: one module for each exchange.

`exchange` defines the interface. A module contains everything about one exchange: the
checks of its options, opening its files, the inputs of learners and terms, the computation
after training, the shared files and the private memory. The options are declared in
`catalogue.exchanges`.
"""
