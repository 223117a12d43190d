"""Share of an image's neighbours with the class of the image.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels", ECCV 2020: an
image and its neighbours fall into one cluster, so clusters match classes only if
neighbours share a class.
"""

import numpy as np


def own_class(labels: np.ndarray, index: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """Share of neighbours with the image's class, for each rank, nearest first.

    labels of all images, index (n) and nearest (n, k) positions -> shares (k).
    """
    return (labels[nearest] == labels[index][:, None]).mean(axis=0)
