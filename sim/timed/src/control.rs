//! Queries for the launcher of programs: whether a world listens at a control socket, and on which
//! processor it runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use ferroce_timed_protocol::VERSION;
use ferroce_timed_protocol::control::{Message, Refusal};
use ferroce_timed_protocol::host_name::HostName;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Time limit for the answer of a world. It may be busy with a program that has the turn.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A version that no world has.
const NO_VERSION: u32 = 0;

/// Returns true if a world listens at `control` and accepts programs.
pub fn is_alive(control: &Path) -> bool {
    let question = Message::Find {
        version: NO_VERSION,
        host: None,
    };
    let answer = asked(control, question);
    matches!(
        answer,
        Ok(Some(Message::Refused {
            reason: Refusal::Version
        }))
    )
}

/// Returns why a program cannot have this host of the world at `control`. `None`: it can, unless
/// another one is faster, or the world does not answer.
pub fn refusal(control: &Path, host: HostName) -> Option<Refusal> {
    let question = Message::Find {
        version: VERSION,
        host: Some(host),
    };
    match asked(control, question) {
        Ok(Some(Message::Refused { reason })) => Some(reason),
        _ => None,
    }
}

/// Binds the calling thread, and the threads that it starts, to the one processor that the whole
/// world at `control` shares: only one thread runs at a time, and passing the turn is faster on one
/// processor than between two.
pub fn share_processor(control: &Path) {
    let mut hasher = DefaultHasher::new();
    control.hash(&mut hasher);
    // If the system forbids this, turns only take longer.
    if let Ok(allowed) = sched_getaffinity(None) {
        let mut all = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
        let place = hasher.finish() as usize % (allowed.count() as usize).max(1);
        if let Some(processor) = all.nth(place) {
            let mut one = CpuSet::new();
            one.set(processor);
            let _ = sched_setaffinity(None, &one);
        }
    }
}

/// Asks the world, and returns its answer. `None`: it hangs up.
fn asked(control: &Path, question: Message) -> Result<Option<Message>, Errno> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    connect(&socket, &SocketAddrUnix::new(control)?)?;
    send(&socket, &question.to_bytes(), SendFlags::NOSIGNAL)?;
    let timeout = Timespec::try_from(TIMEOUT).map_err(|_| Errno::INVAL)?;
    let mut ready = [PollFd::new(&socket, PollFlags::IN)];
    if poll(&mut ready, Some(&timeout))? == 0 {
        return Err(Errno::TIMEDOUT);
    }
    let mut answer = [0; Message::LENGTH];
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    Ok(answer.get(..length).and_then(Message::of_bytes))
}

#[cfg(test)]
mod tests {
    use rustix::net::{accept, bind, listen};

    use super::*;

    #[test]
    fn a_world_is_one_that_answers() {
        let directory = ferroce_test_support::temporary_directory("control");
        let path = directory.path().join("world");
        assert!(!is_alive(&path), "no process listens");
        let family = AddressFamily::UNIX;
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = socket_with(family, kind, flags, None).expect("a socket");
        bind(&socket, &SocketAddrUnix::new(&path).expect("short")).expect("free");
        listen(&socket, 4).expect("bound");
        let world = std::thread::spawn(move || {
            for answers in [true, false] {
                let program = accept(&socket).expect("a program");
                let mut question = [0; Message::LENGTH];
                recv(&program, &mut question[..], RecvFlags::empty()).expect("a question");
                let reason = Refusal::Version;
                let answer = Message::Refused { reason }.to_bytes();
                if answers {
                    send(&program, &answer, SendFlags::NOSIGNAL).expect("it listens");
                }
            }
        });
        assert!(is_alive(&path));
        assert!(!is_alive(&path), "it hangs up");
        world.join().expect("no panic");
        assert!(!is_alive(&path), "it has ended");
    }
}
