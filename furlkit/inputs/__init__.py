"""Opening of a stage's inputs, and checks that the inputs fit together."""
