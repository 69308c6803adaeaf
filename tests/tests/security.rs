//! What other users of the machine can and cannot do to programs: SECURITY.md.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::sync::Arc;

use ferroce_embed::function::{Function, Options};
use ferroce_serve::device::ServedDevice;
use ferroce_tests::{Ended, PROCESS_TIMEOUT, Process, Scratch, TIMEOUT, eventually};
use ferroce_vfio_user::{
    Device, DeviceInfo, DmaBacking, DmaMap, DmaMessages, Errno, IrqAction, IrqInfo, RegionInfo,
    Server, Stop,
};

/// Variable with the address of the hostile server, if this process is one.
const HOSTILE_SOCKET: &str = "FERROCE_TEST_HOSTILE_SOCKET";
/// Bytes that the hostile server writes to memory that it was not given.
const WRITTEN: &[u8] = b"overwritten by the server\0";

/// A served function that also reads and writes the file of each mapping beyond the end of the
/// mapping.
#[derive(Debug)]
struct HostileDevice(ServedDevice);

impl HostileDevice {
    /// Accesses memory beyond the end of a mapping of the client's address space.
    fn look_around(map: &DmaMap) {
        let (file, offset) = match &map.backing {
            DmaBacking::Messages => return println!("mapped: no descriptor came"),
            DmaBacking::Mmap { file, offset } | DmaBacking::FileIo { file, offset } => {
                (file, *offset)
            }
        };
        let Ok(file) = file.try_clone().map(File::from) else {
            return;
        };
        let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        println!("mapped: a descriptor of {name:?} came");
        let behind = offset + map.length;
        let mut found = [0; 32];
        if file
            .read_at(&mut found, behind)
            .is_ok_and(|length| length > 0)
        {
            println!("stolen: {:?}", String::from_utf8_lossy(&found));
        }
        let is_memory = name.is_ok_and(|name| name.ends_with("mem"));
        if is_memory && file.write_at(WRITTEN, behind).is_ok() {
            println!("written behind the mapping");
        }
    }
}

impl Device for HostileDevice {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn region(&self, index: u32) -> Option<RegionInfo> {
        self.0.region(index)
    }

    fn irqs(&self, index: u32) -> Option<IrqInfo> {
        self.0.irqs(index)
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        self.0.read(region, offset, data)
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.0.write(region, offset, data)
    }

    fn map(&self, map: DmaMap) -> Result<(), Errno> {
        Self::look_around(&map);
        self.0.map(map)
    }

    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno> {
        self.0.unmap(iova, length)
    }

    fn unmap_all(&self) {
        self.0.unmap_all();
    }

    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno> {
        self.0.set_irqs(index, action)
    }

    fn reset(&self) -> Result<(), Errno> {
        self.0.reset()
    }

    fn connected(&self, dma: Arc<DmaMessages>) {
        println!("a client came");
        self.0.connected(dma);
    }

    fn disconnected(&self) {
        self.0.disconnected();
    }
}

/// Not a test, but the process of the hostile server, which tests start.
#[test]
#[ignore = "a process that other tests start"]
fn hostile_server() {
    let Some(socket) = std::env::var_os(HOSTILE_SOCKET) else {
        return;
    };
    let options = Options {
        is_served: true,
        ..Options::from_environment(0).expect("a fabric")
    };
    let function = Function::open_with(&options).expect("a function");
    let model = function.in_process().expect("a model in here").clone();
    let device = HostileDevice(ServedDevice::new(model, function.host().mac));
    let server = Server::bind(socket.as_ref()).expect("a free socket");
    let stop = Stop::new().expect("an eventfd");
    println!("listening");
    // The test that has started it kills it.
    server.serve(&device, &stop).expect("a listening socket");
}

/// Returns a hostile server of the user of a scratch directory.
fn start_hostile_server(scratch: &Scratch) -> Process {
    let own = std::env::current_exe().expect("a test binary");
    let copy = scratch.path("hostile");
    fs::copy(own, &copy).expect("it can be copied");
    let mut command = scratch.program(&copy);
    command
        .args(["--ignored", "--exact", "hostile_server", "--nocapture"])
        .env(HOSTILE_SOCKET, scratch.path("nic"));
    let mut process = Process::start(command, scratch, "hostile-output", PROCESS_TIMEOUT);
    process.expect_output("listening");
    process
}

/// Returns the output of a process of a scratch directory so far.
fn said(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.path(name)).unwrap_or_default()
}

/// Fails the test unless a program of user 0 was refused at a socket of user 65534.
fn expect_refused(ended: &Ended) {
    assert!(!ended.succeeded(), "{ended:?}");
    for words in ["user 65534", "user 0"] {
        assert!(ended.output.contains(words), "{words}: {}", ended.output);
    }
}

/// Goal: a server of another user that has taken the socket's name gets none of a program's memory.
/// Method: the hostile server runs as an ordinary user, the program as root.
#[test]
fn a_server_of_another_user_gets_nothing() {
    let Some(other) = Scratch::of_ordinary_user() else {
        eprintln!("SKIPPED: only root can start a server as another user");
        return;
    };
    let own = Scratch::new();
    let _server = start_hostile_server(&other);
    let device = format!("vfio-user:{}", other.path("nic").display());
    let program = own.compile("secret");
    let ended = own.finish(own.run(&["--device", &device], &program, &[]));
    let seen = said(&other, "hostile-output");
    println!(
        "--- the program of user 0\n{}--- the server of user 65534\n{seen}",
        ended.output
    );
    for words in ["a client came", "mapped", "stolen", "written"] {
        assert!(!seen.contains(words), "{words}: {seen}");
    }
    expect_refused(&ended);
}

/// Goal: even the user's own server gets no descriptor of unregistered memory. Method: the hostile
/// server runs as the user of the program.
#[test]
fn no_server_gets_the_address_space() {
    let scratch = Scratch::new();
    let _server = start_hostile_server(&scratch);
    let device = format!("vfio-user:{}", scratch.path("nic").display());
    let program = scratch.compile("secret");
    let ended = scratch.finish(scratch.run(&["--device", &device], &program, &[]));
    let seen = said(&scratch, "hostile-output");
    println!("--- the program\n{}--- the server\n{seen}", ended.output);
    for words in ["stolen: \"the secret", "written", "/mem\""] {
        assert!(!seen.contains(words), "{words}: {seen}");
    }
    assert!(seen.contains("no descriptor came"), "{seen}");
    ended.expect_success();
}

/// Goal: a world of another user gets no memory either.
#[test]
fn a_world_of_another_user_gets_nothing() {
    let Some(other) = Scratch::of_ordinary_user() else {
        eprintln!("SKIPPED: only root can start a world as another user");
        return;
    };
    let own = Scratch::new();
    let socket = other.path("world").to_string_lossy().into_owned();
    let world = other.ferroce(&["world", "--socket", &socket, "--preset", "cx5-100g"]);
    let world = Process::start(world, &other, "world-output", PROCESS_TIMEOUT);
    eventually("the world listens", TIMEOUT, || {
        other.path("world").exists() && other.path("world.nic.0").exists()
    });
    let program = own.compile("secret");
    let ended = own.finish(own.run(&["--world", &socket], &program, &[]));
    println!(
        "--- the program of user 0\n{}--- the world of user 65534 (process {})\n{}",
        ended.output,
        world.id(),
        said(&other, "world-output")
    );
    expect_refused(&ended);
}

/// Returns a command with a umask of 0.
fn with_open_mask(scratch: &Scratch, command: &Command) -> Command {
    let mut shell = scratch.program("/bin/sh".as_ref());
    shell.args(["-c", "umask 0; exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

/// Goal: only the user can access frames and sockets, whatever the umask. Method: a umask of 0.
#[test]
fn files_and_sockets_are_private() {
    let scratch = Scratch::new();
    let mode = |name: &str| {
        let file =
            fs::metadata(scratch.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        file.mode() & 0o777
    };
    let path = |name: &str| scratch.path(name).to_string_lossy().into_owned();
    let capture = path("frames.pcapng");
    let perf = path("perf.pcapng");
    let mut perf = scratch.ferroce(&["perf", "write_lat", "--preset", "cx5-100g", "--pcap", &perf]);
    perf.args(["-s", "64", "-n", "5"]);
    let perf = with_open_mask(&scratch, &perf);
    scratch.finish(perf).expect_success();
    assert_eq!(mode("perf.pcapng"), 0o600);

    let sockets = ["nic", "dgram", "stream"].map(path);
    let [nic, dgram, stream] = &sockets;
    let (dgram, stream) = (
        format!("qemu-dgram:{dgram},{}", path("absent")),
        format!("qemu-stream:listen:{stream}"),
    );
    let mut serve = scratch.ferroce(&["serve", "--socket", nic, "--functions", "2"]);
    serve.args(["--port", &dgram, "--port", &stream, "--capture", &capture]);
    let serve = with_open_mask(&scratch, &serve);
    let mut server = Process::start(serve, &scratch, "serve", PROCESS_TIMEOUT);
    server.wait_for_output("both functions are served", |output| {
        (output.matches("ready").count() == 2).then_some(())
    });
    for name in ["nic.0", "nic.1", "dgram", "stream", "frames.pcapng"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

/// Goal: a user who sends frames through a network is warned that no peer is authenticated.
#[test]
fn a_wire_of_datagrams_says_what_it_is_not() {
    let scratch = Scratch::new();
    let wire = "udp:127.0.0.1:4792,127.0.0.1:4793";
    let ended = scratch.finish(scratch.run(&["--port", wire], "true", &[]));
    let said = ended.expect_success();
    assert_eq!(said.matches("does not authenticate").count(), 1, "{said}");
    let help = scratch.finish(scratch.ferroce(&["run", "--help"]));
    assert!(help.expect_success().contains("does not authenticate"));
}

/// Goal: servers and programs meet by a name in the user's own directory. Method: give no paths.
#[test]
fn sockets_have_names_in_the_users_directory() {
    let scratch = Scratch::new();
    let serve = scratch.ferroce(&["serve"]);
    let mut server = Process::start(serve, &scratch, "serve", PROCESS_TIMEOUT);
    server.expect_output("ready");
    let ready = server.output();
    let path = scratch.path("fabric/sockets/nic");
    assert!(ready.contains(&*path.to_string_lossy()), "{ready}");
    let folder = fs::metadata(scratch.path("fabric/sockets")).expect("made");
    assert_eq!(folder.mode() & 0o777, 0o700);
    let program = scratch.run(&["--device", "vfio-user:nic"], "ibv_devices", &[]);
    let listed = scratch.finish(program).expect_success();
    assert!(listed.contains("ferroce0"), "{listed}");
}
