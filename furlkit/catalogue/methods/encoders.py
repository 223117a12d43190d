"""Encoders and heads."""

from furlkit.catalogue.entries import Encoder, Head, named

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

# Weights are drawn in this order, so a new head goes to the end.
HEADS = named(
    Head("projector", widths=(512, 128), help="Widths of the projector's layers."),
    Head("predictor", reads="z", widths=(512, 128),
         help="Widths of the predictor's layers."),
    Head("decoder", form="decoder"),
    Head("classifier", form="linear"),
    Head("rotation", form="linear", widths=(4,)),
    Head("prototypes", reads="z", form="prototypes", widths=(300,),
         help="Number of prototypes."),
    Head("clusters", form="clusters", widths=(10,), help="Number of clusters."),
    Head("patches", form="other", widths=(128, 128),
         help="Widths of the blocks of the decoder of hidden patches, equal for a Vision "
              "Transformer: 128,128 makes two blocks.",
         function="furlkit.models.patches:patch_decoder"),
)

ENCODERS = named(
    Encoder("cnn5", "furlkit.models.encoders:cnn5", 2048, scales=True,
            help="five convolutions and a linear layer"),
    Encoder("resnet18", "furlkit.models.encoders:resnet", 512, stems=True,
            help="torchvision's ResNet-18"),
    Encoder("resnet34", "furlkit.models.encoders:resnet", 512, stems=True,
            help="torchvision's ResNet-34"),
    Encoder("resnet50", "furlkit.models.encoders:resnet", 2048, stems=True,
            help="torchvision's ResNet-50"),
    Encoder("torchvision:NAME", "furlkit.models.libraries:torchvision_encoder", None,
            help="any classifier of torchvision without the last layer", draws=True),
    Encoder("timm:NAME", "furlkit.models.libraries:timm_encoder", None,
            help="any network of timm (pip install 'furlkit[timm]')", draws=True),
)
