"""Papers of the methods."""

from furlkit.catalogue.entries import Paper

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

SIMCLR = Paper("SimCLR", "https://arxiv.org/abs/2002.05709")
SIMSIAM = Paper("SimSiam", "https://arxiv.org/abs/2011.10566")
BYOL = Paper("BYOL", "https://arxiv.org/abs/2006.07733")
BARLOW = Paper("Barlow Twins", "https://arxiv.org/abs/2103.03230")
SWAV = Paper("SwAV", "https://arxiv.org/abs/2006.09882")
DEEPCLUSTER = Paper("DeepCluster", "https://arxiv.org/abs/1807.05520")
SCAN = Paper("SCAN", "https://arxiv.org/abs/2005.12320")
MOCO = Paper("MoCo", "https://arxiv.org/abs/1911.05722")
FEDEMA = Paper("FedEMA", "https://arxiv.org/abs/2204.04385")
FEDU = Paper("FedU", "https://arxiv.org/abs/2108.06492")
ASTW = Paper("ASTW", "https://arxiv.org/abs/1903.07424")
FEDCA = Paper("FedCA", "https://arxiv.org/abs/2010.08982")
FLESD = Paper("FLESD", "https://arxiv.org/abs/2109.14611")
FEDSTYLE = Paper("FedStyle", "https://arxiv.org/abs/2211.06470")
FEDPROX = Paper("FedProx", "https://arxiv.org/abs/1812.06127")
SCAFFOLD = Paper("SCAFFOLD", "https://arxiv.org/abs/1910.06378")
FEDBN = Paper("FedBN", "https://arxiv.org/abs/2102.07623")
FEDPROTO = Paper("FedProto", "https://arxiv.org/abs/2105.00243")
FEDAVG = Paper("FedAvg", "https://arxiv.org/abs/1602.05629")
FCL = Paper("FCL", "https://arxiv.org/abs/2111.10763")
SATTLER = Paper("Sattler et al.", "https://arxiv.org/abs/1903.02891")
DITTO = Paper("Ditto", "https://arxiv.org/abs/2012.04221")
APFL = Paper("APFL", "https://arxiv.org/abs/2003.13461")
ROTNET = Paper("RotNet", "https://arxiv.org/abs/1803.07728")
DSFL = Paper("DS-FL", "https://arxiv.org/abs/2008.06180")
FEDMATCH = Paper("FedMatch", "https://arxiv.org/abs/2006.12097")
YIN = Paper("Yin et al.", "https://arxiv.org/abs/1803.01498")
RFA = Paper("RFA", "https://arxiv.org/abs/1912.13445")
KRUM = Paper("Krum", "https://arxiv.org/abs/1703.02757")
SUN = Paper("Sun et al.", "https://arxiv.org/abs/1911.07963")
LDAWA = Paper("L-DAWA", "https://arxiv.org/abs/2307.07393")
WU = Paper("Wu et al.", "https://arxiv.org/abs/1805.01978")
WANG = Paper("Wang and Isola", "https://arxiv.org/abs/2005.10242")
HSU = Paper("Hsu et al.", "https://arxiv.org/abs/1909.06335")
FEDOPT = Paper("FedOpt", "https://arxiv.org/abs/2003.00295")
ORCHESTRA = Paper("Orchestra", "https://arxiv.org/abs/2205.11506")
BARUCH = Paper("Baruch et al.", "https://arxiv.org/abs/1902.06156")
XIE = Paper("Xie et al.", "https://arxiv.org/abs/1903.03936")
SHEJWALKAR = Paper("Shejwalkar and Houmansadr",
                   "https://www.ndss-symposium.org/ndss-paper/manipulating-the-byzantine-"
                   "optimizing-model-poisoning-attacks-and-defenses-for-federated-learning/")
BADENCODER = Paper("BadEncoder", "https://arxiv.org/abs/2108.00352")
