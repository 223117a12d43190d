"""The report of runs: one HTML page without network, made from the files of the runs."""
