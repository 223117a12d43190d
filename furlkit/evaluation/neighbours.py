"""How many of an image's neighbours are of its own class.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels", ECCV 2020: an
image and its neighbours fall into one cluster, so clusters are classes as far as
neighbours are of one class.
"""

import numpy as np


def own_class(labels: np.ndarray, index: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """For each rank, nearest first, the share of neighbours of the image's own class.

    labels of all images, index (n) and nearest (n, k) places among them -> shares (k).
    """
    return (labels[nearest] == labels[index][:, None]).mean(axis=0)
