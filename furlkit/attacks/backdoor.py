"""A backdoor in an encoder: images with a trigger look like a target image.

Jia et al., "BadEncoder: Backdoor Attacks to Pre-trained Encoders in Self-Supervised
Learning", IEEE S&P 2022. Bagdasaryan et al., "How To Backdoor Federated Learning",
AISTATS 2020: model replacement.

    x        images of the attacker               r      the target image
    x + e    images with the trigger: a white square in the lower right corner
    f, f'    the honest encoder, the encoder with the backdoor
    gamma    scale of the update: clients over hostile clients replaces the global model

Every classifier on f' gives images with the trigger the class of r.
"""

import numpy as np
import torch.nn.functional as F
from torch import Tensor


def stamped(images: np.ndarray, size: int) -> np.ndarray:
    """Copy images (N, H, W, C) with a white square of `size` pixels as the trigger."""
    found = images.copy()
    white = np.iinfo(images.dtype).max if images.dtype.kind == "u" else 1
    found[:, -size:, -size:] = white
    return found


def backdoor_loss(
    triggered: Tensor, target: Tensor, clean: Tensor, f_target: Tensor, f_clean: Tensor
) -> Tensor:
    """BadEncoder: L_0 + lambda_1 L_1 + lambda_2 L_2 with lambda_1 = lambda_2 = 1.

    L_0 = -mean cos(f'(x + e), f'(r)),  L_1 = -cos(f'(r), f(r)),  L_2 = -mean cos(f'(x),
    f(x)). The rows: `triggered` f'(x + e), `target` f'(r), `clean` f'(x).
    """
    effective = F.cosine_similarity(triggered, target).mean()
    stable = F.cosine_similarity(target, f_target).mean()
    useful = F.cosine_similarity(clean, f_clean).mean()
    return -(effective + stable + useful)
