# Two commands to know: `make demo` and `make test`. Everything else serves them.
#
#   make          builds target/release/ferroce and target/release/lib/libibverbs.so.1
#   make demo     unmodified ib_write_bw between two processes
#   make check    the tests that need no program of Debian, for every change: a minute on two cores
#                 once built, in debug builds of its own. CRATE=model: only the tests of that crate
#   make test     every test, also those that drive programs from Debian; FERROCE_TEST_SLOW=4 gives
#                 each process and each wait four times its time, for a slow or busy machine
#   make python-test  data frames, plots and the notebook of the Python package
#   make soak     random verbs programs, of two processes and of simulated hosts, 10,000 seeds each;
#                 what takes long of the rest
#   make fuzz     each fuzz target for MINUTES=1, with inputs of SEED=1
#   make loom     shared state in every order of its accesses
#   make asan     the conformance suite and the hostile tests in an address-sanitizer build
#   make tsan     threads of driver, vfio-user, platform and embed in a thread-sanitizer build
#   make miri     undefined behaviour in units, qp, spec, wire and transport; both want the sources of Rust
#   make bench    speed of this machine's build, beside what the machine can do and beside TCP, UCX and
#                 soft-RoCE; of the simulation in simulated time. BASE=REV builds another revision, and
#                 measures both by turns; RUNS=9 of each row; ROWS=PATTERN only those rows
#   make qemu-vfio  the model as a PCI device of a virtual machine: the same programs through kernel VFIO
#   make qemu-roce  the model against the RoCE of the Linux kernel in a virtual machine
#   make qemu-rtl   both with the card in SystemVerilog in place of the model
#   make rtl        the same programs with the card in SystemVerilog, Verilated: ferroce run --rtl
#   make demo-rtl   unmodified ib_write_bw and ibv_rc_pingpong between two of that card
#   make rtl-programs  programs on that card, with itself and with the model
#   make rtl-test   blocks of the card in SystemVerilog against those of the model; more with
#                 RTL_SEEDS=1000
#   make rtl-pcie   that card's PCIe endpoint with cocotbext-pcie's model of AMD's hard block; PyPI
#   make rtl-lint, rtl-synth, rtl-formal, rtl-cover, rtl-mutants   warnings; LUTs, flip-flops and block
#                 RAM and how they change; proofs; lines that the tests reach; whether the
#                 tests find one-line faults
#   make lab        the page of `ferroce lab`, which runs the model in a browser; Rust has to know wasm32
#   make install PREFIX=/usr/local      stripped, with man pages and completions; DESTDIR=… below a folder
#   make uninstall  removes what `make install` with the same PREFIX has put there
#   make package    a tarball, a Debian package and a Python wheel in target/package; the same build gives
#                 the same bytes
#   make wheel      the wheel alone, in target/wheel: `pip install` of it gives the command and the libraries
#   PGO=1           with these and `make install`: profile-guided optimisation. An instrumented build runs
#                 programs, and what it counts optimises the next build, in target/pgo
#
# Packages that are missing, Rust among them, are installed through apt-get (as root or with sudo), and
# named. .ci/cargo finds a toolchain that is new enough; CARGO=… names another.

PREFIX ?= /usr/local
SEEDS ?= 10000
MINUTES ?= 1
SEED ?= 1
CARGO ?= .ci/cargo
RELEASE := $(CURDIR)/target/release
LIBRARY := $(RELEASE)/lib/libibverbs.so.1

BUILD_PACKAGES := gcc libc6-dev ca-certificates
DEMO_PACKAGES := perftest
PYTHON_PACKAGES := python3 python3-pandas python3-matplotlib
BENCH_PACKAGES := python3 perftest libibverbs-dev rdmacm-utils ucx-utils qperf
TEST_PACKAGES := perftest ibverbs-utils libibverbs-dev python3-pyverbs ucx-utils tshark binutils iproute2 valgrind gdb strace \
	rdmacm-utils librdmacm1 librdmacm-dev qperf fio libfabric-bin libiscsi-bin infiniband-diags pciutils hwloc-nox \
	openmpi-bin libopenmpi-dev mpich python3-venv parallel \
	bash zsh fish groff-base shellcheck python3-yaml python3-jsonschema git

# The conformance suite's files that `make test` runs a second time, over a socket: all but the long
# one. `make soak` runs that, too.
VFIO_USER_TESTS := $(filter-out random,$(basename $(notdir $(wildcard tests/client/tests/*.rs))))

.PHONY: all build demo check test python-test soak fuzz fuzz-build loom asan tsan miri bench profile qemu-vfio qemu-roce qemu-rtl install uninstall package packages wheel clean lab \
	demo-rtl rtl rtl-programs rtl-test rtl-pcie rtl-lint rtl-synth rtl-formal rtl-cover rtl-mutants

all: build

# What a target needs later is named with what its build needs: all in one sentence.
demo: PACKAGES := $(DEMO_PACKAGES)
test soak: PACKAGES := $(TEST_PACKAGES)
python-test: PACKAGES := $(PYTHON_PACKAGES)
bench: PACKAGES := $(BENCH_PACKAGES)

ifdef PGO
PGO_FOLDER := $(CURDIR)/target/pgo
PROFILE := $(PGO_FOLDER)/ferroce.profdata
INSTRUMENTED := $(PGO_FOLDER)/instrumented
PGO_PACKAGES := rust-web-llvm perftest
RELEASE := $(PGO_FOLDER)/release
OPTIMISED := CARGO_TARGET_DIR=$(PGO_FOLDER) RUSTFLAGS="$(RUSTFLAGS) -Cprofile-use=$(PROFILE)"

# A profile of other sources must not stay in what cargo calls fresh. The counters of build scripts and
# macros go to a folder that nothing reads.
build: profile
profile:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(BUILD_PACKAGES) $$rust $(PGO_PACKAGES)
	@rm -rf $(RELEASE)
	@$(MAKE) --no-print-directory PGO= RELEASE=$(INSTRUMENTED)/release CARGO_TARGET_DIR=$(INSTRUMENTED) \
	    RUSTFLAGS="$(RUSTFLAGS) -Cprofile-generate=$(INSTRUMENTED)/counters" \
	    LDFLAGS="$(LDFLAGS) -Wl,-u,__llvm_profile_runtime" build
	packaging/profile $(INSTRUMENTED)/release $(PROFILE)
endif

build:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(BUILD_PACKAGES) $$rust $(PACKAGES)
	$(OPTIMISED) $(CARGO) build --release --locked
	@provider/link.sh $(RELEASE)/libferroce_provider.a $(RELEASE)/lib
	@install -m 755 $(RELEASE)/libferroce_time.so $(RELEASE)/lib/libferroce_time.so
	@install -d $(RELEASE)/share/ferroce
	@install -m 644 packaging/suppressions/*.supp $(RELEASE)/share/ferroce

demo: build
	@.ci/install-packages $(DEMO_PACKAGES)
	@sim/scripts/demo $(RELEASE)/ferroce

# Data frames, plots and the notebook of the Python package; `make test` has the rest of it.
python-test: build
	@.ci/install-packages $(PYTHON_PACKAGES)
	@cd python && PYTHONDONTWRITEBYTECODE=1 FERROCE_BIN=$(RELEASE)/ferroce \
	    /usr/bin/python3 -m unittest -v tests.test_frames

test: build
	@.ci/install-packages $(TEST_PACKAGES)
	@status=0; export CARGO=$(CARGO); \
	tests/scripts/side-by-side --locked --workspace || status=1; \
	FERROCE_TEST_BUS=vfio-user tests/scripts/side-by-side --locked -p ferroce-verbs-client \
	    $(VFIO_USER_TESTS:%=--test %) || status=1; \
	exit $$status
	$(CARGO) test --locked --workspace --quiet --doc

# The crates whose tests start nothing but themselves and the C compiler. What is left to `make test`:
# the command, the C ABI against Debian's headers, all that runs programs.
CHECK_CRATES := qp spec units wire cm transport model driver rdma-cm linux vfio vfio-user vfio-user-bus host platform embed serve \
	faults world seeds timed timed-protocol timed-client preload perf lab web selftest test-support

check:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(BUILD_PACKAGES) $$rust
	@status=0; export CARGO=$(CARGO); \
	if [ -n "$(CRATE)" ]; then \
	    tests/scripts/side-by-side --locked $(CRATE:%=-p ferroce-%) --lib --bins --tests || status=1; \
	else \
	    tests/scripts/side-by-side --locked $(CHECK_CRATES:%=-p ferroce-%) --lib --bins --tests || status=1; \
	    $(CARGO) test --locked --quiet -p ferroce-provider --lib || status=1; \
	fi; \
	$(CARGO) test --locked --quiet -p ferroce-tests --test tidy || status=1; \
	exit $$status

soak: build rtl
	@.ci/install-packages $(TEST_PACKAGES)
	FERROCE_SEEDS=$(SEEDS) $(CARGO) test --locked -p ferroce-seeds --test seeds
	FERROCE_SEEDS=5000 $(CARGO) test --locked -p ferroce-perf --test physics
	FERROCE_SEEDS=$(SEEDS) $(CARGO) test --locked -p ferroce-verbs-client --test random
	FERROCE_TEST_BUS=vfio-user $(CARGO) test --locked -p ferroce-verbs-client -- --test-threads=2
	$(CARGO) test --locked -p ferroce --test serve_driver -- --ignored
	$(CARGO) test --locked -p ferroce-tests -- --ignored --test-threads=2

FUZZ_TARGETS := wire capture model verbs

fuzz: $(FUZZ_TARGETS:%=fuzz-%)

fuzz-build:
	@.ci/install-packages $(BUILD_PACKAGES)
	$(CARGO) build --locked -p ferroce-fuzz

# Zeroed memory of the hosts comes from the kernel, not from memset.
fuzz-%: fuzz-build
	MALLOC_MMAP_THRESHOLD_=1000000 target/debug/ferroce-fuzz $* --seconds $$(($(MINUTES) * 60)) --seed $(SEED)

loom:
	@.ci/install-packages $(BUILD_PACKAGES)
	@CARGO=$(CARGO) tests/scripts/loom

asan:
	@.ci/install-packages $(BUILD_PACKAGES) libibverbs-dev
	@tests/scripts/asan

tsan miri:
	@tests/scripts/$@

bench: build
	@.ci/install-packages $(BENCH_PACKAGES)
	@/usr/bin/python3 sim/scripts/bench --build $(RELEASE) --base "$$BASE" --runs "$$RUNS" --rows "$$ROWS" \
	    --history docs/speed-history.csv $(if $(ROWS),,--soft-roce)
	$(if $(ROWS),,$(CARGO) bench --locked -p ferroce-world --bench world)

qemu-vfio: build
	@tests/scripts/qemu-vfio $(RELEASE)

qemu-roce: build
	@tests/scripts/qemu-roce $(RELEASE)

# Both with the card in SystemVerilog in place of the model.
qemu-rtl: build rtl
	@tests/scripts/qemu-roce --rtl $(RELEASE)
	@tests/scripts/qemu-vfio --rtl $(RELEASE)

# The model as WebAssembly, in one page. Neither `make` nor `make test` needs it.
LAB := $(RELEASE)/share/ferroce/lab.html

lab:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(BUILD_PACKAGES) $$rust
	@CARGO=$(CARGO) sim/web/build $(LAB)

# The RTL is a workspace beside this one; nothing else needs Verilator.
RTL := hw-model/rtl
RTL_PACKAGES := $(BUILD_PACKAGES) g++ verilator zlib1g-dev

# The programs and the library with the card in SystemVerilog in place of the model: `ferroce … --rtl`
# finds them here.
RTL_TARGET := $(CURDIR)/target/rtl

# What does not know the card is built once for both: the archive is copied, then `build` puts its own
# back.
rtl: build
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(RTL_PACKAGES) $$rust
	$(CARGO) build --release --locked -p ferroce --bin ferroce-rtl --features rtl
	$(CARGO) build --release --locked -p ferroce-provider --features rtl
	@install -d $(RTL_TARGET)/release
	@install $(RELEASE)/ferroce-rtl $(RELEASE)/libferroce_provider.a $(RTL_TARGET)/release
	$(CARGO) build --release --locked --quiet
	@LIBS="-lstdc++ -lz" provider/link.sh $(RTL_TARGET)/release/libferroce_provider.a $(RTL_TARGET)/release/lib

# What `make demo` shows, with the card in place of the model.
demo-rtl: PACKAGES := $(RTL_PACKAGES) $(DEMO_PACKAGES) ibverbs-utils
demo-rtl: build rtl
	@sim/scripts/demo $(RELEASE)/ferroce --rtl

# Unmodified programs on the card, with itself and with the model; see also qemu-roce, qemu-vfio.
rtl-programs: PACKAGES := $(RTL_PACKAGES) perftest ibverbs-utils rdmacm-utils tshark binutils
rtl-programs: build rtl
	$(CARGO) test --locked -p ferroce-tests --test rtl -- --ignored --test-threads=2

rtl-test:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(RTL_PACKAGES) $$rust
	$(CARGO) test --locked --quiet --workspace --manifest-path $(RTL)/Cargo.toml --features ferroce-rtl-harness/build

# cocotb and its extensions are not in Debian.
rtl-pcie:
	@.ci/install-packages $(RTL_PACKAGES) python3 python3-venv libpython3-dev
	@$(RTL)/cocotb/pcie/run

rtl-lint:
	@.ci/install-packages verilator yosys python3-venv
	@$(RTL)/lint

rtl-synth:
	@.ci/install-packages yosys bc
	@$(RTL)/synth/run

rtl-formal:
	@.ci/install-packages yosys z3
	@$(RTL)/formal/run

rtl-cover:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(RTL_PACKAGES) $$rust
	@CARGO=$(CURDIR)/.ci/cargo $(RTL)/cover

rtl-mutants:
	@rust=$$(.ci/cargo --packages); .ci/install-packages $(RTL_PACKAGES) python3 $$rust
	@CARGO=$(CURDIR)/.ci/cargo $(RTL)/mutants/run $(MUTANTS)

install: build
	@DESTDIR="$(DESTDIR)" packaging/install $(RELEASE) "$(PREFIX)"

# What `make install` with the same PREFIX and DESTDIR has put there, and nothing else.
uninstall:
	@DESTDIR="$(DESTDIR)" packaging/uninstall "$(PREFIX)"

# A tarball, a Debian package and a wheel in target/package.
package: build
	@.ci/install-packages binutils dpkg tar gzip xz-utils python3
	@CARGO=$(CARGO) sim/web/build $(LAB) || [ $$? = 77 ]
	@packaging/package $(RELEASE) $(CURDIR)/target/package

wheel: build
	@.ci/install-packages binutils python3
	@packaging/wheel $(RELEASE) $(CURDIR)/target/wheel

clean:
	$(CARGO) clean
