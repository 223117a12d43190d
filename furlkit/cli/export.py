"""export: the bare encoder, for torchvision and timm."""

from typing import Any

from furlkit.cli.shared import argument, command, tell


@command("export", argument("model", "CHECKPOINT"))
def export(values: dict[str, Any]) -> None:
    """
    \b
    Example:
      furlkit export exp/r020/global.safetensors -o encoder
      # torchvision: resnet18().load_state_dict(load_file("encoder/model.safetensors"),
      #              strict=False)
      # timm:        create_model("resnet18", num_classes=0,
      #              checkpoint_path="encoder/model.safetensors")
    """
    from furlkit.stages.export import run

    tell(run(values))
