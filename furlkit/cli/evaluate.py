"""evaluate: how good a representation is, one command for each protocol."""

from furlkit.catalogue.entries import command, command_group
from furlkit.catalogue.protocols import PROTOCOLS

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

# What --help says of each protocol, besides its one line.
_TEXTS = {
    "linear": """The classifier of the last epoch is scored, never the best one.

    Five probes are trained in one pass over the features, since one is noisy: their mean
    is the accuracy. Probe 0 is what --probes 1 trains. They see the same batches, but
    each starts a tenth of the epochs after the one before, so that their last epochs
    differ. The confusion matrix is the sum over the probes.

    --solver lbfgs has no probes. It standardises h, minimises cross-entropy with an L2
    penalty until it has converged, and chooses the penalty, from 1 to 1e-6, by the loss
    on every fifth image of each class; the JSON has all of them (l2_range). The result
    hardly depends on the machine, and the papers' settings do not enter into it.

    \b
    Examples:
      furlkit evaluate linear exp/r003/global.safetensors --data digits \\
          --preset fedca -o exp/r003/linear.json
      furlkit evaluate linear --untrained --data digits --width 0.25 \\
          --preset fedca -o exp/untrained.json
    \b
    A head for each style, and their mean; then one style in a table:
      furlkit evaluate linear exp/r003/global.safetensors --by-domain \\
          --data train.safetensors --test-data test.safetensors -o exp/r003/linear.json
      furlkit compare --series fedavg=exp --value domains.svhn.accuracy
    """,
    "knn": """Nothing is trained.

    \b
    Example:
      furlkit evaluate knn exp/r003/global.safetensors --data digits -o exp/r003/knn.json
    """,
    "personal": """A client's own model is what it makes of the global model CHECKPOINT and its private
    file: with Ditto its own copy, with APFL the mixture, with FedPer the global encoder.
    A client whose file is not given has the global model, as all have with FedAvg. Where
    a client's upload is given too, which is its model as local-train left it, it takes the
    place of CHECKPOINT for this client: so FedStyle scores "local models". Without a
    PARTITION there is one client, and all images of --data are its own.

    The classifier is trained on the client's images only, as `evaluate linear` trains it,
    and tested on all test images, or with --by-domain on those of the client's own domain.
    accuracy is the mean over clients, clients_std their standard deviation,
    worst_tenth_accuracy the mean of the lowest tenth; clients has each of them. probes and
    accuracy_std are of the means over clients, one for each probe. Where the partition
    says which domain a client is of, domains has the same numbers for the clients of each.

    With --generator trained each probe trains a generator of its own, which takes some
    fifty times as long as a head (2,000 images, h of 256 numbers); --probes 1 has one.

    \b
    Example:
      furlkit evaluate personal exp/partition.safetensors \\
          exp/r003/global.safetensors exp/r003/private_*.safetensors \\
          --data digits --preset fedca -o exp/r003/personal.json
    \b
    FedStyle's Table 1: local models, infused with style, on their own style's images:
      furlkit evaluate personal exp/partition.safetensors \\
          exp/r003/global.safetensors exp/r003/private_*.safetensors \\
          exp/r003/client_*.safetensors --preset fedstyle --by-domain \\
          --data train.safetensors --test-data test.safetensors -o exp/r003/personal.json
    """,
    "classifier": """It is what local-train --objective supervised trains, and what aggregate makes of
    the clients' classifiers. Models without one are scored by evaluate linear.

    \b
    Example:
      furlkit evaluate classifier exp/r003/global.safetensors --data digits \\
          -o exp/r003/classifier.json
    """,
    "cluster": """The clusters are those of the head that local-train --objective cluster trains; of
    several heads, the one that training found best. With --kmeans they are those of h,
    scaled to length 1, for any model: centroids are fitted to the training images, without
    labels, and the test images go to the nearest.

    For the accuracy each class is matched with one cluster at most, the best way for all
    test images. The confusion matrix has clusters in the order of the classes they match;
    those that match none come last. Images of classes that no cluster matches count as
    wrong.

    \b
    Examples:
      furlkit evaluate cluster exp/r050/global.safetensors --data cifar10 \\
          -o exp/r050/cluster.json
      furlkit evaluate cluster exp/r050/global.safetensors --data cifar10 \\
          --kmeans 10 --repeats 5 -o exp/r050/cluster.json
    """,
    "semi": """Every client has --fraction of its own images labelled. Federated, the clients
    train on them in rounds of supervised FedAvg, averaged by their number of labels;
    central, one place trains on all of them: on that part of --data, or, with
    --partition, on the clients' parts together.

    FedCA's paper has 1% and 10%, an MLP with one hidden layer, Adam, a rate of 1e-3
    and 100 epochs. Ours are: federated, in 20 rounds of 5 epochs; the hidden layer's
    512; batches of 128; crop and flip as augmentation; the weight decay. Its row
    "FedAvg (Supervised)" is --random-init.

    \b
    Example:
      furlkit evaluate semi exp/r020/global.safetensors --data digits \\
          --partition exp/partition.safetensors --fraction 0.1 -o exp/r020/semi.json
    """,
    "finetune": """Each round every client trains from the same model on its labelled images; models
    are averaged by the number of those. It is `evaluate semi` with all labels, unless
    --fraction says otherwise.

    The optimiser, its rate and 100 epochs in all are those of FedCA's paper. Ours are:
    20 rounds of 5 epochs; the hidden layer's 512; batches of 128; crop and flip as
    augmentation; the weight decay.

    \b
    Example:
      furlkit evaluate finetune exp/r020/global.safetensors --data digits \\
          --partition exp/partition.safetensors -o exp/r020/finetune.json
    """,
    "transfer": """The whole network is trained in one place. Images are normalised as the model's
    own were.

    FedCA's paper has an MLP, Adam, a rate of 1e-3, 100 epochs, and CIFAR resized to 84
    for models of MiniImageNet. Ours are: the hidden layer's 512; batches of 128; crop
    and flip as augmentation; the weight decay. Its row "random init" is --random-init.

    \b
    Example:
      furlkit evaluate transfer exp/r020/global.safetensors --data cifar10 \\
          --image-size 84 -o exp/r020/transfer.json
    """,
    "angles": """The box (quartiles, whiskers) of every pair of models, and of all pairs together.

    \b
    Example:
      furlkit evaluate angles exp/r003/client_*.safetensors --data digits \\
          -o exp/r003/angles.json
    """,
    "drift": """Alignment and uniformity of two augmented views; effective rank and spread of the
    plain images; linear CKA between every two models. Where labels are known, also
    the share of false negatives, and of the weight that a contrastive loss gives them.

    \b
    Example:
      furlkit evaluate drift exp/r003/client_*.safetensors --data digits \\
          -o exp/r003/drift.json
    """,
    "neighbours": """local-train --objective cluster draws an image and its neighbours into one cluster,
    so its clusters are classes as far as neighbours are of one class: look here first when
    it fails. NEIGHBOURS are files of the command neighbours. own_class is the mean over
    all images; parts has it for each file, and by rank, nearest first.

    \b
    Example:
      for k in 0 1 2; do
          furlkit neighbours exp/r100/global.safetensors --data digits \\
              --partition exp/partition.safetensors --part $k -o exp/near_$k.safetensors
      done
      furlkit evaluate neighbours exp/near_*.safetensors --data digits -o exp/near.json
    """,
    "negatives": """A negative of an image's own class is a false one: the loss pushes it away. Their
    ratio is the mean over all images, each with rows of its own client, of the other
    clients, or both. Beside it is what FCL's equations 4 and 5 give, where all classes
    of a client have the same number of images. Encrypted rows count as one image.

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
