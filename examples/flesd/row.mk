# One run of FLESD or of what it is compared with: ../round.mk with the settings of a row,
# and the scores of its clients' own models.
#
#   make -j2 -f examples/flesd/row.mk ROW=flesd ALPHA=100
#   make -j2 -f examples/flesd/row.mk ROW=cc ALPHA=100 all locals

# flesd, cc (one round), fedavg, fedprox, nonfl (all images in one place)
ROW ?= flesd
# Of the Dirichlet distribution the classes are dealt by: large is even, small is skewed.
ALPHA ?= 1
# cpu, or paper
SCALE ?= cpu
# digits, cifar10, cifar100; other images are files, named by DATA and TEST
DATASET ?= digits
# The encoder, at the paper's scale resnet18, or resnet50 for ImageNet-100.
ENCODER ?= $(if $(filter paper,$(SCALE)),resnet18,cnn5)

# ---------------------------------------------------------------- the row

preset.flesd := flesd
preset.cc := flesd-cc
preset.fedprox := flesd-fedprox
PRESET = $(or $(preset.$(ROW)),flesd-fedavg)
distils := $(filter flesd cc,$(ROW))
ROUNDS = $(if $(filter flesd,$(ROW)),2,$(if $(filter cc nonfl,$(ROW)),1,10))
CLIENTS = $(if $(filter nonfl,$(ROW)),1,6)
WITHOUT = $(if $(distils),0)
DISTILL = $(if $(distils),$(or $(STUDENT),yes))
dealt := --scheme dirichlet --concentration $(ALPHA) --min-size 2
PARTITION = $(if $(filter nonfl,$(ROW)),--scheme iid,$(dealt))

ifneq ($(filter digits cifar10 cifar100,$(DATASET)),)
DATA = $(DATASET)
endif

# ---------------------------------------------------------------- the scale

# Local epochs in all rounds together: 200 in the paper.
EPOCHS ?= $(if $(filter paper,$(SCALE)),200,20)
each := $(shell echo $$(($(EPOCHS) / $(ROUNDS))))
EVALUATE ?= linear

ifeq ($(SCALE),paper)
INIT = --encoder $(ENCODER)
TRAIN ?= --epochs $(each)
else ifneq ($(SCALE),cpu)
$(error SCALE=$(SCALE): use cpu or paper)
else ifeq ($(DATASET),digits)
GROUP ?= 3
views := --batch-size 64 --crop-scale 0.4,1 --flip 0 --jitter 0.4,0.4,0,0 --grey 0 --lr 3e-4
INIT = --encoder $(ENCODER) --width 0.25 --projector 512,128
TRAIN ?= --epochs $(each) --temperature 0.2 $(views)
STUDENT ?= --epochs 20 --anchors 256 $(views)
LINEAR ?= --preset fedca
else
GROUP ?= 3
views := --batch-size 128 --jitter 0.4,0.4,0.4,0.1
INIT = --encoder $(ENCODER) --width 0.125 --projector 128,64
TRAIN ?= --epochs $(each) --temperature 0.5 $(views)
STUDENT ?= --epochs 20 $(views)
LINEAR ?= --preset fedca
endif

include $(dir $(lastword $(MAKEFILE_LIST)))../round.mk

# ---------------------------------------------------------------- the clients' own models

# Min-Local is the worst of what each client has made of its own images in one round.
last := $(lastword $(folders))
trained := $(call clients_of,$(ROUNDS))
.PHONY: locals ledger
locals: $(trained:%=$(last)/linear_%.json)
$(trained:%=$(last)/linear_%.json): $(last)/linear_%.json: $(last)/client_%.safetensors
	$(call evaluate,linear,--seed $(SEED) $(LINEAR))

# What every client sent and received.
ledger: $(lastword $(globals))
	@$(FURLKIT) ledger $(OUT)
