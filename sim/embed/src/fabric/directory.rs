//! The directory in which the processes of one user meet.
//!
//! The best choice is a directory that only the user can create: `$XDG_RUNTIME_DIR/ferroce`.
//! Without it, as in most containers, the fallback is `/dev/shm/ferroce-UID`, a name that any user
//! can create. Programs without the variable also check the directory where pam_systemd puts it, so
//! that they meet the programs that have it. If programs of the user already run, a new program
//! uses their directory, so that a login or logout in between does not separate them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ferroce_platform::os;
use parking_lot::Mutex;

use super::registry::FILE_NAME;
use crate::error::Error;

/// Only the user has access: the directory holds frames of the user's programs.
const MODE: u32 = 0o700;
/// Access of other users that is refused on our own directory.
const ANY_ACCESS: u32 = 0o077;
/// Access by other users that is refused on a directory that the user named; its files have mode
/// 0600.
const WRITE_ACCESS: u32 = 0o022;
/// Minimum size of a file system that holds the rings of a few programs: the size of `/dev/shm` in
/// a Docker container.
const LEAST_BYTES: u64 = 64 << 20;
/// `f_type` of tmpfs (statfs(2)). On other file systems the rings would be written to a disk.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Returns the rendezvous directory of this user, created if it does not exist.
///
/// It is `FERROCE_DIR` if set. Otherwise it is the first of these directories in which programs
/// run, or the first usable one if none do: `ferroce` in `$XDG_RUNTIME_DIR` (default
/// `/run/user/UID`), if the user owns it and it is a tmpfs of at least 64 MiB;
/// `/dev/shm/ferroce-UID`; a directory in `$TMPDIR` or `/tmp`. A process keeps its first choice.
///
/// # Errors
/// [`Error::Directory`] if it cannot be created, is a symbolic link, belongs to another user, or is
/// open to others.
pub fn runtime_directory() -> Result<PathBuf, Error> {
    static CHOSEN: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = variable("FERROCE_DIR") {
        return prepared_before(path, WRITE_ACCESS);
    }
    if let Some(chosen) = CHOSEN.get() {
        return prepared_before(chosen.clone(), ANY_ACCESS);
    }
    let chosen = choose(&candidates())?;
    Ok(CHOSEN.get_or_init(|| chosen).clone())
}

/// Subdirectory of the sockets of this user's servers and worlds.
const SOCKETS: &str = "sockets";

/// Returns the path of a socket that the user names. A name without a slash is in the user's own
/// directory, where no other user can take it; `./NAME` is in the working directory.
///
/// # Errors
/// As [`runtime_directory`], for a name without a slash.
pub fn socket_path(name: &Path) -> Result<PathBuf, Error> {
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let folder = runtime_directory()?.join(SOCKETS);
    Ok(prepared(&folder, ANY_ACCESS)?.join(name))
}

/// Returns an environment variable, or `None` if it is empty.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|path| !path.is_empty());
    value.map(PathBuf::from)
}

/// Returns the directories where programs may meet, the best first.
fn candidates() -> Vec<PathBuf> {
    let user = os::user_id();
    let name = format!("ferroce-{user}");
    let own = variable("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{user}").into());
    let shared_memory = Path::new("/dev/shm");
    let mut candidates = Vec::new();
    if is_own(&own) && is_roomy_memory(&own) {
        candidates.push(own.join("ferroce"));
    }
    if shared_memory.is_dir() {
        candidates.push(shared_memory.join(&name));
    }
    let temporary = variable("TMPDIR").filter(|path| path.is_dir());
    candidates.push(temporary.unwrap_or_else(|| "/tmp".into()).join(name));
    candidates
}

/// Returns true if no other user can create a name in the directory.
fn is_own(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == os::user_id() && found.mode() & WRITE_ACCESS == 0
    })
}

/// Returns true for a tmpfs that is large enough. The total size counts, because the free space may
/// change between two programs.
fn is_roomy_memory(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|system| {
        let bytes = system.f_blocks.saturating_mul(system.f_bsize as u64);
        system.f_type as u64 == TMPFS_MAGIC && (bytes == 0 || bytes >= LEAST_BYTES)
    })
}

fn choose(candidates: &[PathBuf]) -> Result<PathBuf, Error> {
    let inhabited: Vec<_> = candidates.iter().filter(|path| has_life(path)).collect();
    if let [first, others @ ..] = &inhabited[..] {
        for other in others {
            tracing::error!(
                "programs of this user run in {first} and in {other}, where they do not meet: set \
                 FERROCE_DIR to the same directory for all of them",
                first = first.display(),
                other = other.display()
            );
        }
        return prepared(first, ANY_ACCESS);
    }
    let mut refusal = None;
    for path in candidates {
        match prepared(path, ANY_ACCESS) {
            // A read-only file system counts as missing; a directory prepared by another user does
            // not.
            Err(error @ Error::Directory { .. }) if !path.exists() => {
                refusal.get_or_insert(error);
            }
            result => return result,
        }
    }
    Err(refusal.unwrap_or_else(|| Error::Directory {
        path: PathBuf::new(),
        reason: "there is nowhere to make it".to_owned(),
    }))
}

/// Returns true if a program of this user has a place in the registry of the directory. The caller
/// has no place in it yet: closing the file would release its lock.
fn has_life(directory: &Path) -> bool {
    if check(directory, ANY_ACCESS).is_err() {
        return false;
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(directory.join(FILE_NAME));
    file.is_ok_and(|file| os::is_any_byte_locked(&file).unwrap_or(false))
}

/// A directory that this process uses, under the name that the user gave.
struct Used {
    name: PathBuf,
    path: PathBuf,
    user: u32,
}

/// Does the same as [`prepared`]. A process that has dropped its user ID keeps its earlier
/// directory, because it has the files of that directory open.
fn prepared_before(name: PathBuf, forbidden: u32) -> Result<PathBuf, Error> {
    static USED: Mutex<Vec<Used>> = Mutex::new(Vec::new());
    let (found, user) = (prepared(&name, forbidden), os::user_id());
    // In a forked child the lock may stay locked forever.
    let Some(mut used) = USED.try_lock() else {
        return found;
    };
    let before = used.iter().find(|one| one.name == name);
    match (found, before) {
        (Err(_), Some(before)) if before.user != user => Ok(before.path.clone()),
        (Ok(path), None) => {
            used.push(Used {
                name,
                path: path.clone(),
                user,
            });
            Ok(path)
        }
        (found, _) => found,
    }
}

fn prepared(path: &Path, forbidden: u32) -> Result<PathBuf, Error> {
    match DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refusal(path, error.to_string())),
    }
    check(path, forbidden)?;
    path.canonicalize()
        .map_err(|error| refusal(path, error.to_string()))
}

/// Checks that a directory is safe to use.
fn check(path: &Path, forbidden: u32) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(|error| refusal(path, error.to_string()))?;
    if !metadata.is_dir() {
        return Err(refusal(path, format!("is not a directory; {WAY_OUT}")));
    }
    let (owner, user) = (metadata.uid(), os::user_id());
    if owner != user {
        let reason = format!("belongs to user {owner}, not to you ({user}); {WAY_OUT}");
        return Err(refusal(path, reason));
    }
    if metadata.mode() & forbidden != 0 {
        let mode = metadata.mode() & 0o777;
        let reason = format!("is open to other users (mode {mode:o}); chmod 700 it");
        return Err(refusal(path, reason));
    }
    Ok(())
}

/// Advice if another user has taken the name.
const WAY_OUT: &str = "set FERROCE_DIR to a directory of your own (mode 700), the same for all programs \
                       that are to meet";

fn refusal(path: &Path, reason: String) -> Error {
    Error::Directory {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use ferroce_test_support::temporary_directory;
    use ferroce_wire::Mac;

    use super::*;
    use crate::fabric::registry::{Identity, Registry};

    fn reason(refused: Result<PathBuf, Error>) -> String {
        refused.expect_err("not safe").to_string()
    }

    #[test]
    fn makes_it_once_and_refuses_an_open_one() {
        let parent = temporary_directory("directory");
        let path = parent.path().join("meet");
        prepared(&path, ANY_ACCESS).expect("made");
        prepared(&path, ANY_ACCESS).expect("found");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        assert!(reason(prepared(&path, ANY_ACCESS)).contains("mode 755"));
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("new");
        assert!(reason(prepared(&link, ANY_ACCESS)).contains("not a directory"));
    }

    /// Goal: a user who takes the name in /dev/shm cannot block another user without a remedy.
    #[test]
    fn a_name_that_another_user_has_taken_is_refused_with_the_way_out() {
        let parent = temporary_directory("squatted");
        let path = parent.path().join("meet");
        fs::create_dir(&path).expect("new");
        if chown(&path, Some(65534), None).is_err() {
            eprintln!("SKIPPED: only root can create files of another user");
            return;
        }
        let refused = reason(choose(std::slice::from_ref(&path)));
        for words in ["user 65534", "FERROCE_DIR"] {
            assert!(refused.contains(words), "{refused}");
        }
        // A better candidate precedes it.
        let own = parent.path().join("own");
        let chosen = choose(&[own.clone(), path]).expect("ours");
        assert_eq!(chosen, own.canonicalize().expect("there"));
    }

    const INHABITED: &str = "FERROCE_TEST_INHABITED";
    const READY: &str = "FERROCE_TEST_READY";

    /// Not a test: the process that holds a place until it is killed.
    #[test]
    #[ignore = "a process that another test starts"]
    fn inhabitant() {
        let Some((directory, ready)) = variable(INHABITED).zip(variable(READY)) else {
            return;
        };
        let registry = Registry::open(&directory).expect("a registry");
        let identity = Identity {
            host: "here".to_owned(),
            device: 0,
            mac: Mac([2; 6]),
            gids: Vec::new(),
            capture: 0,
        };
        let _place = registry.claim(&identity).expect("a place");
        fs::write(ready, "").expect("ours");
        loop {
            std::thread::park();
        }
    }

    /// Goal: programs that prefer different directories meet. Method: a program runs in the second
    /// choice, so the next program joins it; after it ends, the next program uses the first choice.
    #[test]
    fn a_new_program_joins_running_ones() {
        let parent = temporary_directory("life");
        let places = [parent.path().join("first"), parent.path().join("second")];
        let [first, second] = &places;
        for path in &places {
            prepared(path, ANY_ACCESS).expect("made");
        }
        assert_eq!(choose(&places).expect("ours"), *first);
        // A process does not see its own locks: another process has to hold them.
        let ready = parent.path().join("ready");
        let own = std::env::current_exe().expect("a test binary");
        let mut other = std::process::Command::new(own)
            .args([
                "--ignored",
                "--exact",
                "fabric::directory::tests::inhabitant",
            ])
            .env(INHABITED, second)
            .env(READY, &ready)
            .spawn()
            .expect("a test binary");
        while !ready.exists() {
            assert!(matches!(other.try_wait(), Ok(None)), "it takes a place");
            std::thread::yield_now();
        }
        let chosen = choose(&places).expect("ours");
        other.kill().expect("our child");
        other.wait().expect("our child");
        assert_eq!(chosen, *second);
        assert_eq!(choose(&places).expect("ours"), *first, "it has gone");
    }

    #[test]
    fn a_path_of_a_socket_stays() {
        for path in ["/run/x/nic", "./nic", "a/b"] {
            let path = Path::new(path);
            assert_eq!(socket_path(path).expect("a path"), path);
        }
    }

    #[test]
    fn only_a_directory_of_the_user_is_private() {
        let parent = temporary_directory("own");
        assert!(is_own(parent.path()));
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(!is_own(parent.path()));
        assert!(!is_own(&parent.path().join("nothing")));
        assert!(!is_roomy_memory(Path::new("/proc")));
    }
}
