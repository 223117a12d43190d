"""export: the bare encoder, for torchvision and timm."""

from furlkit.cli.shared import stage


@stage("export")
def export() -> None:
    """The folder has the layout of Hugging Face; config.json says how to load it.

    \b
    Example:
      furlkit export exp/r020/global.safetensors -o encoder
    \b
    Python that gives h; for cnn5 and small stems after import furlkit.models.timm:
      timm.create_model("local-dir:encoder", pretrained=True)
      transformers.AutoModel.from_pretrained("encoder")
    \b
    Finetuning for 4 classes; net is loaded by the lines how_to_load of config.json:
      timm.create_model("local-dir:encoder", pretrained=True, num_classes=4)
      transformers.AutoModelForImageClassification.from_pretrained(
          "encoder", num_labels=4)
      torch.nn.Sequential(net, torch.nn.Linear(512, 4)).train()
    \b
    Another federation that starts from it:
      furlkit init --encoder resnet18 --from encoder --data digits -o global.safetensors
    """
