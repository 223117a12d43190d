"""What one batch minimises: equations as pure functions, then a step or a learner."""
