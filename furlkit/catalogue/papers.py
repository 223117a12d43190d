"""Papers of the methods."""

from furlkit.catalogue.entries import Paper

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

SIMCLR = Paper("SimCLR", "https://arxiv.org/abs/2002.05709", 2020,
    "A Simple Framework for Contrastive Learning of Visual Representations",
    "Chen, Ting and Kornblith, Simon and Norouzi, Mohammad and Hinton, Geoffrey")
SIMSIAM = Paper("SimSiam", "https://arxiv.org/abs/2011.10566", 2020,
    "Exploring Simple Siamese Representation Learning",
    "Chen, Xinlei and He, Kaiming")
BYOL = Paper("BYOL", "https://arxiv.org/abs/2006.07733", 2020,
    "Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning",
    "Grill, Jean-Bastien and Strub, Florian and Altché, Florent and Tallec, Corentin and Richemond, Pierre H. and Buchatskaya, Elena and Doersch, Carl and Pires, Bernardo Avila and Guo, Zhaohan Daniel and Azar, Mohammad Gheshlaghi and Piot, Bilal and Kavukcuoglu, Koray and Munos, Rémi and Valko, Michal")
BARLOW = Paper("Barlow Twins", "https://arxiv.org/abs/2103.03230", 2021,
    "Barlow Twins: Self-Supervised Learning via Redundancy Reduction",
    "Zbontar, Jure and Jing, Li and Misra, Ishan and LeCun, Yann and Deny, Stéphane")
VICREG = Paper("VICReg", "https://arxiv.org/abs/2105.04906", 2021,
    "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning",
    "Bardes, Adrien and Ponce, Jean and LeCun, Yann")
DINO = Paper("DINO", "https://arxiv.org/abs/2104.14294", 2021,
    "Emerging Properties in Self-Supervised Vision Transformers",
    "Caron, Mathilde and Touvron, Hugo and Misra, Ishan and Jégou, Hervé and Mairal, Julien and Bojanowski, Piotr and Joulin, Armand")
NNCLR = Paper("NNCLR", "https://arxiv.org/abs/2104.14548", 2021,
    "With a Little Help from My Friends: Nearest-Neighbor Contrastive Learning of Visual Representations",
    "Dwibedi, Debidatta and Aytar, Yusuf and Tompson, Jonathan and Sermanet, Pierre and Zisserman, Andrew")
SWAV = Paper("SwAV", "https://arxiv.org/abs/2006.09882", 2020,
    "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments",
    "Caron, Mathilde and Misra, Ishan and Mairal, Julien and Goyal, Priya and Bojanowski, Piotr and Joulin, Armand")
DEEPCLUSTER = Paper("DeepCluster", "https://arxiv.org/abs/1807.05520", 2018,
    "Deep Clustering for Unsupervised Learning of Visual Features",
    "Caron, Mathilde and Bojanowski, Piotr and Joulin, Armand and Douze, Matthijs")
SCAN = Paper("SCAN", "https://arxiv.org/abs/2005.12320", 2020,
    "SCAN: Learning to Classify Images without Labels",
    "Van Gansbeke, Wouter and Vandenhende, Simon and Georgoulis, Stamatios and Proesmans, Marc and Van Gool, Luc")
MOCO = Paper("MoCo", "https://arxiv.org/abs/1911.05722", 2019,
    "Momentum Contrast for Unsupervised Visual Representation Learning",
    "He, Kaiming and Fan, Haoqi and Wu, Yuxin and Xie, Saining and Girshick, Ross")
FEDEMA = Paper("FedEMA", "https://arxiv.org/abs/2204.04385", 2022,
    "Divergence-aware Federated Self-Supervised Learning",
    "Zhuang, Weiming and Wen, Yonggang and Zhang, Shuai")
FEDU = Paper("FedU", "https://arxiv.org/abs/2108.06492", 2021,
    "Collaborative Unsupervised Visual Representation Learning from Decentralized Data",
    "Zhuang, Weiming and Gan, Xin and Wen, Yonggang and Zhang, Shuai and Yi, Shuai")
ASTW = Paper("ASTW", "https://arxiv.org/abs/1903.07424", 2019,
    "Communication-Efficient Federated Deep Learning with Asynchronous Model Update and Temporally Weighted Aggregation",
    "Chen, Yang and Sun, Xiaoyan and Jin, Yaochu")
FEDCA = Paper("FedCA", "https://arxiv.org/abs/2010.08982", 2020,
    "Federated Unsupervised Representation Learning",
    "Zhang, Fengda and Kuang, Kun and You, Zhaoyang and Shen, Tao and Xiao, Jun and Zhang, Yin and Wu, Chao and Zhuang, Yueting and Li, Xiaolin")
FLESD = Paper("FLESD", "https://arxiv.org/abs/2109.14611", 2021,
    "Towards Communication-Efficient and Privacy-Preserving Federated Representation Learning",
    "Shi, Haizhou and Zhang, Youcai and Shen, Zijin and Tang, Siliang and Li, Yaqian and Guo, Yandong and Zhuang, Yueting")
# Version 2 of the preprint has another title.
FEDSTYLE = Paper("FedStyle", "https://arxiv.org/abs/2211.06470v1", 2022,
    "More Generalized and Personalized Unsupervised Representation Learning In A Distributed System",
    "Yang, Yuewei and Sun, Jingwei and Li, Ang and Li, Hai and Chen, Yiran")
FEDPROX = Paper("FedProx", "https://arxiv.org/abs/1812.06127", 2018,
    "Federated Optimization in Heterogeneous Networks",
    "Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and Smith, Virginia")
SCAFFOLD = Paper("SCAFFOLD", "https://arxiv.org/abs/1910.06378", 2019,
    "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
    "Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank J. and Stich, Sebastian U. and Suresh, Ananda Theertha")
FEDBN = Paper("FedBN", "https://arxiv.org/abs/2102.07623", 2021,
    "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
    "Li, Xiaoxiao and Jiang, Meirui and Zhang, Xiaofei and Kamp, Michael and Dou, Qi")
FEDDECORR = Paper("FedDecorr", "https://arxiv.org/abs/2210.00226", 2022,
    "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated Learning",
    "Shi, Yujun and Liang, Jian and Zhang, Wenqing and Tan, Vincent Y. F. and Bai, Song")
FEDX = Paper("FedX", "https://arxiv.org/abs/2207.09158", 2022,
    "FedX: Unsupervised Federated Learning with Cross Knowledge Distillation",
    "Han, Sungwon and Park, Sungwon and Wu, Fangzhao and Kim, Sundong and Wu, Chuhan and Xie, Xing and Cha, Meeyoung")
MAE = Paper("MAE", "https://arxiv.org/abs/2111.06377", 2021,
    "Masked Autoencoders Are Scalable Vision Learners",
    "He, Kaiming and Chen, Xinlei and Xie, Saining and Li, Yanghao and Dollár, Piotr and Girshick, Ross")
MOON = Paper("MOON", "https://arxiv.org/abs/2103.16257", 2021,
    "Model-Contrastive Federated Learning",
    "Li, Qinbin and He, Bingsheng and Song, Dawn")
HETEROSSFL = Paper("Hetero-SSFL", "https://arxiv.org/abs/2205.12493", 2022,
    "Federated Self-supervised Learning for Heterogeneous Clients",
    "Makhija, Disha and Ho, Nhat and Ghosh, Joydeep")
FEDU2 = Paper("FedU2", "https://arxiv.org/abs/2403.16398", 2024,
    "Rethinking the Representation in Federated Unsupervised Learning with Non-IID Data",
    "Liao, Xinting and Liu, Weiming and Chen, Chaochao and Zhou, Pengyang and Yu, Fengyuan and Zhu, Huabin and Yao, Binhui and Wang, Tao and Zheng, Xiaolin and Tan, Yanchao")
FEDMKD = Paper("FedMKD", "https://openreview.net/forum?id=Of4iNAIUSe", 2024,
    "Resource-Aware Federated Self-Supervised Learning with Global Class Representations",
    "Li, Mingyi and Zhang, Xiao and Wang, Qi and Liu, Tengfei and Wu, Ruofan and Wang, Weiqiang and Zhuang, Fuzhen and Xiong, Hui and Yu, Dongxiao")
LWFEDSSL = Paper("LW-FedSSL", "https://arxiv.org/abs/2401.11647", 2024,
    "LW-FedSSL: Resource-efficient Layer-wise Federated Self-Supervised Learning",
    "Tun, Ye Lin and Thwal, Chu Myaet and Le, Huy Q. and Nguyen, Minh N. H. and Hong, Choong Seon")
FEDPROTO = Paper("FedProto", "https://arxiv.org/abs/2105.00243", 2021,
    "FedProto: Federated Prototype Learning across Heterogeneous Clients",
    "Tan, Yue and Long, Guodong and Liu, Lu and Zhou, Tianyi and Lu, Qinghua and Jiang, Jing and Zhang, Chengqi")
FEDAVG = Paper("FedAvg", "https://arxiv.org/abs/1602.05629", 2016,
    "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    "McMahan, H. Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Agüera y Arcas, Blaise")
# Version 2, published at IJCAI 2022, has another title and calls the method CCL.
FCL = Paper("FCL", "https://arxiv.org/abs/2111.10763v1", 2021,
    "Distributed Unsupervised Visual Representation Learning with Fused Features",
    "Wu, Yawen and Wang, Zhepeng and Zeng, Dewen and Li, Meng and Shi, Yiyu and Hu, Jingtong")
SATTLER = Paper("Sattler et al.", "https://arxiv.org/abs/1903.02891", 2019,
    "Robust and Communication-Efficient Federated Learning from Non-IID Data",
    "Sattler, Felix and Wiedemann, Simon and Müller, Klaus-Robert and Samek, Wojciech")
DITTO = Paper("Ditto", "https://arxiv.org/abs/2012.04221", 2020,
    "Ditto: Fair and Robust Federated Learning Through Personalization",
    "Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia")
APFL = Paper("APFL", "https://arxiv.org/abs/2003.13461", 2020,
    "Adaptive Personalized Federated Learning",
    "Deng, Yuyang and Kamani, Mohammad Mahdi and Mahdavi, Mehrdad")
ROTNET = Paper("RotNet", "https://arxiv.org/abs/1803.07728", 2018,
    "Unsupervised Representation Learning by Predicting Image Rotations",
    "Gidaris, Spyros and Singh, Praveer and Komodakis, Nikos")
DSFL = Paper("DS-FL", "https://arxiv.org/abs/2008.06180", 2020,
    "Distillation-Based Semi-Supervised Federated Learning for Communication-Efficient Collaborative Training with Non-IID Private Data",
    "Itahara, Sohei and Nishio, Takayuki and Koda, Yusuke and Morikura, Masahiro and Yamamoto, Koji")
FEDMATCH = Paper("FedMatch", "https://arxiv.org/abs/2006.12097", 2020,
    "Federated Semi-Supervised Learning with Inter-Client Consistency & Disjoint Learning",
    "Jeong, Wonyong and Yoon, Jaehong and Yang, Eunho and Hwang, Sung Ju")
YIN = Paper("Yin et al.", "https://arxiv.org/abs/1803.01498", 2018,
    "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
    "Yin, Dong and Chen, Yudong and Ramchandran, Kannan and Bartlett, Peter")
RFA = Paper("RFA", "https://arxiv.org/abs/1912.13445", 2019,
    "Robust Aggregation for Federated Learning",
    "Pillutla, Krishna and Kakade, Sham M. and Harchaoui, Zaid")
KRUM = Paper("Krum", "https://arxiv.org/abs/1703.02757", 2017,
    "Byzantine-Tolerant Machine Learning",
    "Blanchard, Peva and El Mhamdi, El Mahdi and Guerraoui, Rachid and Stainer, Julien")
SUN = Paper("Sun et al.", "https://arxiv.org/abs/1911.07963", 2019,
    "Can You Really Backdoor Federated Learning?",
    "Sun, Ziteng and Kairouz, Peter and Suresh, Ananda Theertha and McMahan, H. Brendan")
LDAWA = Paper("L-DAWA", "https://arxiv.org/abs/2307.07393", 2023,
    "L-DAWA: Layer-wise Divergence Aware Weight Aggregation in Federated Self-Supervised Visual Representation Learning",
    "Rehman, Yasar Abbas Ur and Gao, Yan and de Gusmão, Pedro Porto Buarque and Alibeigi, Mina and Shen, Jiajun and Lane, Nicholas D.")
WU = Paper("Wu et al.", "https://arxiv.org/abs/1805.01978", 2018,
    "Unsupervised Feature Learning via Non-Parametric Instance-level Discrimination",
    "Wu, Zhirong and Xiong, Yuanjun and Yu, Stella X. and Lin, Dahua")
WANG = Paper("Wang and Isola", "https://arxiv.org/abs/2005.10242", 2020,
    "Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere",
    "Wang, Tongzhou and Isola, Phillip")
HSU = Paper("Hsu et al.", "https://arxiv.org/abs/1909.06335", 2019,
    "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
    "Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew")
FEDOPT = Paper("FedOpt", "https://arxiv.org/abs/2003.00295", 2020,
    "Adaptive Federated Optimization",
    "Reddi, Sashank J. and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush, Keith and Konečný, Jakub and Kumar, Sanjiv and McMahan, H. Brendan")
ORCHESTRA = Paper("Orchestra", "https://arxiv.org/abs/2205.11506", 2022,
    "Orchestra: Unsupervised Federated Learning via Globally Consistent Clustering",
    "Lubana, Ekdeep Singh and Tang, Chi Ian and Kawsar, Fahim and Dick, Robert P. and Mathur, Akhil")
FEDSC = Paper("FedSC", "https://arxiv.org/abs/2405.03949", 2024,
    "FedSC: Provable Federated Self-supervised Learning with Spectral Contrastive Objective over Non-i.i.d. Data",
    "Jing, Shusen and Yu, Anlan and Zhang, Shuai and Zhang, Songyang")
SPECTRAL = Paper("HaoChen et al.", "https://arxiv.org/abs/2106.04156", 2021,
    "Provable Guarantees for Self-Supervised Deep Learning with Spectral Contrastive Loss",
    "HaoChen, Jeff Z. and Wei, Colin and Gaidon, Adrien and Ma, Tengyu")
BARUCH = Paper("Baruch et al.", "https://arxiv.org/abs/1902.06156", 2019,
    "A Little Is Enough: Circumventing Defenses For Distributed Learning",
    "Baruch, Moran and Baruch, Gilad and Goldberg, Yoav")
XIE = Paper("Xie et al.", "https://arxiv.org/abs/1903.03936", 2019,
    "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product Manipulation",
    "Xie, Cong and Koyejo, Sanmi and Gupta, Indranil")
SHEJWALKAR = Paper("Shejwalkar and Houmansadr",
    "https://www.ndss-symposium.org/ndss-paper/manipulating-the-byzantine-"
    "optimizing-model-poisoning-attacks-and-defenses-for-federated-learning/", 2021,
    "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for Federated Learning",
    "Shejwalkar, Virat and Houmansadr, Amir")
BADENCODER = Paper("BadEncoder", "https://arxiv.org/abs/2108.00352", 2021,
    "BadEncoder: Backdoor Attacks to Pre-trained Encoders in Self-Supervised Learning",
    "Jia, Jinyuan and Liu, Yupei and Gong, Neil Zhenqiang")
ENCODERMI = Paper("EncoderMI", "https://arxiv.org/abs/2108.11023", 2021,
    "EncoderMI: Membership Inference against Pre-trained Encoders in Contrastive Learning",
    "Liu, Hongbin and Jia, Jinyuan and Qu, Wenjie and Gong, Neil Zhenqiang")
MELIS = Paper("Melis et al.", "https://arxiv.org/abs/1805.04049", 2019,
    "Exploiting Unintended Feature Leakage in Collaborative Learning",
    "Melis, Luca and Song, Congzheng and De Cristofaro, Emiliano and Shmatikov, Vitaly")
DOSOVITSKIY = Paper("Dosovitskiy and Brox", "https://arxiv.org/abs/1506.02753", 2016,
    "Inverting Visual Representations with Convolutional Networks",
    "Dosovitskiy, Alexey and Brox, Thomas")
BONAWITZ = Paper("Bonawitz et al.", "https://doi.org/10.1145/3133956.3133982", 2017,
    "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
    "Bonawitz, Keith and Ivanov, Vladimir and Kreuter, Ben and Marcedone, Antonio and McMahan, H. Brendan and Patel, Sarvar and Ramage, Daniel and Segal, Aaron and Seth, Karn")
