//! `ferroce run`: a program with Ferroce's verbs library in place of the system's.

mod call_site;
mod child;
mod counted;
mod debugging;
mod explain;
mod timed;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use ferroce_embed::capture::Capture;
use ferroce_embed::devices;
use ferroce_embed::dma_buf;
use ferroce_embed::error::Error;
use ferroce_embed::faults::VARIABLE;
use ferroce_embed::function::RECORD_VARIABLE;
use ferroce_embed::personality;
use ferroce_embed::port::patient;
use ferroce_embed::recovery;
use ferroce_embed::runtime_directory;
use ferroce_embed::uplink::{SEPARATOR, UplinkSpec};
use ferroce_embed::{random_keys, relaxed_order};
use ferroce_model::config::RecoveryConfig;
use ferroce_platform::host::{
    self, FUNCTIONS_VARIABLE, parse_addresses, parse_devices, parse_functions,
};
use ferroce_spec::personality::Personality;
use ferroce_timed::STRICT;
use ferroce_timed::host_name::VARIABLE as HOST_VARIABLE;

use self::child::AfterEnd;
use self::counted::Counted;
use self::explain::Explanations;

use super::progress::note;
use super::record::RecordArgument;
use super::rtl::Rtl;
use super::{EXIT_FAILURE, library, program, report_error};

/// Variables of the environment.
type Variables = Vec<(&'static str, OsString)>;

/// Run a program on the model.
///
/// The program and the processes that it starts find one RDMA device, ferroce0, or as many as
/// --devices says. All programs of the same user on this machine reach each other over them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce run -- ibv_devinfo -v
  ferroce run -- ib_write_bw & ferroce run -- ib_write_bw 127.0.0.1
  ferroce run --capture rdma.pcapng -- ibv_rc_pingpong -g 1
  ferroce run --record a.rec -- ib_write_bw -n 20    for `ferroce trace diff`
  ferroce run --explain-errors -- PROGRAM   why did my verb fail?
  ferroce run --counters-on-exit counters.json -- PROGRAM    what did its NIC do?
  ferroce run --host a -- PROGRAM         on a separate host, with its own address
  ferroce run --faults loss=1e-3,reorder=8paths -- PROGRAM    a bad network
  ferroce run --devices 2 -- ibv_devices  with ferroce0 and ferroce1
  ferroce run --host a --port udp:192.0.2.1:4792,192.0.2.2:4792 -- PROGRAM   between machines
  ferroce run --device vfio:0000:01:00.0 -- ibv_devinfo   on the card
  ferroce run --personality mlx5 -- PROGRAM   fail as a ConnectX does
  ferroce run --rtl -- ibv_devinfo -v     on the card in SystemVerilog, in the program
  ferroce run --timed cx5-100g -- ib_write_lat &
  ferroce run --timed cx5-100g -- ib_write_lat 127.0.0.1  how fast the card would be
  ferroce run --world lab --host n3 -- PROGRAM    on a host of `ferroce world`

Environment (what the options set; programs may also be given it directly):
  FERROCE_HOST, FERROCE_ADDRESS, FERROCE_DEVICE, FERROCE_DEVICES, FERROCE_CAPTURE,
  FERROCE_DMA_BUF, FERROCE_FAULTS, FERROCE_FUNCTIONS, FERROCE_ICRC, FERROCE_PART_ID,
  FERROCE_PATIENT, FERROCE_PERSONALITY, FERROCE_RANDOM_KEYS, FERROCE_RECORD, FERROCE_RECOVERY,
  FERROCE_RELAXED_ORDER
  FERROCE_PORT   wires of several devices are separated by ;
  FERROCE_NEIGHBOURS  other stations on the wire of a card: IP=MAC, separated by commas
  FERROCE_DIR    where programs meet; if not set $XDG_RUNTIME_DIR/ferroce, or
                 /dev/shm/ferroce-UID where there is no such directory
  FERROCE_LOG    what to print on standard error: error, warn, info, debug, or a filter")]
pub struct Run {
    /// Put the program on another host of the fabric, with its own MAC and IP address. In simulated
    /// time: on this host of the world, n0, n1 and so on, or on one function of its card, n8.3;
    /// without it on the first that is free
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// IP addresses of that host, separated by commas; derived from its name if not given
    #[arg(long, value_name = "IP")]
    address: Option<String>,

    /// Devices that the program sees, 1 to 8. ferroce0 has the host's addresses; each further one
    /// has a separate address: 127.0.0.2 is that of ferroce1, unless the host has a name
    #[arg(long, value_name = "N")]
    devices: Option<String>,

    /// Functions of each device, 1 to 8: contexts that the program opens use the one with the fewest
    /// users. Each function has its own lock; for programs whose threads open the device each
    #[arg(long, value_name = "N", conflicts_with_all = ["device", "port", "timed", "world"])]
    functions: Option<String>,

    /// Use a card, or a model in another process, instead of a model in the program: vfio:BDF,
    /// vfio-user:SOCKET; several, separated by commas, become ferroce0, ferroce1. One process can
    /// use a function at a time
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["devices", "host", "capture", "icrc", "plan"])]
    device: Option<String>,

    /// Where the cable leads: shm, tap:NAME, qemu-dgram:LOCAL,REMOTE, `qemu-stream:[listen:]PATH`,
    /// udp:LOCAL,REMOTE or pcap-replay:FILE
    ///
    /// shm is the fabric of this machine alone. With any other wire, frames for programs of this
    /// machine still use shared memory, and all others use the wire, on which Ferroce answers ARP,
    /// IPv6 neighbour discovery and ping. Only one program can have a wire at a time. Given
    /// several times: the wires of ferroce0, ferroce1, ...
    ///
    ///   tap:NAME       an interface of the kernel, created if permitted
    ///   qemu-dgram:    Unix datagram sockets: QEMU's -netdev dgram, the other way round
    ///   qemu-stream:   a Unix stream socket: QEMU's -netdev stream
    ///   udp:           ADDRESS:PORT of both ends: Ferroce on another machine, with these ends
    ///                  the other way round. It does not authenticate: for separate networks only
    ///   pcap-replay:   receives the frames of a capture to this device; sent frames are lost
    #[arg(
        long,
        value_name = "WIRE",
        verbatim_doc_comment,
        conflicts_with = "device"
    )]
    port: Vec<String>,

    /// Append every frame that it sends or receives to a pcapng file
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,

    /// Compute and check the invariant CRC of each frame; costs time, captures always have it
    #[arg(long, value_name = "on|off")]
    icrc: Option<Switch>,

    /// Give QPNs and keys in an unpredictable order, to find programs that rely on one; a seed
    /// reproduces a run
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true,
          conflicts_with_all = ["timed", "world"])]
    random_keys: Option<Option<u64>>,

    /// Let writes to regions with IBV_ACCESS_RELAXED_ORDERING reach memory in a random order until
    /// a completion, to find programs that look at the last byte; a seed reproduces a run
    #[arg(long, value_name = "SEED", conflicts_with_all = ["timed", "world"])]
    relaxed_order: Option<u64>,

    /// vendor_part_id that the program sees; some programs depend on it
    #[arg(long, value_name = "HEX")]
    part_id: Option<String>,

    /// Which files ibv_reg_dmabuf_mr takes: dma-bufs only, as the kernel (kernel), or memory files
    /// of memfd_create, too (memfd), for tests without a GPU
    #[arg(long, value_name = "FILES", value_parser = dma_buf::Stand::NAMES)]
    dma_buf: Option<String>,

    /// How lost packets are recovered. Both ends have to want more than go-back-n, or they do that.
    /// +adaptive-timer takes the place of the program's ACK timeout
    #[arg(long, value_name = "MODE", value_parser = RecoveryConfig::MODES,
          conflicts_with_all = ["device", "world"])]
    recovery: Option<String>,

    /// Fail as a card does: with the time-outs, vendor_err and counters of a ConnectX with mlx5, or
    /// of Ferroce's own card
    #[arg(long, value_name = "CARD", value_parser = Personality::NAMES,
          conflicts_with_all = ["device", "world", "rtl"])]
    personality: Option<String>,

    /// Stretch the time-outs of acknowledges towards peers that live, or that are beyond a wire:
    /// for a machine that is busier than the program allows for. FERROCE_LOG=info says when it did
    #[arg(long, conflicts_with_all = ["device", "timed", "world", "rtl"])]
    patient: bool,

    /// After the program has ended, print each refused verb, each failed completion and what the
    /// model knows of it, with their counts. The program is a child then
    #[arg(long)]
    explain_errors: bool,

    /// After the program has ended, write the counters of its functions to FILE, as `ferroce
    /// counters --json` does. The program is a child then
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "timed", "world"])]
    counters_on_exit: Option<PathBuf>,

    #[command(flatten)]
    timed: timed::Timed,

    #[command(flatten)]
    record: RecordArgument,

    #[command(flatten)]
    rtl: Rtl,

    /// The program and its arguments
    // No `allow_hyphen_values`: a mistyped option would be taken for a program. Arguments after the
    // program's name are the program's in any case.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Run {
    /// Replaces this process by the program; returns only if that fails.
    pub fn execute(mut self) -> ExitCode {
        if let Some(recovery) = self.recovery.as_deref().and_then(RecoveryConfig::named) {
            self.timed.recover(recovery);
        }
        if let Some(personality) = self.personality.as_deref().and_then(Personality::named) {
            self.timed.fail_as(personality);
        }
        let (name, arguments) = match self.program.split_first() {
            Some(parts) => parts,
            None => return report_error("no program given", EXIT_FAILURE),
        };
        let found = program::find(name).and_then(|path| program::check(&path).map(|()| path));
        let path = match found {
            Ok(path) => path,
            Err(refusal) => return report_error(&refusal.message, refusal.code),
        };
        let after_end = match self.after_end() {
            Ok(after_end) => after_end,
            Err(error) => return report_error(&error, EXIT_FAILURE),
        };
        let (environment, libraries) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(error) => return report_error(&error, EXIT_FAILURE),
        };
        let mut command = Command::new(&path);
        let preload = debugging::preload(&libraries, std::env::var_os("LD_PRELOAD"));
        let folders = library::search_path(&libraries, std::env::var_os("LD_LIBRARY_PATH"));
        command
            .arg0(name)
            .args(arguments)
            .envs(environment)
            .env("LD_PRELOAD", preload)
            .env("LD_LIBRARY_PATH", folders);
        let error = match after_end {
            None => command.exec(),
            Some(after_end) => match after_end.run(&mut command) {
                Ok(code) => return code,
                Err(error) => error,
            },
        };
        report_error(&format!("{}: {error}", path.display()), 126)
    }

    /// Returns the reports to print after the end of the program, if any.
    fn after_end(&self) -> Result<Option<AfterEnd>, String> {
        let counters = self.counters_on_exit.clone().map(Counted::prepare);
        let counters = counters.transpose()?;
        let explanations = self
            .explain_errors
            .then(Explanations::prepare)
            .transpose()?;
        Ok(AfterEnd::new(explanations, counters))
    }

    /// Returns the variables for the program, and the libraries to preload. If the program uses a
    /// simulated world, the world runs afterwards.
    fn prepare(&self) -> Result<(Variables, Vec<PathBuf>), String> {
        let mut environment = self.environment()?;
        environment.extend(debugging::variables());
        runtime_directory().map_err(|error| error.to_string())?;
        environment.extend(self.rtl.variables()?);
        if let Some(path) = self.record.prepare()? {
            environment.push((RECORD_VARIABLE, path.into()));
        }
        let mut libraries = vec![if self.rtl.is_asked() {
            library::card_verbs()?
        } else {
            library::verbs()?
        }];
        if self.timed.is_strict()? {
            environment.push((STRICT, "1".into()));
        }
        if let Some(world) = self.timed.socket(self.wanted_host())? {
            environment.push(("FERROCE_WORLD", world.into()));
            libraries.insert(0, library::time()?);
        }
        Ok((environment, libraries))
    }

    /// Returns the host for the program, and the option that named it.
    fn wanted_host(&self) -> Option<(&'static str, String)> {
        let of_environment = || std::env::var(HOST_VARIABLE).ok();
        match &self.host {
            Some(name) => Some(("--host ", name.clone())),
            None => Some((
                "FERROCE_HOST=",
                of_environment().filter(|name| !name.is_empty())?,
            )),
        }
    }

    /// Returns the variables for the options that select the program's devices.
    fn devices(&self) -> Result<Variables, String> {
        let mut environment = Variables::new();
        if let Some(text) = &self.address {
            parse_addresses(text).map_err(|error| error.of_option("--address"))?;
            environment.push(("FERROCE_ADDRESS", text.into()));
        }
        if let Some(name) = &self.host {
            check_host(name)?;
            if !self.timed.is_asked() {
                host::named(name, None).map_err(|error| error.of_option("--host"))?;
            }
            environment.push((HOST_VARIABLE, name.into()));
        }
        if let Some(text) = &self.devices {
            parse_devices(text).map_err(|error| error.of_option("--devices"))?;
            environment.push(("FERROCE_DEVICES", text.into()));
        }
        if let Some(text) = &self.functions {
            parse_functions(text).map_err(|error| error.of_option("--functions"))?;
            environment.push((FUNCTIONS_VARIABLE, text.into()));
        }
        if let Some(text) = &self.device {
            let devices = devices::parse(text).map_err(|error| match error {
                Error::Environment(error) => error.of_option("--device"),
                error => format!("--device {text}: {error}"),
            })?;
            environment.push(("FERROCE_DEVICE", devices::format(&devices)?.into()));
        }
        if !self.port.is_empty() {
            environment.push(("FERROCE_PORT", wires(&self.port)?.into()));
        }
        Ok(environment)
    }

    /// Returns the variables for the options.
    fn environment(&self) -> Result<Variables, String> {
        let mut environment = self.devices()?;
        if let Some(path) = &self.capture {
            // The program may change its working directory before it opens the device.
            let path = std::path::absolute(path).map_err(|error| error.to_string())?;
            Capture::check(&path).map_err(|error| error.to_string())?;
            environment.push(("FERROCE_CAPTURE", path.into()));
        }
        if let Some(icrc) = self.icrc {
            let value = if matches!(icrc, Switch::On) {
                "on"
            } else {
                "off"
            };
            environment.push(("FERROCE_ICRC", value.into()));
        }
        if let Some(plan) = self.timed.faults_in_real_time() {
            environment.push((VARIABLE, plan.to_string().into()));
        }
        if let Some(seed) = self.relaxed_order {
            environment.push((relaxed_order::VARIABLE, seed.to_string().into()));
        }
        if let Some(seed) = self.random_keys {
            let seed = seed.unwrap_or_else(|| {
                let seed = random_keys::new_seed();
                note(&format!(
                    "ferroce: --random-keys={seed} makes this run again"
                ));
                seed
            });
            environment.push((random_keys::VARIABLE, seed.to_string().into()));
        }
        if let Some(mode) = &self.recovery {
            environment.push((recovery::VARIABLE, mode.into()));
        }
        if let Some(files) = &self.dma_buf {
            environment.push((dma_buf::VARIABLE, files.into()));
        }
        if let Some(personality) = &self.personality {
            environment.push((personality::VARIABLE, personality.into()));
        }
        if self.patient {
            environment.push((patient::VARIABLE, "on".into()));
        }
        if let Some(text) = &self.part_id {
            let digits = text.trim_start_matches("0x");
            if u32::from_str_radix(digits, 16).is_err() {
                return Err(format!(
                    "--part-id {text}: not a hexadecimal number of 32 bits"
                ));
            }
            environment.push(("FERROCE_PART_ID", digits.into()));
        }
        Ok(environment)
    }
}

/// Checks that a host's name is a word: it is part of addresses and file names.
fn check_host(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("--host needs a name".to_owned());
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.chars().all(is_part) && !name.starts_with('.') {
        return Ok(());
    }
    Err(format!(
        "--host {name:?}: a name has letters, digits, - _ and ., and does not begin with a dot"
    ))
}

/// Returns the wires of the devices, with absolute paths: the program may change its working
/// directory before it opens them.
fn wires(texts: &[String]) -> Result<String, String> {
    let wire = |text: &String| {
        let refused = |error: &dyn std::fmt::Display| format!("--port {text}: {error}");
        match UplinkSpec::parse(text).map_err(|error| refused(&error))? {
            Some(spec) => {
                if let Some(caveat) = spec.caveat() {
                    note(&format!("ferroce: --port {text}: {caveat}"));
                }
                let spec = spec.absolute().map_err(|error| refused(&error))?;
                Ok(spec.to_string())
            }
            None => Ok(text.clone()),
        }
    };
    let wires: Result<Vec<_>, String> = texts.iter().map(wire).collect();
    Ok(wires?.join(&SEPARATOR.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn parsed(arguments: &[&str]) -> Run {
        let all = ["ferroce", "run"].iter().chain(arguments);
        match crate::cli::Cli::try_parse_from(all).expect("legal").command {
            crate::cli::Command::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_become_variables() {
        let run = parsed(&[
            "--host",
            "a",
            "--address",
            "10.1.2.3",
            "--devices",
            "2",
            "--icrc",
            "on",
            "--part-id",
            "0x1017",
            "--patient",
            "--dma-buf",
            "memfd",
            "--port",
            "shm",
            "--port",
            "qemu-dgram:/a,/b",
            "p",
            "-a",
        ]);
        let environment = run.environment().expect("legal");
        let expected = [
            ("FERROCE_ADDRESS", "10.1.2.3"),
            ("FERROCE_HOST", "a"),
            ("FERROCE_DEVICES", "2"),
            ("FERROCE_PORT", "shm;qemu-dgram:/a,/b"),
            ("FERROCE_ICRC", "on"),
            ("FERROCE_DMA_BUF", "memfd"),
            ("FERROCE_PATIENT", "on"),
            ("FERROCE_PART_ID", "1017"),
        ];
        assert_eq!(
            environment,
            expected.map(|(name, value)| (name, value.into()))
        );
        assert_eq!(run.program, ["p", "-a"]);
    }

    #[test]
    fn functions_are_those_of_a_device_in_the_program() {
        let run = parsed(&["--functions", "2", "p"]);
        let environment = run.environment().expect("legal");
        assert_eq!(environment, [("FERROCE_FUNCTIONS", "2".into())]);
        for other in ["--device=vfio-user:/s", "--port=shm", "--timed=cx5-100g"] {
            let arguments = ["ferroce", "run", "--functions", "2", other, "p"];
            let refused = crate::cli::Cli::try_parse_from(arguments);
            assert!(refused.is_err(), "{other}");
        }
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            ["--address", "10.1"],
            ["--part-id", "xyz"],
            ["--host", ""],
            ["--devices", "0"],
            ["--devices", "9"],
            ["--functions", "0"],
            ["--functions", "9"],
            ["--port", "eth0"],
            ["--port", "udp:10.0.0.1"],
        ] {
            assert!(
                parsed(&[bad[0], bad[1], "p"]).environment().is_err(),
                "{bad:?}"
            );
        }
    }
}
