"""export: the bare encoder, for torchvision and timm."""

from furlkit.cli.shared import argument, stage


@stage("export", argument("model", "CHECKPOINT"))
def export() -> None:
    """
    \b
    Example:
      furlkit export exp/r020/global.safetensors -o encoder
      # torchvision: resnet18().load_state_dict(load_file("encoder/model.safetensors"),
      #              strict=False)
      # timm:        create_model("resnet18", num_classes=0,
      #              checkpoint_path="encoder/model.safetensors")
    """
