//! Memory of the client that the server accesses by DMA messages.

use zerocopy::IntoBytes;

use crate::error::Errno;
use crate::limit;
use crate::message::{Command, DmaAccess, Message, TYPE_COMMAND, split, whole};
use crate::queue::Queue;
use crate::socket::Socket;

/// Memory of the client that the server accesses by DMA messages.
///
/// Called on a thread of the client. A returned errno is sent as the reply: `ENODEV` for memory
/// that is not mapped. `data` is not empty and its addresses do not wrap around.
pub trait ClientMemory: Send + Sync {
    /// Reads memory for the device.
    fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno>;
    /// Writes memory for the device.
    fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno>;
    /// Reports that the connection has ended, also by the drop of the client. Called once, after
    /// the last request has failed.
    fn disconnected(&self) {}
}

/// Answers the server's commands until there are no more.
pub(super) fn answer_all(memory: &dyn ClientMemory, socket: &Socket, commands: &Queue) {
    // Also when `memory` panics: the server must not wait.
    let _end = End(socket, commands);
    while let Some(command) = commands.pop() {
        let sent = match answer(memory, &command) {
            Ok((access, data)) => socket.reply(&command.header, [access.as_bytes(), &data], &[]),
            Err(errno) => socket.reply_error(&command.header, errno),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Executes a command and returns the reply.
fn answer(memory: &dyn ClientMemory, command: &Message) -> Result<(DmaAccess, Vec<u8>), Errno> {
    if command.header.kind() != TYPE_COMMAND {
        return Err(Errno::INVAL);
    }
    match command.header.command() {
        Command::DMA_READ => {
            let access = whole::<DmaAccess>(&command.body)?;
            let mut data = vec![0; length(&access)?];
            memory.read(access.iova.get(), &mut data)?;
            Ok((access, data))
        }
        Command::DMA_WRITE => {
            let (access, data) = split::<DmaAccess>(&command.body)?;
            if length(&access)? != data.len() {
                return Err(Errno::INVAL);
            }
            memory.write(access.iova.get(), data)?;
            Ok((access, Vec::new()))
        }
        _ => Err(Errno::NOTSUP),
    }
}

/// Returns the length of an access that is not empty, not too long, and does not wrap around.
fn length(access: &DmaAccess) -> Result<usize, Errno> {
    let count = access.count.get();
    if count > limit::DATA_TRANSFER_SIZE_MAX as u64 {
        return Err(Errno::TOOBIG);
    }
    let last = count.checked_sub(1).ok_or(Errno::INVAL)?;
    access.iova.get().checked_add(last).ok_or(Errno::INVAL)?;
    Ok(count as usize)
}

/// Ends a connection on drop.
struct End<'a>(&'a Socket, &'a Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.shut_down();
        self.1.close();
    }
}
