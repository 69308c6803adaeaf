//! The devices that the environment gives to this process, and their addresses.

use crate::address::DeviceAddress;
use ferroce_platform::host::EnvironmentError;
use ferroce_platform::host::{
    FUNCTIONS_VARIABLE, MAX_DEVICES, devices_from_environment, functions_from_environment, variable,
};

use crate::attached;
use crate::error::Error;
use crate::fabric::directory::socket_path;
use crate::uplink::UplinkSpec;

/// Returns the address of each device: the list in `FERROCE_DEVICE`, or the number of models in
/// this process that `FERROCE_DEVICES` gives.
///
/// # Errors
/// [`Error::Environment`] naming the invalid part.
pub fn from_environment() -> Result<Vec<DeviceAddress>, Error> {
    match variable("FERROCE_DEVICE") {
        Some(text) => parse(&text),
        None => Ok(vec![
            DeviceAddress::InProcess;
            usize::from(devices_from_environment()?)
        ]),
    }
}

/// Returns the address of a device.
///
/// # Errors
/// As [`from_environment`], and [`Error::NoSuchDevice`].
pub fn address_of(device: u8) -> Result<DeviceAddress, Error> {
    let mut devices = from_environment()?;
    let count = devices.len() as u8;
    if device >= count {
        return Err(Error::NoSuchDevice { device, count });
    }
    Ok(devices.swap_remove(usize::from(device)))
}

/// Returns the number of functions of a device. The contexts of a program are spread over them.
///
/// # Errors
/// [`Error::Environment`] if a device has several functions but can have only one: a card, a model
/// in another process, the card of a simulated host, or a model with an uplink. Also the errors of
/// [`address_of`].
pub fn functions_of(device: u8) -> Result<u8, Error> {
    let count = functions_from_environment()?;
    if count == 1 {
        return Ok(1);
    }
    let is_ours = attached::identities()?.is_none()
        && address_of(device)? == DeviceAddress::InProcess
        && UplinkSpec::from_environment(device)?.is_none();
    if is_ours {
        Ok(count)
    } else {
        Err(Error::Environment(EnvironmentError {
            name: FUNCTIONS_VARIABLE,
            value: count.to_string(),
            reason: "only a device in the program, on the fabric of this machine, has several"
                .to_owned(),
        }))
    }
}

/// Formats addresses such that [`parse`] reads them in a process with another working directory.
///
/// # Errors
/// This process has no working directory.
pub fn format(devices: &[DeviceAddress]) -> Result<String, String> {
    let absolute = |device: &DeviceAddress| match device {
        DeviceAddress::VfioUser(path) => std::path::absolute(path)
            .map(|path| DeviceAddress::VfioUser(path).to_string())
            .map_err(|error| format!("{}: {error}", path.display())),
        other => Ok(other.to_string()),
    };
    let texts: Result<Vec<String>, String> = devices.iter().map(absolute).collect();
    Ok(texts?.join(","))
}

/// Parses addresses of devices, separated by commas.
///
/// # Errors
/// [`Error::Environment`] naming the invalid one.
pub fn parse(text: &str) -> Result<Vec<DeviceAddress>, Error> {
    let refused = |reason| {
        Error::Environment(EnvironmentError {
            name: "FERROCE_DEVICE",
            value: text.to_owned(),
            reason,
        })
    };
    let devices = text
        .split(',')
        .map(|part| part.trim().parse::<DeviceAddress>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(error.to_string()))?;
    let devices: Vec<_> = devices
        .into_iter()
        .map(with_path)
        .collect::<Result<_, _>>()?;
    if devices.len() > usize::from(MAX_DEVICES) {
        return Err(refused(format!("a process has 1 to {MAX_DEVICES} devices")));
    }
    Ok(devices)
}

/// Returns the device with the path of its socket where only a name was given: [`socket_path`].
///
/// # Errors
/// As [`socket_path`].
pub fn with_path(device: DeviceAddress) -> Result<DeviceAddress, Error> {
    match device {
        DeviceAddress::VfioUser(name) => socket_path(&name).map(DeviceAddress::VfioUser),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_listed_in_order() {
        let devices = parse("vfio-user:/run/a.sock, vfio:0000:01:00.0,in-process").expect("three");
        let printed: Vec<String> = devices.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed,
            ["vfio-user:/run/a.sock", "vfio:0000:01:00.0", "in-process"]
        );
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let many = ["in-process"; 9].join(",");
        for bad in ["", "vfio", "in-process,", "pci:1", &many] {
            let message = parse(bad).expect_err(bad).to_string();
            assert!(message.contains("FERROCE_DEVICE"), "{message}");
        }
    }
}
