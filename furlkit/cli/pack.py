"""pack: a dataset in one file."""

from furlkit.cli.shared import stage


@stage("pack")
def pack() -> None:
    """Several sources become the domains of one dataset, and classes of the same name
    are one class. A folder with --domain-folders, or an .npz with an array `domains`,
    has its domains already. Folders are decoded block by block, so they may be larger
    than the memory.

    Shards are read in the same way: WebDataset tar files (one image for each sample, a
    label in .cls or under `label` in .json), and Parquet or Arrow files of Hugging Face
    datasets (columns `image` and `label`; pip install 'furlkit[parquet]'). A quoted
    pattern is one source, and so is a folder of shards.

    \b
    Examples:
      furlkit pack imagenet/train --image-size 256 -o imagenet.safetensors
      furlkit pack mnist svhn usps --image-size 32 --channels 3 -o train.safetensors
      furlkit pack styles.npz --domain-names art,photo,sketch -o styles.safetensors
      furlkit pack 'shards-*.tar' --image-size 64 -o shards.safetensors
      furlkit pack 'data/train-*.parquet' -o train.safetensors
    \b
    Scans of more than 8 bits, with the scans of a patient in one split:
      furlkit pack scans --window -160,240 --groups folder --train-fraction 0.7 \\
          -o train.safetensors
    \b
    A folder of domains in two parts, drawn with the same seed:
      furlkit pack office-home --domain-folders --image-size 224 \\
          --train-fraction 0.7 --seed 2011 -o train.safetensors
      furlkit pack office-home --domain-folders --image-size 224 \\
          --train-fraction 0.7 --seed 2011 --split test -o test.safetensors
    """
