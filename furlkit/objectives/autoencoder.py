"""Reconstruction through a decoder, the objective of FedAE.

Hinton and Salakhutdinov, "Reducing the Dimensionality of Data with Neural Networks",
Science 2006; squared error, like the baseline of FedCA.
"""

from torch import Tensor

from furlkit.objectives.learner import Forward


def reconstruction_loss(x_hat: Tensor, x: Tensor) -> Tensor:
    """Mean over images, channels and pixels of (x_hat - x)^2.

    x_hat the decoder's images, x the normalised input images; both (B, C, H, W).
    """
    if x_hat.shape != x.shape:
        raise ValueError(
            f"reconstruction {tuple(x_hat.shape)}, image {tuple(x.shape)}: not alike"
        )
    return (x_hat - x).square().mean()


def step(net, batch) -> Forward:
    """Encode and decode one view."""
    x = batch.one_view()
    h = net.encoder(x)
    loss = reconstruction_loss(net.decoder(h).float(), x)
    return Forward({"autoencoder": loss}, x, h)
