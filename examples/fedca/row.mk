# One run of FedCA, of a row of its ablation, or of a baseline: ../round.mk with the
# settings of that row, and more scores of its last model.
#
#   make -j2 -f examples/fedca/row.mk ROW=fedca SETTING=noniid
#   make -j2 -f examples/fedca/row.mk ROW=fedca SETTING=noniid semi transfer angles features

# fedca, align, dictionary, ensemble, fedsimclr, fedpr, fedae
ROW ?= fedca
# iid, or noniid: each client has its own classes
SETTING ?= iid
# cpu, or paper
SCALE ?= cpu
# digits, cifar10, cifar100; images and miniimagenet are files, given by DATA and TEST
DATASET ?= digits
ENCODER ?= cnn5
# The dataset to transfer to, and its image size if it is not that of the model.
TARGET ?= digits
TARGET_TEST ?=
TARGET_SIZE ?=

# ---------------------------------------------------------------- the row

preset.align := fedca-align
preset.dictionary := fedca-dictionary
preset.ensemble := fedca-ensemble
PRESET = $(or $(preset.$(ROW)),$(ROW))
DICTIONARY = $(if $(filter dictionary ensemble fedca,$(ROW)),1024)
PRIVATE = $(if $(filter ensemble fedca,$(ROW)),yes)
ALIGN = $(if $(filter align fedca,$(ROW)),$(PUBLIC))

# ---------------------------------------------------------------- the data

ifneq ($(filter digits cifar10 cifar100,$(DATASET)),)
DATA = $(DATASET)
endif
EACH ?= $(if $(filter cifar100 miniimagenet,$(DATASET)),20,2)
CLIENTS = 5
noniid := --scheme classes --ordered-classes --classes-per-client $(EACH)
PARTITION = $(if $(filter noniid,$(SETTING)),$(noniid),--scheme iid) $(HELD_OUT)

# ---------------------------------------------------------------- the scale

INIT = --encoder $(ENCODER) $(SMALL)
# The untrained network is the same for all rows.
with_start := linear:0,last
EVALUATE ?= $(if $(filter fedsimclr,$(ROW)),$(with_start),linear:last)
FINETUNE ?=

ifeq ($(SCALE),paper)
ROUNDS ?= 20
PUBLIC ?= stl10
else ifneq ($(SCALE),cpu)
$(error SCALE=$(SCALE): use cpu or paper)
else ifeq ($(DATASET),digits)
# 8 x 8 grey pixels; a fifth of the images is public and belongs to no client.
ROUNDS ?= 4
PUBLIC ?= digits
GROUP ?= 3
SMALL ?= --width 0.25
HELD_OUT := --public-fraction 0.2
views := --batch-size 64 --crop-scale 0.4,1 --flip 0 --jitter 0.4,0.4,0,0 --grey 0 --blur 0
contrast := $(if $(filter fedae fedpr,$(ROW)),,--temperature 0.2)
TRAIN ?= --epochs 2 --lr 3e-4 $(contrast) $(views)
PRETRAIN ?= --images 0 --partition $(partition) --part public --epochs 20 --lr 3e-4 $(views)
FINETUNE += --flip 0 --epochs 5 --batch-size 32
SEMI ?= --rounds 20
else
# 32 x 32 colour pixels.
ROUNDS ?= 8
GROUP ?= 3
SMALL ?= --width 0.125 --projector 128,64
TRAIN ?= --epochs 2
PRETRAIN ?= --epochs 30
FINETUNE += --epochs 2
SEMI ?= --rounds 5
endif

include $(dir $(lastword $(MAKEFILE_LIST)))../round.mk

# ---------------------------------------------------------------- more scores

last := $(lastword $(folders))
finetune = $(run) evaluate $1 $< --seed $(SEED) --threads $(THREADS) $2 $(FINETUNE) \
	$(QUIET) -o $@
federated := $(source) $(test) --partition $(partition) $(SEMI)
target := --data $(TARGET) $(if $(TARGET_TEST),--test-data $(TARGET_TEST)) \
	$(if $(TARGET_SIZE),--image-size $(TARGET_SIZE)) \
	$(if $(DATA_ROOT),--data-root $(DATA_ROOT)) $(if $(DOWNLOAD),--download)
name := $(notdir $(basename $(TARGET)))

.PHONY: semi transfer angles features
# FedAvg on few labels, and the reference of transfer, start from random weights.
semi: $(addprefix $(last)/,semi1.json semi10.json fedavg1.json fedavg10.json)
transfer: $(last)/to_$(name).json $(last)/scratch_$(name).json
angles: $(later:%=%/angles.json)
features: $(OUT)/features.safetensors

$(last)/semi1.json $(last)/fedavg1.json: share := 0.01
$(last)/semi10.json $(last)/fedavg10.json: share := 0.1
$(last)/semi1.json $(last)/semi10.json: $(last)/global.safetensors
	$(call finetune,semi,$(federated) --fraction $(share))

$(last)/fedavg1.json $(last)/fedavg10.json: $(last)/global.safetensors
	$(call finetune,semi,$(federated) --fraction $(share) --random-init)

$(last)/to_$(name).json: $(last)/global.safetensors
	$(call finetune,transfer,$(target))

$(last)/scratch_$(name).json: $(last)/global.safetensors
	$(call finetune,transfer,$(target) --random-init)

$(OUT)/features.safetensors: $(last)/client_0.safetensors
	$(run) embed $< --data $(or $(TEST),$(DATA)) --split test --threads $(THREADS) \
		$(if $(DATA_ROOT),--data-root $(DATA_ROOT)) $(QUIET) -o $@
