"""export: the bare encoder, for torchvision and timm."""

from furlkit.cli.shared import argument, stage


@stage("export", argument("model", "CHECKPOINT"))
def export() -> None:
    """The folder has the layout of Hugging Face; config.json says how to load it.

    \b
    Example:
      furlkit export exp/r020/global.safetensors -o encoder
      # timm:        create_model("local-dir:encoder", pretrained=True), for cnn5 and
      #              small stems after import furlkit.models.timm
      # torchvision: resnet18().load_state_dict(load_file("encoder/model.safetensors"),
      #              strict=False)
      # furlkit:     furlkit init --encoder resnet18 --from encoder ...
    """
