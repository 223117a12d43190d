"""export: the bare encoder, for torchvision and timm."""

from furlkit.catalogue.entries import Argument, File, command, group
from furlkit.catalogue.groups import GENERAL, IN_OUT, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("export", "Write the bare encoder under torchvision's or timm's names.",
    """The folder has the layout of Hugging Face; config.json explains how to load the model.

    \b
    Example:
      furlkit export exp/r020/global.safetensors -o encoder
    \b
    Python that returns h; for cnn5 and small stems, import furlkit.models.timm first:
      timm.create_model("local-dir:encoder", pretrained=True)
      transformers.AutoModel.from_pretrained("encoder")
    \b
    Finetuning for 4 classes; how_to_load in config.json has the lines that load net:
      timm.create_model("local-dir:encoder", pretrained=True, num_classes=4)
      transformers.AutoModelForImageClassification.from_pretrained(
          "encoder", num_labels=4)
      torch.nn.Sequential(net, torch.nn.Linear(512, 4)).train()
    \b
    Another federation that starts from the exported encoder:
      furlkit init --encoder resnet18 --from encoder --data digits -o global.safetensors
    """,
    Argument("model", File("checkpoint", "model"), "CHECKPOINT"),
    group(IN_OUT,
        output("folder", metavar="FOLDER",
               help="Folder for model.safetensors and config.json; files of other "
                    "programs are not replaced."),
    ),
    GENERAL.without("preset", "seed", "force"),
)
