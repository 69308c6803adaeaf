//! Connects to a server and checks that its device follows the contract.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferroce_spec::doorbell::{BAR2_SIZE, DOORBELL_PAGES_SIZE};
use ferroce_spec::register::{
    BAR0_SIZE, BAR4_SIZE, Capability, DEVICE_ID, VECTOR_COUNT, VENDOR_ID, offset,
};
use ferroce_vfio_user::region::{BAR0, BAR2, BAR4, CONFIG, RegionInfo};
use ferroce_vfio_user::{Client, ClientMemory, ClientOptions, RequestError, irq};

use super::link::Link;
use super::memory::{Admission, Proof};
use super::{REQUEST_TIMEOUT, VfioUser, VfioUserError};
use ferroce_linux::doorbell_pages::DoorbellPages;
use ferroce_linux::eventfds::{EventFds, with_signals_blocked};
use ferroce_linux::fork::ForkMark;
use ferroce_linux::memfd;
use ferroce_linux::peer::{Peer, own_user};
use ferroce_linux::shared_mapping::SharedMapping;

/// Configuration space: vendor ID and device ID (PCI Local Bus 3.0, 6.2.1).
const IDENTITY: u64 = 0x00;
/// Configuration space: the command register (6.2.2).
const COMMAND: u64 = 0x04;
/// Its bits: the device answers to accesses of its BARs, and may do DMA.
const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;

impl VfioUser {
    /// Connects to the server at `path`.
    ///
    /// # Errors
    ///
    /// Any [`VfioUserError`].
    pub fn open(path: &Path) -> Result<Self, VfioUserError> {
        Self::open_with(path, REQUEST_TIMEOUT)
    }

    /// Connects to the server at `path`, with the limit `timeout` for the answer to each request.
    ///
    /// # Errors
    ///
    /// Any [`VfioUserError`].
    pub fn open_with(path: &Path, timeout: Duration) -> Result<Self, VfioUserError> {
        let stream = UnixStream::connect(path).map_err(|source| VfioUserError::Connect {
            path: path.to_owned(),
            source,
        })?;
        let server = trusted_server(&stream, path)?;
        let events = EventFds::new(VECTOR_COUNT.into()).map_err(system("eventfds"))?;
        let control = stream.try_clone().map_err(system("a descriptor"))?;
        let link = Arc::new(Link::new(control, events));
        let memory: Arc<dyn ClientMemory> = link.clone();
        let proof = Proof::new();
        let options = ClientOptions {
            timeout,
            process_memory: proof.as_ref().map(Proof::claim),
        };
        let admission = server.process.map(Admission::of);
        // The application's signals must not be delivered to the client's threads.
        let client = with_signals_blocked(|| Client::from_stream(stream, memory, options));
        drop(admission);
        let client = client.map_err(|source| VfioUserError::Agree {
            path: path.to_owned(),
            source,
        })?;
        if !client.server_capabilities().reaches_process_memory {
            tracing::warn!("the server may not open this process's memory: DMA is by messages");
        }
        let function = Function::set_up(&client, link.events()).and_then(|function| {
            if link.open() {
                Ok(function)
            } else {
                Err(VfioUserError::Request {
                    what: "stay",
                    source: RequestError::Disconnected,
                })
            }
        });
        match function {
            Ok(function) => Ok(Self {
                client: Some(client),
                link,
                _proof: proof,
                doorbells: function.doorbells,
                region_sizes: function.region_sizes,
                fork: ForkMark::of_this_process(),
            }),
            Err(error) => {
                link.close();
                Err(error)
            }
        }
    }
}

/// Checks the server's credentials before anything is sent. The name of the socket proves nothing:
/// any process can create it first, and its owner can have moved it.
fn trusted_server(stream: &UnixStream, path: &Path) -> Result<Peer, VfioUserError> {
    let server = Peer::of(stream).map_err(system("to report the server's credentials"))?;
    if server.is_trusted() {
        Ok(server)
    } else {
        Err(VfioUserError::OtherUser {
            path: path.to_owned(),
            server: server.user,
            client: own_user(),
        })
    }
}

/// The function behind the socket.
struct Function {
    doorbells: Option<DoorbellPages>,
    region_sizes: [u64; 3],
}

impl Function {
    /// Checks the function and enables it.
    fn set_up(client: &Client, events: &EventFds) -> Result<Self, VfioUserError> {
        identify(client)?;
        let regions = regions(client)?;
        connect_interrupts(client, events)?;
        enable(client)?;
        let capability = capability(client)?;
        let [_, doorbell_region, _] = &regions;
        Ok(Self {
            doorbells: map_doorbells(doorbell_region, capability),
            region_sizes: regions.map(|region| region.size),
        })
    }
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> VfioUserError {
    move |source| VfioUserError::System { what, source }
}

fn request(what: &'static str) -> impl FnOnce(RequestError) -> VfioUserError {
    move |source| VfioUserError::Request { what, source }
}

fn identify(client: &Client) -> Result<(), VfioUserError> {
    let mut data = [0; 4];
    client
        .read(CONFIG, IDENTITY, &mut data)
        .map_err(request("let its configuration space be read"))?;
    let [vendor, device] = [[data[0], data[1]], [data[2], data[3]]].map(u16::from_le_bytes);
    match (vendor, device) {
        (VENDOR_ID, DEVICE_ID) => Ok(()),
        (u16::MAX, u16::MAX) => Err(VfioUserError::Removed),
        _ => Err(VfioUserError::NotFerroce { vendor, device }),
    }
}

/// Returns BAR0, BAR2 and BAR4.
fn regions(client: &Client) -> Result<[RegionInfo; 3], VfioUserError> {
    let region = |bar, expected: u32| {
        let info = client
            .region_info(bar)
            .map_err(request("describe its BARs"))?;
        if info.size == u64::from(expected) {
            Ok(info)
        } else {
            Err(VfioUserError::RegionSize {
                bar,
                size: info.size,
                expected: expected.into(),
            })
        }
    };
    Ok([
        region(BAR0, BAR0_SIZE)?,
        region(BAR2, BAR2_SIZE)?,
        region(BAR4, BAR4_SIZE)?,
    ])
}

fn connect_interrupts(client: &Client, events: &EventFds) -> Result<(), VfioUserError> {
    let vectors = client
        .irq_info(irq::MSIX)
        .map_err(request("describe its interrupts"))?;
    if vectors.count == 0 {
        return Err(VfioUserError::NoVectors);
    }
    let files: Vec<Option<BorrowedFd>> = events
        .files()
        .take(vectors.count as usize)
        .map(Some)
        .collect();
    client
        .connect_irqs(irq::MSIX, 0, &files)
        .map_err(request("take eventfds for its interrupts"))
}

fn enable(client: &Client) -> Result<(), VfioUserError> {
    let what = "let itself be enabled";
    let mut command = [0; 2];
    client
        .read(CONFIG, COMMAND, &mut command)
        .map_err(request(what))?;
    let command = u16::from_le_bytes(command) | MEMORY_SPACE | BUS_MASTER;
    client
        .write(CONFIG, COMMAND, &command.to_le_bytes())
        .map_err(request(what))
}

fn capability(client: &Client) -> Result<Capability, VfioUserError> {
    let mut data = [0; 8];
    client
        .read(BAR0, offset::capability.into(), &mut data)
        .map_err(request("let its registers be read"))?;
    Ok(Capability::from_bits(u64::from_le_bytes(data)))
}

/// Maps the doorbell pages that the server offers as memory, from the first page on.
fn map_doorbells(region: &RegionInfo, capability: Capability) -> Option<DoorbellPages> {
    let memory = region.mmap.as_ref()?;
    let area = memory.areas.iter().find(|area| area.start == 0)?;
    let length = area.end.min(DOORBELL_PAGES_SIZE.into());
    let file = memory.file.as_fd();
    // If the server truncated the file, an access would end this process with SIGBUS.
    if !memfd::cannot_shrink_below(file, memory.offset.saturating_add(length)) {
        tracing::warn!("the server's doorbell pages are not sealed: doorbells are messages");
        return None;
    }
    match SharedMapping::new(file, memory.offset, length as usize) {
        Ok(mapping) => Some(DoorbellPages::new(mapping, capability.polled_doorbells())),
        Err(error) => {
            tracing::warn!(%error, "cannot map the doorbell pages: doorbells are messages");
            None
        }
    }
}
