"""Datasets by name or path, partition schemes, batched augmentation."""
