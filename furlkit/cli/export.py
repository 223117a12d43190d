"""export: the bare encoder, for torchvision, timm, transformers, ONNX and torch."""

from furlkit.catalogue.entries import Argument, File, Flag, Option, Text, command, group
from furlkit.catalogue.groups import GENERAL, IN_OUT, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("export", "Write the bare encoder under torchvision's or timm's names.",
    """The folder has the layout of Hugging Face: model.safetensors, config.json, which
    explains how to load the model, and README.md, the model card. The card is complete
    after you fill in the licence and describe the images.

    \b
    Examples:
      furlkit export exp/r020/global.safetensors -o encoder
      furlkit export exp/r020/global.safetensors --metrics exp/r020/knn.json \\
          --license apache-2.0 --onnx --torch-export -o encoder
    \b
    Python that returns h; for cnn5 and small stems, import furlkit.models.timm first:
      timm.create_model("local-dir:encoder", pretrained=True)
      transformers.AutoModel.from_pretrained("encoder")
      transformers.AutoImageProcessor.from_pretrained("encoder")
      onnxruntime.InferenceSession("encoder/model.onnx").run(["h"], {"images": x})
      torch.export.load("encoder/model.pt2").module()(images)
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
               help="Folder for model.safetensors, config.json and README.md; files of "
                    "other programs and edited cards are not replaced."),
    ),
    group("Graphs for other programs",
        Option("onnx", Flag(), False,
               "Also write model.onnx for any number of images, and compare h with torch "
               "on random images (pip install 'furlkit[onnx]').", recorded=False),
        Option("torch-export", Flag(), False,
               "Also write model.pt2 of torch.export for any number of images; the file "
               "contains no pickle.",
               recorded=False),
    ),
    group("Model card",
        Option("license", Text("NAME"), None,
               "License in the card: apache-2.0, mit, other, ...", recorded=False,
               usual="empty"),
        Option("metrics", File("metrics"), (),
               "Score of this model for the card, with an interval; repeat for more.",
               multiple=True, recorded=False),
        Option("upload", File("checkpoint"), (),
               "Upload that the model was aggregated from: the card shows the numbers of "
               "images and classes that the client told; repeat for more.",
               multiple=True, recorded=False),
    ),
    GENERAL.without("preset", "seed", "force"),
)
