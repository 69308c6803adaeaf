//! `ferroce serve`: NIC functions behind sockets.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::faults::Faults;
use super::record::RecordArgument;
use super::rtl::Rtl;
use clap::Args;
use ferroce_embed::function::{MAX_DEVICES, Options};
use ferroce_embed::uplink::UplinkSpec;
use ferroce_platform::host;
use ferroce_platform::log;
use ferroce_platform::os::service::{Termination, raise_descriptor_limit};
use ferroce_serve::{ServedFunction, Serving, socket_path};
use ferroce_wire::Mac;
use tracing::level_filters::LevelFilter;

/// The only preset that does not need simulated time.
const FUNCTIONAL: &str = "functional";
/// Period of checks that all functions are still served.
const SUPERVISION_PERIOD: Duration = Duration::from_millis(500);

/// Serve the model to other processes: virtual machines, drivers, tests.
///
/// Each function is a PCI device behind a UNIX socket in the vfio-user protocol, for one client at
/// a time; the next one finds it as after power-on. It is on the fabric of this machine like the
/// functions of `ferroce run`. The client's driver sets its IP addresses.
///
/// When all functions can be used, a line for each says so. SIGINT and SIGTERM end the server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce serve
  ferroce run --device vfio-user:nic -- ibv_devinfo -v

  ferroce serve --functions 2                        nic.0 and nic.1
  ready vfio-user:/run/user/1000/ferroce/sockets/nic.0 mac 02:… host … device ferroce0

  ferroce serve --socket /run/vm/nic
  qemu-system-x86_64 … -object memory-backend-memfd,id=m,size=1G,share=on \\
    -machine q35,memory-backend=m -device \\
    '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/run/vm/nic\"}}'
QEMU (10.1 or newer) must share the memory of the guest, as above: without share=on each DMA access
is a message, which is slow, and which QEMU does not answer while a processor of the guest waits for
a register.

Environment: FERROCE_DIR, FERROCE_HOST, FERROCE_ICRC, FERROCE_LOG as for `ferroce run`")]
pub struct Serve {
    /// The socket, a path or a name in the user's own directory; of several functions: PATH.0,
    /// PATH.1, ... Only this user, and root, can connect
    #[arg(long, value_name = "PATH", default_value = "nic")]
    socket: PathBuf,

    /// Functions, 1 to 8, each with its own MAC address
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_DEVICES)))]
    functions: u8,

    /// The host of the fabric on which the functions are; it determines their MAC addresses
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// The card that is modelled: functional, which takes no time, is the only one that can be
    /// served
    #[arg(long, value_name = "PRESET", default_value = FUNCTIONAL)]
    preset: String,

    /// The wire, as for `ferroce run`; given several times: those of the functions, in their order
    #[arg(long, value_name = "WIRE")]
    port: Vec<String>,

    /// Append every frame that they send or receive to a pcapng file
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,

    #[command(flatten)]
    faults: Faults,

    #[command(flatten)]
    record: RecordArgument,

    #[command(flatten)]
    rtl: Rtl,
}

impl Serve {
    /// Serves until a signal ends it.
    pub fn execute(self) -> Result<(), String> {
        self.rtl.become_card()?;
        log::start(LevelFilter::WARN);
        if self.preset != FUNCTIONAL {
            return Err(format!(
                "--preset {}: a served model takes no simulated time, so that only {FUNCTIONAL} \
                 can be served; `ferroce perf` runs the others",
                self.preset
            ));
        }
        let termination = Termination::keep();
        raise_descriptor_limit().map_err(|error| format!("open files: {error}"))?;
        let socket = ferroce_embed::socket_path(&self.socket).map_err(|error| error.to_string())?;
        let record = self.record.prepare()?;
        let functions = (0..self.functions).map(|number| {
            let path = socket_path(&socket, number, self.functions);
            let options = self.options(number)?;
            let record = record.clone().or(options.record);
            Ok((path, Options { record, ..options }))
        });
        let functions = functions.collect::<Result<_, String>>()?;
        let serving = Serving::start(functions).map_err(|error| error.to_string())?;
        announce(serving.functions()).map_err(|error| error.to_string())?;
        while !termination.wait(SUPERVISION_PERIOD) && !serving.has_failed() {}
        serving.end().map_err(|error| error.to_string())
    }

    fn options(&self, number: u8) -> Result<Options, String> {
        let complaint = |error: &dyn std::fmt::Display| error.to_string();
        let mut options = Options::from_environment(number).map_err(|e| complaint(&e))?;
        if let Some(name) = &self.host {
            if name.is_empty() {
                return Err("--host needs a name".to_owned());
            }
            let host = host::named_device(name, number, None);
            options.host = host.map_err(|e| complaint(&e))?;
        }
        if self.port.len() > usize::from(self.functions) {
            return Err(format!(
                "--port is given {} times, for {} functions",
                self.port.len(),
                self.functions
            ));
        }
        if let Some(text) = self.port.get(usize::from(number)) {
            let spec = UplinkSpec::parse(text);
            options.port = spec.map_err(|error| format!("--port {text}: {error}"))?;
        }
        if self.capture.is_some() {
            options.capture.clone_from(&self.capture);
        }
        if let Some(plan) = &self.faults.plan {
            let mut situations = plan.situations();
            if let Some(situation) = situations.find(|s| s.concerns_process()) {
                return Err(format!(
                    "--faults {}: the program is another process: `kill` stops or kills it",
                    situation.name()
                ));
            }
            options.faults.clone_from(&self.faults.plan);
        }
        Ok(options)
    }
}

fn announce(functions: &[ServedFunction]) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for served in functions {
        let host = served.function().host();
        writeln!(
            output,
            "ready vfio-user:{} mac {} host {} device ferroce{}",
            served.path().display(),
            Mac(host.mac),
            host.name,
            host.device
        )?;
    }
    output.flush()
}
