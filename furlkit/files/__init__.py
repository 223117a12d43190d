"""The doors: one module a kind of file. No method is known here."""
