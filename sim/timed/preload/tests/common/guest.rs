//! Programs for the world. They are the test binary itself: if `FERROCE_GUEST` names one, it runs
//! before the tests begin, with one thread and without the test harness.

use std::arch::asm;
use std::ffi::{CStr, c_int, c_void};
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_test_support::{Process, TIMEOUT};
use ferroce_timed_protocol::MOST_AHEAD_PS;
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::{Check, Wait};
use ferroce_timed_protocol::store::StoreKind;
use ferroce_timed_protocol::table::{GetTable, SYMBOL, TimeTable};

use super::with_library;
use super::world::World;

const VARIABLE: &str = "FERROCE_GUEST";

/// Starts one of the programs.
pub fn start(name: &str, world: Option<&World>) -> Process {
    let mut command = with_library(std::env::current_exe().expect("the test has a path"));
    command.env(VARIABLE, name);
    if let Some(world) = world {
        command.env("FERROCE_WORLD", world.path());
    }
    Process::alone(command, TIMEOUT)
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_TESTS: extern "C" fn() = {
    extern "C" fn act() {
        if let Ok(name) = std::env::var(VARIABLE) {
            run(&name);
            std::io::stdout().flush().expect("a pipe");
            std::process::exit(0);
        }
    }
    act
};

fn run(name: &str) {
    match name {
        "clock" => clock(),
        "tsc" => tsc(),
        "mhz" => mhz(),
        "costs" => costs(),
        "exec" => exec(),
        "fork" => fork(),
        "fault" => fault(),
        "crash" => crash(),
        "blocked" => blocked(),
        "reading" => reading(),
        "lost" => lost(),
        "threads" => threads(),
        "state" => state(),
        "no_world" => without_world(),
        "refused" => refused(),
        "stores" => stores(),
        "checks" => checks(),
        "storm" => storm(),
        "small_stack" => small_stack(),
        other => panic!("no program {other}"),
    }
}

fn say(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}

fn table() -> &'static TimeTable {
    // SAFETY: `dlsym` requires a NUL-terminated name; `SYMBOL` is a `CStr`.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
    assert!(!symbol.is_null(), "the library is not loaded");
    // SAFETY: the library that defines this versioned symbol defines it as a `GetTable`, and the
    // address is not null.
    let get: GetTable = unsafe { std::mem::transmute(symbol) };
    get()
}

fn join() -> &'static TimeTable {
    let table = table();
    assert_eq!((table.join)(), 0, "joined");
    table
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `clock_gettime` writes one `timespec`, and `time` is a local of that type.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads a clock of the machine by system call.
fn real_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system call, which is not libc's function, writes one `timespec`, and `time` is a
    // local of that type.
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_clock_gettime => _, in("rdi") i64::from(clock),
            in("rsi") &raw mut time, out("rcx") _, out("r11") _, options(nostack));
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn micros() -> u64 {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    // SAFETY: `gettimeofday` writes one `timeval`, and `time` is a local of that type; the zone may
    // be null.
    unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}

#[inline(never)]
fn rdtsc() -> u64 {
    // As in perftest's `get_cycles`.
    let (low, high): (u64, u64);
    // SAFETY: `rdtsc` accesses no memory, and the operands name all registers that the code
    // changes.
    unsafe {
        asm!("rdtsc", "shl rdx, 32", "mov rcx, rdx", out("rax") low, out("rcx") high,
            out("rdx") _, options(nostack));
    }
    low | high
}

#[inline(never)]
fn rdtscp() -> (u64, u32) {
    let (low, high, processor): (u64, u64, u64);
    // SAFETY: `rdtscp` accesses no memory, and the operands name all registers that the code
    // changes.
    unsafe {
        asm!("rdtscp", "shl rdx, 32", out("rax") low, out("rdx") high, out("rcx") processor,
            options(nostack));
    }
    (low | high, processor as u32)
}

fn traps() -> u32 {
    // SAFETY: `dlsym` requires a NUL-terminated name, and the literal is one.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"ferroce_time_traps_v1".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: the library defines this versioned symbol as a function of this type, and the address
    // is not null.
    let get: extern "C" fn() -> u32 = unsafe { std::mem::transmute(symbol) };
    get()
}

/// Prints all clocks.
fn clock() {
    let table = join();
    (table.spend_ps)(5_000_000_000_000 + 123_456_789);
    say("now_ps", (table.now_ps)());
    say("realtime_ns", now_ns(libc::CLOCK_REALTIME));
    say("coarse_ns", now_ns(libc::CLOCK_REALTIME_COARSE));
    say("monotonic_ns", now_ns(libc::CLOCK_MONOTONIC));
    say("boottime_ns", now_ns(libc::CLOCK_BOOTTIME));
    say("gettimeofday_us", micros());
    // SAFETY: `time` writes nothing, because the pointer is null.
    say("time_s", unsafe { libc::time(std::ptr::null_mut()) });
    let instant = std::time::SystemTime::UNIX_EPOCH;
    say("std_ns", instant.elapsed().expect("later").as_nanos());
    // The functions of the vDSO, as a program without the C library calls them.
    say("vdso_ns", vdso_realtime_ns());
    let busy = now_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    say("cpu_is_real", u8::from(busy > 0 && busy < 60_000_000_000));
    (table.wait)(&Wait::At {
        time_ps: 7_000_000_000_000,
    });
    say("later_ps", (table.now_ps)());
}

/// The C library's own function calls the vDSO.
fn vdso_realtime_ns() -> u64 {
    // SAFETY: `dlopen` and `dlsym` require NUL-terminated names, and the literals are such. The C
    // library is already loaded; its function comes after the preloaded one.
    let function = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        libc::dlsym(library, c"clock_gettime".as_ptr())
    };
    assert!(!function.is_null());
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the C library's function has this type; it writes one `timespec`, and `time` is a
    // local of that type.
    unsafe {
        let function: extern "C" fn(c_int, *mut libc::timespec) -> c_int =
            std::mem::transmute(function);
        function(libc::CLOCK_REALTIME, &raw mut time);
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn tsc() {
    let table = join();
    for round in 0..5_u64 {
        (table.spend_ps)(1_000_000_000);
        let counter = rdtsc();
        let (other, processor) = rdtscp();
        assert_eq!(counter, (table.now_ps)() / 1000, "round {round}");
        assert_eq!((other, processor), (counter, 0), "round {round}");
    }
    say("traps", traps());
}

/// Checks the rules for many consecutive reads.
fn mhz() {
    join();
    say("reads", {
        let first = now_ns(libc::CLOCK_MONOTONIC);
        (0..100)
            .take_while(|_| now_ns(libc::CLOCK_MONOTONIC) == first)
            .count()
    });
    // As in perftest: 200 samples of cycles against microseconds.
    let (mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0);
    let count = 200;
    for sample in 0..count {
        let start = rdtsc();
        let begun = micros();
        let elapsed = loop {
            let elapsed = micros() - begun;
            if elapsed >= 100 + sample * 10 {
                break elapsed;
            }
        };
        let cycles = (rdtsc() - start) as f64;
        let x = elapsed as f64;
        sx += x;
        sy += cycles;
        sxx += x * x;
        sxy += x * cycles;
    }
    let count = count as f64;
    say("mhz", (count * sxy - sx * sy) / (count * sxx - sx * sx));
    let text = std::fs::read_to_string("/proc/cpuinfo").expect("text");
    say("processors", text.matches("processor\t").count());
    let line = text.lines().find(|line| line.starts_with("cpu MHz"));
    say(
        "stated",
        line.and_then(|line| line.split(':').nth(1))
            .expect("stated"),
    );
    // SAFETY: the names are C strings; the stream is open until it is closed, and the buffer has
    // the length that `fgets` gets.
    unsafe {
        let file = libc::fopen(c"/proc/cpuinfo".as_ptr(), c"r".as_ptr());
        assert!(!file.is_null());
        let mut buffer = [0; 256];
        let mut lines = 0;
        while !libc::fgets(buffer.as_mut_ptr(), buffer.len() as c_int, file).is_null() {
            let line = CStr::from_ptr(buffer.as_ptr()).to_string_lossy();
            lines += u32::from(line.starts_with("cpu MHz") && line.contains(": 1000.000"));
        }
        say("fopen", lines);
    }
}

/// Reads of each row of [`costs`].
pub const READS: u32 = 10_000;

/// Prints the simulated time that reads cost.
fn costs() {
    let table = join();
    let measure = |way: &str, read: &dyn Fn()| {
        // Rewrites the site: from here on it does not trap.
        read();
        let before_ps = (table.now_ps)();
        let mut spent_ps = 0;
        for number in 0..READS {
            if number % 8 == 0 {
                (table.spend_ps)(1000);
                spent_ps += 1000;
            }
            read();
        }
        let passed_ps = (table.now_ps)() - before_ps;
        say(&format!("{way}_apart_ps"), passed_ps - spent_ps);
        let before_ps = (table.now_ps)();
        for _ in 0..READS {
            read();
        }
        let passed_ps = (table.now_ps)() - before_ps;
        say(&format!("{way}_in_a_row_ps"), passed_ps);
    };
    measure("rdtsc", &|| {
        std::hint::black_box(rdtsc());
    });
    measure("clock_gettime", &|| {
        std::hint::black_box(now_ns(libc::CLOCK_MONOTONIC));
    });
    measure("gettimeofday", &|| {
        std::hint::black_box(micros());
    });
    measure("vdso", &|| {
        std::hint::black_box(vdso_realtime_ns());
    });
    say("traps", traps());
}

/// Other programs have real time, and do not crash at the counter.
fn exec() {
    let table = join();
    (table.spend_ps)(1_000_000_000);
    let year = |output: std::io::Result<std::process::Output>| -> String {
        let output = output.expect("started");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", "date +%s"]);
    shell.env_remove(VARIABLE);
    let says: u64 = year(shell.output()).parse().expect("seconds");
    let real = real_ns(libc::CLOCK_REALTIME) / 1_000_000_000;
    say("spawned_is_real", u8::from(real.abs_diff(says) < 30));
    // SAFETY: C strings, and a pipe that is closed.
    unsafe {
        let pipe = libc::popen(c"date +%s".as_ptr(), c"r".as_ptr());
        assert!(!pipe.is_null());
        let mut buffer = [0; 64];
        assert!(!libc::fgets(buffer.as_mut_ptr(), 64, pipe).is_null());
        assert_eq!(libc::pclose(pipe), 0);
        let says = CStr::from_ptr(buffer.as_ptr())
            .to_string_lossy()
            .trim()
            .parse();
        let says: u64 = says.expect("seconds");
        say("piped_is_real", u8::from(real.abs_diff(says) < 30));
        say("system", libc::system(c"exit 3".as_ptr()) >> 8);
    }
    // An attempt that fails leaves everything as it was.
    let failed = std::os::unix::process::CommandExt::exec(&mut Command::new("/nowhere/at/all"));
    assert_eq!(failed.kind(), std::io::ErrorKind::NotFound);
    say("still_simulated", rdtsc());
    let traps_before = traps();
    say("still_armed", {
        rdtscp();
        traps() - traps_before
    });
    // SAFETY: the path and the arguments are C strings, and a null ends the arguments. `fflush`
    // accepts null.
    unsafe {
        let name = c"/bin/echo".as_ptr();
        let line = c"executed 1".as_ptr();
        libc::fflush(std::ptr::null_mut());
        std::io::stdout().flush().expect("a pipe");
        libc::execl(name, name, line, std::ptr::null::<libc::c_char>());
    }
}

fn fork() {
    let table = join();
    (table.spend_ps)(1_000_000_000);
    // The site is rewritten before the fork.
    rdtsc();
    // SAFETY: the child calls only async-signal-safe functions, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let real = real_ns(libc::CLOCK_REALTIME);
        let is_real = real.abs_diff(now_ns(libc::CLOCK_REALTIME)) < 5_000_000_000
            && real.abs_diff(vdso_realtime_ns()) < 5_000_000_000;
        let before = rdtsc();
        // A program that sleeps: the child's clock is the machine's.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let has_passed = rdtsc() - before > 1_000_000;
        // SAFETY: `_exit` takes no pointers and runs no exit handlers, which the child of a fork
        // must not run.
        unsafe { libc::_exit(c_int::from(is_real) + 2 * c_int::from(has_passed)) };
    }
    let mut status = 0;
    // SAFETY: `waitpid` writes one `int`, and `status` is a local of that type.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    say("child", libc::WEXITSTATUS(status));
    say("parent", rdtsc());
}

static FAULTS: AtomicU32 = AtomicU32::new(0);
static mut JUMP: [u64; 64] = [0; 64];

unsafe extern "C" {
    fn __sigsetjmp(buffer: *mut c_void, save_mask: c_int) -> c_int;
    fn siglongjmp(buffer: *mut c_void, value: c_int) -> !;
}

/// Faults that are the program's own.
fn fault() {
    extern "C" fn handler(_: c_int) {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        // The counter can be read in a handler, too.
        say("in_handler", rdtsc());
        // SAFETY: `JUMP` was filled by `sigsetjmp` below, whose frame is still live.
        unsafe { siglongjmp((&raw mut JUMP).cast(), 1) };
    }
    let table = join();
    (table.spend_ps)(1_000_000_000);
    // SAFETY: a handler that jumps back here, over nothing that has to be dropped.
    unsafe {
        let earlier = libc::signal(libc::SIGSEGV, handler as *const () as usize);
        say("earlier_is_default", u8::from(earlier == libc::SIG_DFL));
        if __sigsetjmp((&raw mut JUMP).cast(), 1) == 0 {
            let nowhere = std::ptr::without_provenance_mut::<u32>(8);
            nowhere.write_volatile(1);
        }
        say("faults", FAULTS.load(Ordering::Relaxed));
        // The same when the program has blocked all signals.
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
    say("masked", rdtscp().0);
}

/// A fault without a handler ends the program.
fn crash() {
    join();
    rdtsc();
    // SAFETY: none: the write is meant to fault.
    unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) };
}

/// Waits for an event that never comes.
fn blocked() {
    let table = join();
    say("waits", 1);
    std::io::stdout().flush().expect("a pipe");
    (table.wait)(&Wait::OnWrite {
        grid_ps: 1000,
        check: Check::Everything,
    });
    // From here on all calls return at once, and the clock goes on.
    let before = now_ns(libc::CLOCK_MONOTONIC);
    while now_ns(libc::CLOCK_MONOTONIC) < before + 1_000_000 {}
    (table.wait)(&Wait::OnInterrupt { wake_up_ps: 0 });
    (table.store)(StoreKind::Doorbell, 0, [1].as_ptr(), 1);
    say("goes_on", 1);
    say("again", (table.join)());
}

/// Reads the time until the world ends.
fn reading() {
    let table = join();
    say("waits", 1);
    std::io::stdout().flush().expect("a pipe");
    let before = real_ns(libc::CLOCK_MONOTONIC);
    while real_ns(libc::CLOCK_MONOTONIC) < before + 500_000_000 {
        rdtsc();
    }
    say("goes_on", 1);
    assert_ne!((table.now_ps)(), NEVER_PS);
}

/// A call reports the end of the world, and only then the program begins to poll memory.
fn lost() {
    let table = join();
    say("waits", 1);
    std::io::stdout().flush().expect("a pipe");
    (table.wait)(&Wait::OnWrite {
        grid_ps: 1000,
        check: Check::Everything,
    });
    say("goes_on", 1);
    std::io::stdout().flush().expect("a pipe");
    let nothing = AtomicU32::new(0);
    // SAFETY: the code only reads the local `nothing`, which outlives it; the operands name all
    // registers that it changes.
    unsafe {
        asm!("2:", "mov {value:e}, dword ptr [{place}]", "test {value:e}, {value:e}", "je 2b",
            place = in(reg) nothing.as_ptr(), value = out(reg) _, options(nostack));
    }
}

/// Two threads, one page each.
fn threads() {
    let table = join();
    (table.spend_ps)(1_000_000_000);
    let other = std::thread::spawn(|| {
        let table = super::guest::table();
        let first = (table.now_ps)();
        (table.wait)(&Wait::At {
            time_ps: 9_000_000_000,
        });
        (first, rdtsc())
    });
    (table.wait)(&Wait::At {
        time_ps: 5_000_000_000,
    });
    say("own", rdtsc());
    (table.wait)(&Wait::At {
        time_ps: 12_000_000_000,
    });
    let (first, then) = other.join().expect("no panic");
    say("first", first);
    say("then", then);
    // Threads that the verbs library starts are real.
    (table.outside)(true);
    let real = std::thread::spawn(|| (now_ns(libc::CLOCK_REALTIME), real_ns(libc::CLOCK_REALTIME)));
    let (says, is) = real.join().expect("no panic");
    (table.outside)(false);
    say(
        "outside_is_real",
        u8::from(is.abs_diff(says) < 5_000_000_000),
    );
    say("after", rdtsc());
}

/// The processor's state is preserved by a read of the counter, on all paths.
fn state() {
    let table = join();
    for round in 0..60_u64 {
        if round % 20 == 0 {
            (table.spend_ps)(1000);
        }
        let (mut bad, mut flags): (u64, u64);
        // SAFETY: the code changes only the registers that it names; the red zone below the stack
        // pointer is available without `nostack`.
        unsafe {
            asm!(
                "sub rsp, 256",
                "mov qword ptr [rsp - 8], 77",
                "mov qword ptr [rsp - 128], 78",
                "mov r8, 8", "mov r9, 9", "mov r10, 10", "mov r11, 11", "mov r12, 12",
                "mov rsi, 6", "mov rdi, 7", "mov rcx, 5",
                "movq xmm0, r8", "movq xmm15, r9",
                // Sets overflow, sign and parity.
                "mov al, 127", "add al, 1",
                "rdtsc",
                "mov rax, rax",
                "mov rdx, rdx",
                "pushfq",
                "pop rdx",
                "xor eax, eax",
                "cmp r8, 8", "setne al",
                "cmp r9, 9", "setne ah", "or al, ah",
                "cmp r10, 10", "setne ah", "or al, ah",
                "cmp r11, 11", "setne ah", "or al, ah",
                "cmp r12, 12", "setne ah", "or al, ah",
                "cmp rsi, 6", "setne ah", "or al, ah",
                "cmp rdi, 7", "setne ah", "or al, ah",
                "cmp rcx, 5", "setne ah", "or al, ah",
                "movq rcx, xmm0", "cmp rcx, 8", "setne ah", "or al, ah",
                "movq rcx, xmm15", "cmp rcx, 9", "setne ah", "or al, ah",
                // The push above has used the first eight bytes.
                "cmp qword ptr [rsp - 128], 78", "setne ah", "or al, ah",
                "movzx eax, al",
                "add rsp, 256",
                out("rax") bad, out("rdx") flags, out("rcx") _, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _, out("r12") _, out("rsi") _, out("rdi") _,
                out("xmm0") _, out("xmm15") _,
            );
        }
        // Overflow and sign; no carry, no zero.
        let expected = 0x880;
        assert_eq!((bad, flags & 0x8c1), (0, expected), "round {round}");
    }
    say("traps", traps());
}

/// Runs without a world.
fn without_world() {
    let table = table();
    say("join", (table.join)());
    let real = real_ns(libc::CLOCK_REALTIME);
    let says = now_ns(libc::CLOCK_REALTIME);
    say("is_real", u8::from(real.abs_diff(says) < 5_000_000_000));
    assert!(rdtsc() != rdtsc());
    (table.catch_up)();
    (table.flush)();
    (table.spend_ps)(1);
    say("now_ps", (table.now_ps)());
    say("program", u8::from((table.program)().is_some()));
}

/// The world refuses the program.
fn refused() {
    let table = table();
    say("join", (table.join)());
    say("again", (table.join)());
    let real = real_ns(libc::CLOCK_REALTIME);
    let says = now_ns(libc::CLOCK_REALTIME);
    say("is_real", u8::from(real.abs_diff(says) < 5_000_000_000));
}

/// Makes stores near and far ahead of the card, and more than the list holds.
fn stores() {
    let table = join();
    let store = |slot: u32, words: &[u64]| {
        (table.store)(StoreKind::Doorbell, slot, words.as_ptr(), words.len());
    };
    store(1, &[11]);
    (table.spend_ps)(MOST_AHEAD_PS);
    store(2, &[22]);
    (table.spend_ps)(1);
    store(3, &[33]);
    (table.flush)();
    for slot in 0..200 {
        store(100 + slot, &[u64::from(slot)]);
    }
    (table.flush)();
    // Nothing new can be visible, so the thread keeps its turn.
    (table.flush)();
    (table.catch_up)();
    say("now_ps", (table.now_ps)());
}

/// Reads the time for a simulated second.
fn checks() {
    join();
    let before = micros();
    while micros() < before + 1_000_000 {}
    say("done", 1);
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);
static BACKWARDS: AtomicU32 = AtomicU32::new(0);

/// Signals at any moment, with handlers that read the time.
fn storm() {
    extern "C" fn handler(_: c_int) {
        let before = rdtsc();
        now_ns(libc::CLOCK_MONOTONIC);
        let after = rdtscp().0;
        BACKWARDS.fetch_add(u32::from(after < before), Ordering::Relaxed);
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
    let table = join();
    // SAFETY: a handler that does what handlers may; the child ends by `_exit`.
    let child = unsafe {
        libc::signal(libc::SIGUSR1, handler as *const () as usize);
        let parent = libc::getpid();
        let child = libc::fork();
        if child == 0 {
            for _ in 0..2000 {
                libc::kill(parent, libc::SIGUSR1);
                libc::syscall(libc::SYS_nanosleep, &[0_u64, 50_000], 0);
            }
            libc::_exit(0);
        }
        child
    };
    let mut last = 0;
    let mut rounds = 0;
    let has_ended = || {
        // SAFETY: `waitpid` writes nothing, because the pointer is null.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) != 0 }
    };
    while rounds % 64 != 0 || !has_ended() {
        rounds += 1;
        let time_ps = (table.now_ps)() + 1_000_000;
        (table.wait)(&Wait::At { time_ps });
        for _ in 0..20 {
            let now = rdtsc();
            BACKWARDS.fetch_add(u32::from(now < last), Ordering::Relaxed);
            last = now;
        }
    }
    say("signals", SIGNALS.load(Ordering::Relaxed));
    say("backwards", BACKWARDS.load(Ordering::Relaxed));
    say("traps", traps());
}

/// A program whose signal handlers have a small separate stack, as in Rust and Go.
fn small_stack() {
    extern "C" fn handler(_: c_int) {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `_exit` takes no pointers, and may be called in a signal handler.
        unsafe { libc::_exit(9) };
    }
    const BYTES: usize = 1 << 16;
    const PATTERN: u8 = 0x5a;
    let mut stack = vec![PATTERN; BYTES];
    // SAFETY: the stack stays until the program ends; the handler does what handlers may.
    unsafe {
        let mut description: libc::stack_t = std::mem::zeroed();
        description.ss_sp = stack.as_mut_ptr().cast();
        description.ss_size = BYTES;
        assert_eq!(
            libc::sigaltstack(&raw const description, std::ptr::null_mut()),
            0
        );
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(
            libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    let table = join();
    (table.spend_ps)(1_000_000);
    rdtsc();
    // This one traps while the world has to be asked.
    for _ in 0..20 {
        now_ns(libc::CLOCK_MONOTONIC);
    }
    rdtscp();
    assert_eq!(traps(), 2);
    let unused = stack.iter().take_while(|byte| **byte == PATTERN).count();
    say("used", BYTES - unused);
}
