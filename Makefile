# fastq: builds and runs the examples, the tests and the benchmarks. The library is fastq.h alone.
# "make help" lists the targets. CC=clang, CFLAGS=-O3 and BUILD=elsewhere go with each of them.

BUILD  := build
CFLAGS := -O2 -g
STRICT := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual \
          -Wmissing-prototypes -Werror
CXXSTRICT := $(filter-out -Wmissing-prototypes,$(STRICT))
ifeq ($(origin CXX),default)
CXX := $(if $(filter cc,$(CC)),c++,$(subst clang,clang++,$(subst gcc,g++,$(CC))))
endif
JOBS := $(shell nproc 2>/dev/null || echo 2)
export CC CXX STRICT CXXSTRICT

TESTS    := $(basename $(notdir $(wildcard tests/*.c)))
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(wildcard examples/*.c examples/recipes/*.c))
BENCHES  := $(addprefix $(BUILD)/,$(basename $(wildcard bench/*.c bench/*.cc)))
FUZZERS  := $(patsubst tests/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz_*.c))
SOURCES  := $(shell find fastq.h tests examples bench -name '*.[ch]' -o -name '*.cc')

# Each test is built plain, with counters that start near their wrap, and with sanitizers; some also
# with 8 and 16 bits of positions. A sanitizer that the compiler cannot link and run is skipped; TSan
# has nothing to see where there is one thread, and the coroutines of interleave*.c do not go with
# sanitizers.
FLAGS_plain := -Wno-psabi
FLAGS_wrap  := $(FLAGS_plain) -DFASTQ_INDEX_ORIGIN='((size_t)-3)'
FLAGS_pos8  := $(FLAGS_plain) -DFQI_POSITIONS=0xff
FLAGS_pos16 := $(FLAGS_plain) -DFQI_POSITIONS=0xffff
FLAGS_asan  := $(FLAGS_plain) -DTEST_QUICK -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_tsan  := $(FLAGS_plain) -DTEST_QUICK -fsanitize=thread
runs = $(shell mkdir -p $(BUILD) && echo 'int main(void) { return 0; }' | $(CC) $(FLAGS_$1) -x c - \
         -o $(BUILD)/probe 2>/dev/null && $(BUILD)/probe >/dev/null 2>&1 && echo $1)
ifneq ($(filter test test-programs,$(MAKECMDGOALS)),)
HAVE := $(call runs,asan) $(call runs,tsan)
endif
WRAPPED  := $(filter ring chan% pool% dispatch% group spsc mpmc lockfree% linear,$(TESTS))
NARROW   := $(filter mpmc lockfree_stress lockfree_stopped,$(TESTS))
CHECKED  := $(filter-out interleave%,$(TESTS))
THREADED := $(filter-out ring% dispatch% fuzz_% spsc mpmc,$(CHECKED))
PROGRAMS := $(addprefix $(BUILD)/test/,$(TESTS:=.plain) model_chan model_lockfree $(WRAPPED:=.wrap) \
              $(NARROW:=.pos8) $(NARROW:=.pos16) \
              $(if $(filter asan,$(HAVE)),$(CHECKED:=.asan)) \
              $(if $(filter tsan,$(HAVE)),$(THREADED:=.tsan)))
SKIPPED  := $(foreach v,$(filter-out $(HAVE),asan tsan),-s '$v: $(CC) cannot use $(FLAGS_$v)')

help: ## this list
	@sed -En 's/^([a-z-]+):.*## (.*)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(BUILD)/fqwc ## count the words of the project's own files
	@find * -name build -prune -o -type f -print | sort >$(BUILD)/files
	@bash -c 'TIMEFORMAT="%3R s"; time $(BUILD)/fqwc <$(BUILD)/files'

test: ## build and run every test
	@$(MAKE) --no-print-directory -j$(JOBS) test-programs
	@tests/run.sh $(SKIPPED) tests/docs.sh tests/compile.sh 'tests/examples.sh $(EXAMPLES)' \
	  $(if $(wildcard tests/fqwc.sh),'tests/fqwc.sh $(BUILD)/fqwc') $(PROGRAMS)
test-programs: $(PROGRAMS) $(EXAMPLES)

check: ## the tests, the layout of the sources, and a minute of each fuzzer
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory format-check fuzz

FUZZ_CC := clang
FUZZ_SECONDS := 60
fuzz: $(FUZZERS)
	@for f in $^; do $$f -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$$f- -print_final_stats=1 \
	  >$$f.log 2>&1 || { tail -n 40 $$f.log; exit 1; }; \
	  echo "$$f: $$(sed -n 's/^stat::number_of_executed_units: *//p' $$f.log) inputs"; done

model: ## the weak-memory models, where the checker genmc is installed
	@tests/model/run.sh

bench: $(BENCHES) ## build and run the benchmarks
	@for b in $^; do NODE_PATH=$(BUILD)/npm/node_modules $$b || exit 1; done

examples: $(EXAMPLES) ## build the examples
format: ## lay out the sources
	clang-format -i $(SOURCES)
format-check:
	clang-format --dry-run -Werror $(SOURCES)
clean: ## remove what was built
	rm -rf $(BUILD)

# $(call build,COMPILER AND STANDARD,FLAGS): a program from one source, with its headers noted.
build = @mkdir -p $(@D); echo "$(firstword $1) $@"; \
        $1 $(CFLAGS) $2 -pthread -MMD -MP -MF $@.d -MT $@ -o $@ $< $(LDLIBS)
c   = $(call build,$(CC) -std=c11,$(STRICT) $1)
cxx = $(call build,$(CXX) -std=c++17,$(CXXSTRICT) $1)

$(BUILD)/%: examples/%.c $(BUILD)/flags
	$(call c)
$(BUILD)/test/model_%: tests/model/%.c $(BUILD)/flags
	$(call c,$(FLAGS_plain))
define test_variant
$(BUILD)/test/%.$1: tests/%.c $(BUILD)/flags
	$$(call c,$$(FLAGS_$1))
endef
$(foreach v,plain wrap pos8 pos16 asan tsan,$(eval $(call test_variant,$v)))
$(BUILD)/fuzz/%: CC := $(FUZZ_CC)
$(BUILD)/fuzz/%: tests/%.c
	$(call c,$(FLAGS_asan) -DFUZZ -fsanitize=fuzzer)
$(BUILD)/bench/%: LDLIBS += $(PEERS)
$(BUILD)/bench/%: bench/%.c $(BUILD)/flags
	$(call c)
$(BUILD)/bench/%: bench/%.cc $(BUILD)/flags
	$(call cxx)
# The queues that the benchmarks compare with, as far as they are installed.
PEERS = -Wl,--as-needed $(foreach p,glib-2.0 tbb apr-util-1 apr-1 libuv,$(subst -I,-isystem ,$(shell pkg-config --cflags --libs $p 2>/dev/null))) \
        $(if $(shell pkg-config --modversion libdpdk 2>/dev/null),-lrte_ring -lrte_eal \
        $(subst -I,-isystem ,$(filter -I%,$(shell pkg-config --cflags libdpdk))))

# Another compiler or other flags build everything anew.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(CXX) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CXX) $(CFLAGS)' >$@

FORCE:
.PHONY: help demo test test-programs check fuzz model bench examples format format-check clean FORCE
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
