//! Files with what happens in a world: a waveform, and a capture.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use ferroce_platform::capture_file::create_private;
use ferroce_world::WorldConfig;
use ferroce_world::trace::Trace;
use ferroce_world::trace::packets::Packets;
use ferroce_world::trace::waveform::Waveform;

/// The files that were asked for.
#[derive(Debug, Clone, Default, Args)]
pub struct TraceFiles {
    /// Write queues, busy blocks, PCIe and caches over time to a file for GTKWave or Surfer (FST)
    #[arg(long, value_name = "FILE")]
    waveform: Option<PathBuf>,

    /// Write all frames to a file for Wireshark, with simulated time stamps (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl TraceFiles {
    /// Returns true if any file was asked for.
    pub fn are_wanted(&self) -> bool {
        self.waveform.is_some() || self.pcap.is_some()
    }

    /// Creates the files, and a trace that writes them.
    ///
    /// # Errors
    /// A file that cannot be created, with its name.
    pub fn create(&self, config: &WorldConfig) -> Result<Trace, String> {
        let named = |path: &Path, error: String| format!("{}: {error}", path.display());
        let waveform = self.waveform.as_deref().map(|path| {
            let file = File::create(path).map_err(|error| named(path, error.to_string()))?;
            Waveform::new(Box::new(file), config).map_err(|error| named(path, error.to_string()))
        });
        let packets = self.pcap.as_deref().map(|path| {
            create_private(path)
                .and_then(|file| Packets::new(Box::new(file), config.hosts))
                .map_err(|error| named(path, error.to_string()))
        });
        Ok(Trace {
            waveform: waveform.transpose()?,
            packets: packets.transpose()?,
            ..Trace::default()
        })
    }
}
