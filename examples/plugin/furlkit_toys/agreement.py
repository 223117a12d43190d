"""An objective with two heads: z of one view should predict z of the other."""

from furlkit.catalogue import Number, Objective, Option

OBJECTIVE = Objective(
    "agreement",
    "the predictor's guess of the other view's z",
    heads=("projector", "predictor"),
    function="furlkit_toys.agreement:step",
    options=(
        Option("margin", Number(low=0), 0.0, "Distance below which nothing is gained."),
    ),
)


def step(net, batch, *, margin):
    """mean max(|p_1 - z_2|^2 - margin, 0), for unit p and z; the gradient stops at z."""
    import torch.nn.functional as F

    from furlkit.objectives.learner import Forward

    x = batch.two_views()  # (2B, C, S, S)
    h = net.encoder(x)
    z = net.projector(h)
    p = F.normalize(net.predictor(z).float(), dim=1)
    z_1, z_2 = F.normalize(z.float(), dim=1).detach().chunk(2)
    p_1, p_2 = p.chunk(2)
    gaps = ((p_1 - z_2) ** 2).sum(dim=1) + ((p_2 - z_1) ** 2).sum(dim=1)  # (B)
    loss = (gaps / 2 - margin).clamp(min=0).mean()
    return Forward({"agreement": loss}, x, h, z)
