# The round loop that every system's Makefile includes: one command for each file.
#
#   OUT/partition ------+--------------------+
#                       |                    |
#   OUT/r000/global ----+--> r001/client_0 --+        knn.json, linear.json beside a
#                       +--> r001/client_1 --+--> r001/global --> r002/client_0 ...
#                       +--> ...             |
#
# FedCA needs more files: with ALIGN, every client reads OUT/targets; with DICTIONARY, the
# clients' r001/features_* are combined to r001/dictionary for the next round.
#
# `make -j2` trains clients and evaluates models in parallel. If it is killed, the same
# command resumes: files are written whole or not at all, so make sees from their dates
# what is left to do, and the results have the same bytes as without the interruption.
#
# Set by a system's Makefile or on the command line:

here := $(dir $(lastword $(MAKEFILE_LIST)))

OUT ?= exp
# A dataset's name or path. A path also needs TEST, the labelled images to test on.
DATA ?= digits
TEST ?=
DATA_ROOT ?=
# If set, the first stage downloads a missing dataset.
DOWNLOAD ?=

CLIENTS ?= 5
ROUNDS ?= 5
# The share of the clients that take part in a round.
FRACTION ?= 1
SEED ?= 0
# Passed to every stage, so it needs a table for each; see furlkit/presets.
PRESET ?=
# More options of each stage; they override the preset.
PARTITION ?=
INIT ?=
TRAIN ?=
AGGREGATE ?=
PRETRAIN ?=
KNN ?=
LINEAR ?=
ANGLES ?=
# Clients that do not train because their images are public: use them with
# --public-client in PARTITION.
WITHOUT ?=
# Options of distill, or `yes` for none: the global model is distilled from the outputs of
# the clients' models on the public images, and weights do not leave the clients.
DISTILL ?=
EMBED ?=
ENSEMBLE ?=
# Public images for FedCA's alignment: a dataset's name or path.
ALIGN ?=
# K, the number of rows of the dictionary that clients share.
DICTIONARY ?=
# If set, clients keep private files from round to round.
PRIVATE ?=
# Evaluation protocols with their rounds: `knn` in every round, `linear:last`, `linear:0,5,10`;
# knn, linear, classifier (of supervised models), and angles (between the clients'
# models of a round).
EVALUATE ?= knn linear:last

# The following do not change a byte of any result, except THREADS.
# The number of clients that one process trains one after the other. Starting a process
# takes some seconds, which matters for small clients; `make -n` shows the groups.
# (Some shells export a variable GROUP.)
ifneq ($(filter undefined environment,$(origin GROUP)),)
GROUP := 1
endif
THREADS ?= 1
# The prefix of every command: empty on a laptop, `srun --gpus 1` on a cluster.
LAUNCH ?=
QUIET ?= -q
FURLKIT ?= $(firstword $(wildcard $(here)../.venv/bin/furlkit) furlkit)

# ---------------------------------------------------------------- names and numbers

comma := ,
empty :=
space := $(empty) $(empty)

# Round n is in the n-th folder of `later`, which is word n + 1 of `folders`: make counts
# words from 1.
folders := $(shell seq -f '$(OUT)/r%03g' 0 $(ROUNDS))
later := $(wordlist 2,$(words $(folders)),$(folders))
numbers := $(shell seq 0 $(ROUNDS))
rounds := $(filter-out 0,$(numbers))
rounds_before = $(wordlist 1,$1,$(numbers))
folder = $(if $(filter 0,$1),$(firstword $(folders)),$(word $1,$(later)))
folder_before = $(word $1,$(folders))

# The clients of each round, as ROUND/CLIENT.
everyone := $(filter-out $(WITHOUT),$(shell seq 0 $$(($(CLIENTS) - 1))))
ifeq ($(FRACTION),1)
drawn := $(foreach n,$(rounds),$(everyone:%=$n/%))
else
drawn := $(shell $(FURLKIT) sample --clients $(subst $(space),$(comma),$(everyone)) \
	--fraction $(FRACTION) --rounds 1-$(ROUNDS) --seed $(SEED))
endif
ifeq ($(strip $(drawn)),)
$(error CLIENTS=$(CLIENTS) ROUNDS=$(ROUNDS) FRACTION=$(FRACTION): no client takes part)
endif
clients_of = $(patsubst $1/%,%,$(filter $1/%,$(drawn)))
# The last round before round $1 that client $2 took part in, if any.
last_round_of = $(patsubst %/$2,%,$(lastword $(filter $(addsuffix /$2,$(call rounds_before,$1)),$(drawn))))

# Groups of clients, one word per group: 0,1,2 3,4. Before version 4.3, make has no rules
# for several files at once, so each client is a group. The same holds for clients that
# skip rounds, because their private files are in different folders.
size := $(if $(filter grouped-target,$(.FEATURES)),$(GROUP),1)
ifneq ($(PRIVATE),)
size := $(if $(filter 1,$(FRACTION)),$(size),1)
endif
after := $(shell echo $$(($(size) + 1)))
joined = $(subst $(space),$(comma),$(strip $1))
rest = $(wordlist $(after),$(words $1),$1)
grouped = $(if $1,$(call joined,$(wordlist 1,$(size),$1)) $(call grouped,$(call rest,$1)))
groups = $(if $(filter 1,$(size)),$1,$(call grouped,$1))

# knn:0,5 to exp/r000/knn.json exp/r005/knn.json
protocol = $(firstword $(subst :, ,$1))
when = $(subst $(comma), ,$(word 2,$(subst :, ,$1)))
places = $(if $(when),$(foreach n,$(when:last=$(ROUNDS)),$(call folder,$n)),$(folders))
# Round 0 has no clients to compare.
scores := $(filter-out $(OUT)/r000/angles.json,$(foreach e,$(EVALUATE),$(addsuffix /$(call protocol,$e).json,$(call places,$e))))

# ---------------------------------------------------------------- the stages

preset := $(if $(PRESET),--preset $(PRESET))
source := --data $(DATA) $(if $(DATA_ROOT),--data-root $(DATA_ROOT))
test := $(if $(TEST),--test-data $(TEST))
run := $(LAUNCH) $(FURLKIT)
partition := $(OUT)/partition.safetensors
globals := $(folders:%=%/global.safetensors)
targets := $(if $(ALIGN),$(OUT)/targets.safetensors)
dictionaries := $(if $(DICTIONARY),$(later:%=%/dictionary.safetensors))
uploads := $(foreach n,$(rounds),$(patsubst %,$(call folder,$n)/client_%.safetensors,$(call clients_of,$n)))

ifeq ($(.DEFAULT_GOAL),)
.DEFAULT_GOAL := all
endif
.PHONY: all curve heat summary clean settings
# Keep the files of a stage that fails later.
.PRECIOUS: $(partition) $(globals) $(uploads) $(scores) $(targets) $(dictionaries)

all: $(scores) $(lastword $(globals))

$(partition): | settings
	$(run) partition $(preset) $(source) $(if $(DOWNLOAD),--download) \
		--clients $(CLIENTS) --seed $(SEED) $(PARTITION) $(QUIET) -o $@

$(firstword $(globals)): | $(partition)
	$(run) init $(preset) $(source) --seed $(SEED) $(INIT) $(QUIET) -o $@

ifneq ($(ALIGN),)
$(targets): $(firstword $(globals))
	$(run) pretrain-align $< $(preset) --data $(ALIGN) \
		$(if $(DATA_ROOT),--data-root $(DATA_ROOT)) $(if $(DOWNLOAD),--download) \
		--seed $(SEED) --threads $(THREADS) $(PRETRAIN) $(QUIET) \
		--targets-out $@ -o $(OUT)/align.safetensors
endif

# The files that clients $2 of round $1 read and write in addition to the models.
own_file = '$(call folder,$1)/$2_{client}.safetensors'
private_in = $(foreach r,$(call last_round_of,$1,$(firstword $(subst $(comma), ,$2))),--private $(call own_file,$r,private))
dictionary_in = $(if $(DICTIONARY),$(filter %/$(notdir $(call folder_before,$1))/dictionary.safetensors,$(dictionaries)))
more = $(if $(ALIGN),--align $(targets) --align-data $(ALIGN)) \
	$(if $(PRIVATE),$(call private_in,$1,$2) --private-out $(call own_file,$1,private)) \
	$(addprefix --dictionary ,$(call dictionary_in,$1)) \
	$(if $(DICTIONARY),--features-out $(call own_file,$1,features) \
	--dictionary-size $(DICTIONARY) --participants $(words $(call clients_of,$1)))

# Round $1, clients $2 separated by commas.
define train_rule
$(patsubst %,$(call folder,$1)/client_%.safetensors,$(subst $(comma), ,$2)) \
  $(if $(findstring $(comma),$2),&:,:) \
  $(call folder_before,$1)/global.safetensors $(partition) $(targets) \
  $(call dictionary_in,$1) | settings
	$$(run) local-train $(partition) $$< $$(preset) $$(source) --client $2 \
		$(call more,$1,$2) \
		--seed $$(SEED) --threads $$(THREADS) $$(TRAIN) $$(QUIET) \
		-o '$(call folder,$1)/client_{client}.safetensors'
endef

# Round $1: the mean of its clients' models.
define mean_rule
$(call folder,$1)/global.safetensors: $(patsubst %,$(call folder,$1)/client_%.safetensors,$(call clients_of,$1))
	$$(run) aggregate $$^ $$(preset) $$(AGGREGATE) $$(QUIET) -o $$@
endef

# Round $1: the ensemble of its clients' similarities, and the model distilled from it.
define distill_rule
$(call folder,$1)/public_%.safetensors: $(call folder,$1)/client_%.safetensors $(partition)
	$$(run) embed $$< $$(preset) $$(source) --partition $(partition) --part public \
		--threads $$(THREADS) $$(EMBED) $$(QUIET) -o $$@

$(call folder,$1)/ensemble.safetensors: $(patsubst %,$(call folder,$1)/public_%.safetensors,$(call clients_of,$1))
	$$(run) aggregate --rule ensemble $$^ $$(preset) $$(ENSEMBLE) $$(QUIET) -o $$@

$(call folder,$1)/global.safetensors: $(call folder,$1)/ensemble.safetensors $(call folder_before,$1)/global.safetensors
	$$(run) distill $$^ $$(preset) $$(source) --seed $$(SEED) --threads $$(THREADS) \
		$$(filter-out yes,$$(DISTILL)) $$(QUIET) -o $$@
endef
aggregate_rule = $(if $(DISTILL),$(distill_rule),$(mean_rule))

# Round $1: local-train writes the model last, so the rows exist when the model does.
define dictionary_rule
$(call folder,$1)/dictionary.safetensors: $(patsubst %,$(call folder,$1)/client_%.safetensors,$(call clients_of,$1))
	$$(run) aggregate --rule dictionary --dictionary-size $$(DICTIONARY) $$(QUIET) \
		$$(foreach f,$$^,$$(dir $$f)$$(patsubst client_%,features_%,$$(notdir $$f))) \
		-o $$@
endef

# Round $1: the angles between the models of its clients.
define angles_rule
$(call folder,$1)/angles.json: $(patsubst %,$(call folder,$1)/client_%.safetensors,$(call clients_of,$1))
	$$(run) evaluate angles $$^ --data $(or $(TEST),$(DATA)) --split test \
		$(if $(DATA_ROOT),--data-root $(DATA_ROOT)) --threads $$(THREADS) \
		$$(ANGLES) $$(QUIET) -o $$@
endef

$(foreach n,$(rounds),$(eval $(call aggregate_rule,$n)))
$(foreach n,$(rounds),$(eval $(call dictionary_rule,$n)))
$(foreach n,$(rounds),$(eval $(call angles_rule,$n)))
$(foreach n,$(rounds),$(foreach g,$(call groups,$(call clients_of,$n)),$(eval $(call train_rule,$n,$g))))

evaluate = $(run) evaluate $1 $< $(preset) $(source) $(test) \
	--threads $(THREADS) $2 $(QUIET) -o $@

$(folders:%=%/knn.json): %/knn.json: %/global.safetensors
	$(call evaluate,knn,$(KNN))

$(folders:%=%/linear.json): %/linear.json: %/global.safetensors
	$(call evaluate,linear,--seed $(SEED) $(LINEAR))

$(folders:%=%/classifier.json): %/classifier.json: %/global.safetensors
	$(call evaluate,classifier)

# ---------------------------------------------------------------- plots and tables

curve: $(OUT)/curve.png
heat: $(OUT)/partition.png

$(OUT)/curve.png: $(scores)
	$(run) plot curve $^ $(QUIET) -o $@

$(OUT)/partition.png: $(partition)
	$(run) plot partition $< $(QUIET) -o $@

# The scores of all rounds as a table, from the output of inspect.
summary: $(scores)
	@$(FURLKIT) inspect $^ | awk -f $(here)table.awk

# One folder for one run: with other settings in the same folder, make would mix them.
facts := data=$(DATA) clients=$(CLIENTS) fraction=$(FRACTION) seed=$(SEED) \
	preset=$(PRESET) threads=$(THREADS) partition=$(PARTITION) init=$(INIT) \
	train=$(TRAIN) aggregate=$(AGGREGATE) align=$(ALIGN) pretrain=$(PRETRAIN) \
	dictionary=$(DICTIONARY) private=$(PRIVATE) distill=$(DISTILL) embed=$(EMBED) \
	ensemble=$(ENSEMBLE)
settings:
	@mkdir -p $(OUT)
	@test -e $(OUT)/settings || { echo '$(facts)' > $(OUT)/settings.part; \
		mv $(OUT)/settings.part $(OUT)/settings; }
	@echo '$(facts)' | cmp -s - $(OUT)/settings || { \
		echo "error: $(OUT) was made with other settings, see $(OUT)/settings;" \
		"run make clean, or choose another folder with OUT=" >&2; exit 2; }

clean:
	rm -rf $(OUT)/r[0-9][0-9][0-9]* $(OUT)/partition.safetensors $(OUT)/settings* \
		$(OUT)/targets.safetensors $(OUT)/align.* $(OUT)/curve.png $(OUT)/partition.png
	@rmdir $(OUT) 2> /dev/null || true
