//! The option `--device`, and the device that it names.

use std::sync::Arc;

use clap::Args;
use ferroce_driver::bus::Bus;
use ferroce_embed::address::DeviceAddress;
use ferroce_embed::devices;
use ferroce_embed::function::{Function, Options, open_bus};
use ferroce_record::Recorder;

use super::record::RecordArgument;

/// The selected device.
#[derive(Debug, Args)]
pub struct DeviceArgument {
    /// The device: in-process, vfio-user:SOCKET or vfio:BDF; the default is the first of
    /// FERROCE_DEVICE, or a model in this process
    #[arg(long, value_name = "ADDRESS", global = true)]
    device: Option<String>,
}

/// An opened device that the driver has not brought up.
pub struct OpenedDevice {
    name: String,
    bus: Arc<dyn Bus>,
    recorder: Option<Recorder>,
    /// The model and its thread, if the device is in this process.
    _function: Option<Arc<Function>>,
}

impl DeviceArgument {
    /// Opens the device, and records it if requested.
    pub fn open(&self, record: &RecordArgument) -> Result<OpenedDevice, String> {
        let address = match &self.device {
            Some(text) => {
                let address = text.parse().map_err(|error| format!("--device: {error}"))?;
                devices::with_path(address).map_err(|error| error.to_string())?
            }
            None => devices::address_of(0).map_err(|error| error.to_string())?,
        };
        let name = name_of(&address);
        let record = record.prepare()?;
        if address == DeviceAddress::InProcess {
            let options = Options::from_environment(0).map_err(|error| error.to_string())?;
            let options = Options { record, ..options };
            let function = Function::open_with(&options).map_err(|error| error.to_string())?;
            return Ok(OpenedDevice {
                name,
                bus: function.bus(),
                recorder: function.in_process().and_then(|card| card.recorder()),
                _function: Some(function),
            });
        }
        let opened = open_bus(&address, record.as_deref());
        let (bus, recorder) = opened.map_err(|error| error.to_string())?;
        Ok(OpenedDevice {
            name,
            bus,
            recorder,
            _function: None,
        })
    }
}

/// Returns the name of a device in output.
fn name_of(address: &DeviceAddress) -> String {
    match address {
        DeviceAddress::InProcess if cfg!(feature = "rtl") => {
            let has_endpoint = std::env::var_os(super::rtl::TLP_VARIABLE).is_some();
            let module = if has_endpoint { "pcie_card" } else { "card" };
            format!("rtl: {module}.sv, Verilated")
        }
        other => other.to_string(),
    }
}

impl OpenedDevice {
    /// Returns its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bus to it.
    pub fn bus(&self) -> Arc<dyn Bus> {
        Arc::clone(&self.bus)
    }

    /// Begins a section of the record.
    pub fn begin_section(&self, name: &str) {
        if let Some(recorder) = &self.recorder {
            recorder.begin_section(name);
        }
    }
}
