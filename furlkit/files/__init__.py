"""The files that stages exchange: one module for each kind. No method is known here."""
