//! The generated C++: the functions of a module as [`crate::Functions`].

use std::fmt::Write as _;

use super::header::PortOfHeader;

/// Included in every C++ file: redirects the output of Verilator's runtime.
pub const PRINTING: &str = "\
extern int rtl_harness_print(const char* format, ...);
#define VL_PRINTF rtl_harness_print
";

/// Common code of all modules: the text of a failed assertion is stored, and the next return to
/// Rust passes it on. It is not printed; other messages of the runtime go to standard error.
pub const RUNTIME: &str = r#"
#include <verilated.h>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

// A new seed of any thread restarts the random numbers of all threads: held from the seed to the
// end of the power-on that uses it.
std::mutex rtl_harness_power_on;

static thread_local std::string failure;
static thread_local bool has_failed = false;

void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    failure = std::string(file) + ":" + std::to_string(line);
    has_failed = true;
}

int rtl_harness_print(const char* format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return std::strstr(line, ": Assertion failed in ") ? 0 : std::fputs(line, stderr);
}

const char* rtl_harness_take_failure() {
    if (!has_failed) return nullptr;
    has_failed = false;
    return failure.c_str();
}

double sc_time_stamp() { return 0; }
"#;

const TEMPLATE: &str = r#"
#include <cstdint>
#include <mutex>
#include <verilated.h>
#include <verilated_fst_c.h>
#if VM_COVERAGE
#include <verilated_cov.h>
#endif
#include "V@NAME.h"

const char* rtl_harness_take_failure();
extern std::mutex rtl_harness_power_on;

namespace {

struct Instance {
    VerilatedContext context;
    V@NAME* top = nullptr;
    VerilatedFstC* trace = nullptr;
    uint64_t cycle = 0, from = 0, to = 0;

    // State is random by `seed`, or zero if it is 0. Inputs are state, too: Rust sets them.
    explicit Instance(int32_t seed) {
        context.threads(1);
        context.traceEverOn(true);
        enter();
        std::lock_guard<std::mutex> lock{rtl_harness_power_on};
        context.randReset(seed ? 2 : 0);
        context.randSeed(seed);
        top = new V@NAME{&context, "@NAME"};
    }
    ~Instance() {
        enter();
        close();
        top->final();
        delete top;
    }
    // Verilator's runtime has one context per thread: until it is set, it may belong to another or
    // a deleted instance, or be null.
    void enter() { Verilated::threadContextp(&context); }
    void close() {
        if (!trace) return;
        trace->close();
        delete trace;
        trace = nullptr;
    }
    void dump(uint64_t time) {
        if (!trace || cycle < from) return;
        if (cycle < to) trace->dump(time);
        else close(); // whole from now on, however the process ends
    }
};

void* create(int32_t seed) { return new Instance{seed}; }

void destroy(void* p) { delete static_cast<Instance*>(p); }

const char* settle(void* p) {
    Instance& i = *static_cast<Instance*>(p);
    i.enter();
@LOWS    i.top->eval();
    return rtl_harness_take_failure();
}

const char* edge(void* p, uint64_t clocks, uint64_t time) {
    Instance& i = *static_cast<Instance*>(p);
    i.enter();
    i.dump(2 * time);
@EDGES    i.top->eval();
    i.dump(2 * time + 1);
    ++i.cycle;
    return rtl_harness_take_failure();
}

int trace(void* p, const char* path, uint64_t from, uint64_t to) {
    Instance& i = *static_cast<Instance*>(p);
    i.enter();
    i.close();
    i.trace = new VerilatedFstC;
    i.top->trace(i.trace, 99);
    i.trace->open(path);
    i.from = from;
    i.to = to;
    if (i.trace->isOpen()) return 1;
    delete i.trace;
    i.trace = nullptr;
    return 0;
}

int coverage(void* p, const char* path) {
#if VM_COVERAGE
    static_cast<Instance*>(p)->context.coveragep()->write(path);
    return 1;
#else
    (void)p;
    (void)path;
    return 0;
#endif
}

void* port(void* p, uint32_t index) {
    V@NAME* t = static_cast<Instance*>(p)->top;
    switch (index) {
@PORTS    default: return nullptr;
    }
}

struct Functions {
    void* (*create)(int32_t);
    void (*destroy)(void*);
    const char* (*settle)(void*);
    const char* (*edge)(void*, uint64_t, uint64_t);
    int (*trace)(void*, const char*, uint64_t, uint64_t);
    int (*coverage)(void*, const char*);
    void* (*port)(void*, uint32_t);
};

const Functions functions = {create, destroy, settle, edge, trace, coverage, port};

}

extern "C" const void* @NAME_functions() { return &functions; }
"#;

/// Returns the C++ of the module `name`.
pub fn print(name: &str, ports: &[PortOfHeader], clocks: &[&str]) -> String {
    let (mut cases, mut lows, mut edges) = (String::new(), String::new(), String::new());
    for (index, clock) in clocks.iter().enumerate() {
        writeln!(lows, "    i.top->{clock} = 0;").expect("writing to a String cannot fail");
        writeln!(edges, "    i.top->{clock} = clocks >> {index} & 1;")
            .expect("writing to a String cannot fail");
    }
    for (index, port) in ports.iter().enumerate() {
        writeln!(cases, "    case {index}: return &t->{};", port.name)
            .expect("writing to a String cannot fail");
    }
    let text = TEMPLATE.replace("@NAME", name).replace("@PORTS", &cases);
    text.replace("@LOWS", &lows).replace("@EDGES", &edges)
}
