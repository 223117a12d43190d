"""Tables, ledgers and figures of results."""
