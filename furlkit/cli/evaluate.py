"""evaluate: score a representation; a command for every protocol."""

from furlkit.catalogue.entries import command, command_group
from furlkit.catalogue.protocols import PROTOCOLS

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

# The text of --help for each protocol, after the first line.
_TEXTS = {
    "linear": """The score is the accuracy of the classifier after the last epoch, not of the best
    epoch.

    A single probe is noisy, so five probes are trained in one pass over the features; the
    accuracy is the mean. Probe 0 equals the probe of --probes 1. The probes see the same
    batches, but each probe starts a tenth of the epochs after the previous probe, so the
    last epochs differ. The confusion matrix is the sum over the probes.

    --solver lbfgs has no probes. The solver standardises h, minimises cross-entropy with
    an L2 penalty until convergence, and chooses the penalty, from 1 to 1e-6, by the loss
    on every fifth image of each class; the JSON lists the penalties (l2_range). The
    result hardly depends on the machine, and not on the papers' settings.

    \b
    Examples:
      furlkit evaluate linear exp/r003/global.safetensors --data digits \\
          --preset fedca -o exp/r003/linear.json
      furlkit evaluate linear --untrained --data digits --width 0.25 \\
          --preset fedca -o exp/untrained.json
    \b
    A head for each style, and the mean; then a table of one style:
      furlkit evaluate linear exp/r003/global.safetensors --by-domain \\
          --data train.safetensors --test-data test.safetensors -o exp/r003/linear.json
      furlkit compare --series fedavg=exp --value domains.svhn.accuracy
    """,
    "knn": """Nothing is trained.

    \b
    Example:
      furlkit evaluate knn exp/r003/global.safetensors --data digits -o exp/r003/knn.json
    """,
    "personal": """The personal model of a client consists of the global model CHECKPOINT and the
    client's private file: with Ditto the private copy, with APFL the mixture, with FedPer
    the global encoder. A client without a private file has the global model, as in FedAvg.
    If the client's upload is given too, the upload replaces CHECKPOINT for this client:
    FedStyle scores "local models" in this way. Without a PARTITION there is a single
    client with every image of --data.

    The classifier is trained on the client's images only, like `evaluate linear`, and
    tested on every test image, or with --by-domain on test images of the client's domain.
    accuracy is the mean over clients, clients_std the standard deviation over clients,
    worst_tenth_accuracy the mean of the lowest tenth; clients lists every client. probes
    lists the mean over clients for every probe, and accuracy_std is the deviation over
    probes. If the partition records the clients' domains, domains has these numbers per
    domain.

    With --generator trained, every probe trains a separate generator, which takes about
    fifty times as long as a head (2,000 images, h of 256 numbers); --probes 1 trains one.

    \b
    Example:
      furlkit evaluate personal exp/partition.safetensors \\
          exp/r003/global.safetensors exp/r003/private_*.safetensors \\
          --data digits --preset fedca -o exp/r003/personal.json
    \b
    FedStyle's Table 1: local models, infused with style, on images of the client's style:
      furlkit evaluate personal exp/partition.safetensors \\
          exp/r003/global.safetensors exp/r003/private_*.safetensors \\
          exp/r003/client_*.safetensors --preset fedstyle --by-domain \\
          --data train.safetensors --test-data test.safetensors -o exp/r003/personal.json
    """,
    "classifier": """local-train --objective supervised trains the classifier, and aggregate averages the
    clients' classifiers. evaluate linear scores models without a classifier.

    \b
    Example:
      furlkit evaluate classifier exp/r003/global.safetensors --data digits \\
          -o exp/r003/classifier.json
    """,
    "cluster": """The head that local-train --objective cluster trains assigns images to clusters; of
    several heads, the head with the lowest training loss. With --kmeans, for any model,
    centroids are fitted to h of the training images, scaled to length 1, without labels,
    and test images are assigned to the nearest centroid.

    The accuracy is the best over assignments of classes to clusters, at most one cluster
    per class. The confusion matrix lists clusters in the order of the matched classes,
    then clusters without a class. Images of a class without a cluster are errors.

    \b
    Examples:
      furlkit evaluate cluster exp/r050/global.safetensors --data cifar10 \\
          -o exp/r050/cluster.json
      furlkit evaluate cluster exp/r050/global.safetensors --data cifar10 \\
          --kmeans 10 --repeats 5 -o exp/r050/cluster.json
    """,
    "semi": """A share --fraction of every client's images has labels. Federated: the clients train
    on the labelled images in rounds of supervised FedAvg, weighted by the number of
    labels. Central: a single model trains on this share of --data, or, with --partition,
    on the labelled images of the clients together.

    FedCA's paper has 1% and 10%, an MLP with one hidden layer, Adam, a rate of 1e-3
    and 100 epochs. Our choices: federated, in 20 rounds of 5 epochs; 512 hidden units;
    batches of 128; crop and flip; the weight decay. The paper's row
    "FedAvg (Supervised)" is --random-init.

    \b
    Example:
      furlkit evaluate semi exp/r020/global.safetensors --data digits \\
          --partition exp/partition.safetensors --fraction 0.1 -o exp/r020/semi.json
    """,
    "finetune": """In every round the clients train from a common model on their labelled images; the
    models are averaged by the number of labels. Without --fraction, finetune is `evaluate
    semi` with the labels of every image.

    The optimiser, the rate and 100 epochs in total are from FedCA's paper. Our choices:
    20 rounds of 5 epochs; 512 hidden units; batches of 128; crop and flip; the weight
    decay.

    \b
    Example:
      furlkit evaluate finetune exp/r020/global.safetensors --data digits \\
          --partition exp/partition.safetensors -o exp/r020/finetune.json
    """,
    "transfer": """The whole network is trained centrally, on images with the normalisation of the
    model's training images.

    FedCA's paper has an MLP, Adam, a rate of 1e-3, 100 epochs, and CIFAR resized to 84
    for models of MiniImageNet. Our choices: 512 hidden units; batches of 128; crop and
    flip; the weight decay. The paper's row "random init" is --random-init.

    \b
    Example:
      furlkit evaluate transfer exp/r020/global.safetensors --data cifar10 \\
          --image-size 84 -o exp/r020/transfer.json
    """,
    "angles": """The result has a box (quartiles, whiskers) for every pair of models, and a box for
    the union of the pairs.

    \b
    Example:
      furlkit evaluate angles exp/r003/client_*.safetensors --data digits \\
          -o exp/r003/angles.json
    """,
    "drift": """Alignment, uniformity and LiDAR of two augmented views; effective rank, RankMe and
    spread of the plain images; linear CKA and uniformity between every two models. For
    images with labels, also the share of false negatives, by number and by weight in a
    contrastive loss.

    \b
    Example:
      furlkit evaluate drift exp/r003/client_*.safetensors --data digits \\
          -o exp/r003/drift.json
    """,
    "neighbours": """local-train --objective cluster pulls an image and the neighbours into one cluster.
    If neighbours belong to other classes, clusters cannot match classes: check this score
    first if clustering fails. The command neighbours writes NEIGHBOURS. own_class is the
    mean over the images; parts has the mean for each file, and by rank, nearest first.

    \b
    Example:
      for k in 0 1 2; do
          furlkit neighbours exp/r100/global.safetensors --data digits \\
              --partition exp/partition.safetensors --part $k -o exp/near_$k.safetensors
      done
      furlkit evaluate neighbours exp/near_*.safetensors --data digits -o exp/near.json
    """,
    "negatives": """A negative is false if image and negative have the same class: the loss pushes them
    apart. The ratio of false negatives is the mean over the images, with rows of the same
    client, of the other clients, or of both. The output also has the ratio by FCL's
    equations 4 and 5, if the classes of a client have equal numbers of images. A
    row of mixed images (InstaHide) is counted like one image.

    \b
    Examples:
      furlkit evaluate negatives exp/partition.safetensors -o exp/negatives.json
    \b
    A figure by number of clients and classes, with a file for each bar:
      furlkit plot bars --value false_negative_ratio \\
          --series '5 clients of 2:local=local.json' \\
          --series '5 clients of 2:fused=fused.json' -o negatives.png
    """,
}
# Protocols that share a stage with others.
_STAGES = {
    "linear": "furlkit.stages.evaluate.frozen:linear",
    "knn": "furlkit.stages.evaluate.frozen:knn",
    "semi": "furlkit.stages.evaluate.finetune:semi",
    "finetune": "furlkit.stages.evaluate.finetune:finetune",
    "transfer": "furlkit.stages.evaluate.finetune:transfer",
}
COMMAND = command_group("evaluate", "Score a representation; the result is a JSON file.",
    *(
        command(f"evaluate {name}", protocol.help, _TEXTS[name], *protocol.groups,
                run=_STAGES.get(name, ""))
        for name, protocol in PROTOCOLS.items()
    ),
)
