# One run of FLESD or of a baseline: ../round.mk with the settings of a row, and the scores
# of its clients' own models.
#
#   make -j2 -f examples/flesd/row.mk ROW=flesd ALPHA=100
#   make -j2 -f examples/flesd/row.mk ROW=cc ALPHA=100 all locals
#   make -j2 -f examples/flesd/row.mk ROW=supervised ALPHA=100 alone

# flesd, cc (one round), fedavg, fedprox, nonfl (all images in one place);
# float16, int8, top1, top1-int8, full: cc with another encoding of the uploads;
# simclr, supervised: clients that train once and are not aggregated
ROW ?= flesd
# Alpha of the Dirichlet partition: large is even, small is skewed.
ALPHA ?= 1
# cpu, or paper
SCALE ?= cpu
# digits, cifar10, cifar100; other images are files, given by DATA and TEST
DATASET ?= digits
# The encoder, at the paper's scale resnet18, or resnet50 for ImageNet-100.
ENCODER ?= $(if $(filter paper,$(SCALE)),resnet18,cnn5)

# ---------------------------------------------------------------- the row

embed.float16 := --encoding float16
embed.int8 := --encoding int8
embed.top1 := --similarity --top 1
embed.top1-int8 := --similarity --top 1 --encoding int8
embed.full := --similarity
EMBED = $(embed.$(ROW))
encoded := $(filter float16 int8 top1 top1-int8 full,$(ROW))
single := $(filter simclr supervised,$(ROW))
labelled := $(filter supervised,$(ROW))
ifeq ($(encoded)$(single)$(filter flesd cc fedavg fedprox nonfl,$(ROW)),)
$(error ROW=$(ROW): use flesd, cc, fedavg, fedprox, nonfl, float16, int8, top1, \
top1-int8, full, simclr or supervised)
endif

preset.flesd := flesd
preset.cc := flesd-cc
preset.fedprox := flesd-fedprox
preset.nonfl := flesd-nonfl
preset.supervised := flesd-supervised
PRESET = $(or $(preset.$(ROW)),$(if $(encoded),flesd-cc,flesd-fedavg))
once := $(strip $(filter cc nonfl,$(ROW)) $(encoded) $(single))
distils := $(strip $(filter flesd cc,$(ROW)) $(encoded))
ROUNDS = $(if $(filter flesd,$(ROW)),2,$(if $(once),1,10))
CLIENTS = $(if $(filter nonfl,$(ROW)),1,6)
WITHOUT = $(if $(distils),0)
DISTILL = $(if $(distils),$(or $(STUDENT),yes))
# A draw with fewer images in a client, or in the public part, is repeated.
MIN_SIZE ?= $(if $(filter digits,$(DATASET)),20,500)
dirichlet := --scheme dirichlet --concentration $(ALPHA) --min-size $(MIN_SIZE)
PARTITION = $(if $(filter nonfl,$(ROW)),,$(dirichlet))

ifneq ($(filter digits cifar10 cifar100,$(DATASET)),)
DATA = $(DATASET)
endif

# ---------------------------------------------------------------- the scale

# Local epochs of all rounds together: in the paper 200, or 100 with labels.
EPOCHS ?= $(if $(labelled),$(if $(filter paper,$(SCALE)),100,10),$(if $(filter paper,$(SCALE)),200,20))
each := $(shell echo $$(($(EPOCHS) / $(ROUNDS))))
# The untrained model is the same for all encodings, so it is not evaluated again.
EVALUATE ?= $(if $(encoded),linear:last,linear)

ifeq ($(SCALE),paper)
INIT = --encoder $(ENCODER)
TRAIN ?= --epochs $(each)
else ifneq ($(SCALE),cpu)
$(error SCALE=$(SCALE): use cpu or paper)
else ifeq ($(DATASET),digits)
GROUP ?= 3
views := --batch-size 64 --crop-scale 0.4,1 --flip 0 --jitter 0.4,0.4,0,0 --grey 0 --lr 3e-4
INIT = --encoder $(ENCODER) --width 0.25 --projector 512,128
contrast := --temperature 0.2 $(views)
TRAIN ?= --epochs $(each) $(if $(labelled),--batch-size 16 --flip 0,$(contrast))
STUDENT ?= --epochs 20 --anchors 256 $(views)
LINEAR ?= --preset fedca
else
GROUP ?= 3
views := --batch-size 128 --jitter 0.4,0.4,0.4,0.1
INIT = --encoder $(ENCODER) --width 0.125 --projector 128,64
contrast := --temperature 0.5 $(views)
TRAIN ?= --epochs $(each) $(if $(labelled),--batch-size 32,$(contrast))
# The time constant of the momentum model is a fifth of the student's 500 steps; with the
# paper's 0.999 and 13,000 steps it is a thirteenth.
STUDENT ?= --epochs 20 --ema 0.99 $(views)
LINEAR ?= --preset fedca
endif

include $(dir $(lastword $(MAKEFILE_LIST)))../round.mk

# ---------------------------------------------------------------- the clients' own models

# Min-Local is the worst of the clients' own models after one round.
last := $(lastword $(folders))
trained := $(call clients_of,$(ROUNDS))
.PHONY: locals classifiers alone ledger
locals: $(trained:%=$(last)/linear_%.json)
$(trained:%=$(last)/linear_%.json): $(last)/linear_%.json: $(last)/client_%.safetensors
	$(call evaluate,linear,--seed $(SEED) $(LINEAR))

# The accuracy of a supervised client's own classifier on all classes.
classifiers: $(trained:%=$(last)/classifier_%.json)
$(trained:%=$(last)/classifier_%.json): $(last)/classifier_%.json: $(last)/client_%.safetensors
	$(run) evaluate classifier $< $(source) $(test) --threads $(THREADS) $(QUIET) -o $@

# All scores of clients that are not aggregated.
alone: locals $(if $(labelled),classifiers)

# The bytes that every client sent and received.
ledger: $(lastword $(globals))
	@echo $(OUT) && $(FURLKIT) ledger $(OUT)
