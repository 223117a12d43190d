# The scales of FedCA's baselines: SCALE=cpu uses digits and a small net, SCALE=paper
# CIFAR-10 and 20 rounds. For SCALE=cpu, a system's Makefile may set SMALL_TRAIN.

SCALE ?= cpu
EVALUATE = knn linear:0,last

ifeq ($(SCALE),cpu)
DATA = digits
ROUNDS = 5
GROUP = 3
INIT = --width 0.25
TRAIN = $(SMALL_TRAIN)
else ifeq ($(SCALE),paper)
DATA = cifar10
ROUNDS = 20
else
$(error SCALE=$(SCALE): use cpu or paper)
endif

include $(dir $(lastword $(MAKEFILE_LIST)))round.mk
