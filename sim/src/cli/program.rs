//! Checks that a preloaded library can reach a program, before it runs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferroce_platform::os;

/// Exit code of a missing program, as in shells.
const EXIT_NOT_FOUND: u8 = 127;
/// Exit code of a program that cannot be run, as in shells.
const EXIT_CANNOT_RUN: u8 = 126;
/// Maximum depth of interpreters of interpreters, as in the kernel.
const MAX_INTERPRETERS: usize = 5;
/// Bytes read from the start of a program: ELF header and program headers, or the `#!` line.
const HEAD_BYTES: u64 = 64 * 1024;

const SETUID: u32 = 0o4000;
const SETGID_AND_EXECUTABLE: u32 = 0o2010;

/// Offsets of ELF fields that are used. The checked programs are little-endian.
mod elf {
    pub const MAGIC: &[u8] = b"\x7fELF";
    pub const CLASS: usize = 4;
    pub const CLASS_64: u8 = 2;
    pub const MACHINE: usize = 18;
    pub const PROGRAM_HEADERS: usize = 32;
    pub const PROGRAM_HEADER_SIZE: usize = 54;
    pub const PROGRAM_HEADER_COUNT: usize = 56;
    pub const INTERPRETER: u32 = 3;
    /// The machine for which this command, and so the library, is built.
    #[cfg(target_arch = "x86_64")]
    pub const OUR_MACHINE: u16 = 62;
    #[cfg(target_arch = "aarch64")]
    pub const OUR_MACHINE: u16 = 183;
    #[cfg(target_arch = "riscv64")]
    pub const OUR_MACHINE: u16 = 243;
}

/// The reason why a program cannot be run under Ferroce, and the matching exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the user.
    pub message: String,
    /// For the shell.
    pub code: u8,
}

fn refuse(message: String) -> Refusal {
    Refusal {
        message,
        code: EXIT_CANNOT_RUN,
    }
}

/// Searches for a program as a shell does.
pub fn find(name: &OsStr) -> Result<PathBuf, Refusal> {
    let shown = Path::new(name).display();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Err(error) => Err(Refusal {
                message: format!("{shown}: {error}"),
                code: EXIT_NOT_FOUND,
            }),
            Ok(metadata) if metadata.is_dir() => Err(refuse(format!("{shown} is a directory"))),
            Ok(_) if !os::is_executable(&path) => Err(refuse(format!("{shown} is not executable"))),
            Ok(_) => Ok(path),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file() && os::is_executable(path))
        .ok_or_else(|| Refusal {
            message: format!("{shown}: program not found in PATH"),
            code: EXIT_NOT_FOUND,
        })
}

/// Checks that the library can be preloaded into a program, or into its interpreter.
pub fn check(path: &Path) -> Result<(), Refusal> {
    let mut path = path.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        check_privileges(&path)?;
        let head = head(&path)?;
        match interpreter(&head) {
            Some(next) => path = next?,
            None if head.starts_with(elf::MAGIC) => return check_elf(&path, &head),
            // A shell runs text without `#!`, and shells can be preloaded.
            None => return Ok(()),
        }
    }
    Err(refuse(format!("{}: too many interpreters", path.display())))
}

/// Refuses set-user-ID and similar programs: ld.so ignores LD_PRELOAD if a program gains
/// privileges.
fn check_privileges(path: &Path) -> Result<(), Refusal> {
    let shown = path.display();
    let metadata = path
        .metadata()
        .map_err(|error| refuse(format!("{shown}: {error}")))?;
    let mode = metadata.mode();
    let kind = if mode & SETUID != 0 && metadata.uid() != os::user_id() {
        "a setuid program"
    } else if mode & SETGID_AND_EXECUTABLE == SETGID_AND_EXECUTABLE
        && metadata.gid() != os::group_id()
    {
        "a setgid program"
    } else if os::user_id() != 0 && os::has_file_capabilities(path) {
        "a program with file capabilities"
    } else {
        return Ok(());
    };
    Err(refuse(format!(
        "{shown} is {kind}: the system does not let a library be preloaded into it. \
         Run a copy of it that you own (cp drops the bit)"
    )))
}

fn head(path: &Path) -> Result<Vec<u8>, Refusal> {
    let mut head = Vec::new();
    match File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)) {
        Ok(_) => Ok(head),
        // A program may be executable but not readable; then it is not checked.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(Vec::new()),
        Err(error) => Err(refuse(format!("{}: {error}", path.display()))),
    }
}

/// Returns the program that a `#!` line names; for `env`, the program that env will run.
fn interpreter(head: &[u8]) -> Option<Result<PathBuf, Refusal>> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| OsString::from_vec(word.to_vec()));
    let first = PathBuf::from(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(find(first.as_os_str()));
    }
    let is_name =
        |word: &OsString| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    Some(words.find(is_name).map_or(Ok(first), |name| find(&name)))
}

fn check_elf(path: &Path, head: &[u8]) -> Result<(), Refusal> {
    let shown = path.display();
    let half = |offset: usize| -> Option<u16> {
        Some(u16::from_le_bytes(
            head.get(offset..offset + 2)?.try_into().ok()?,
        ))
    };
    let broken = || refuse(format!("{shown} is a damaged program"));
    let machine = half(elf::MACHINE).ok_or_else(broken)?;
    if head[elf::CLASS] != elf::CLASS_64 || machine != elf::OUR_MACHINE {
        let (theirs, ours) = (machine_name(machine), machine_name(elf::OUR_MACHINE));
        return Err(refuse(format!(
            "{shown} is a program for {theirs}; this Ferroce is built for {ours}"
        )));
    }
    let start = head
        .get(elf::PROGRAM_HEADERS..elf::PROGRAM_HEADERS + 8)
        .ok_or_else(broken)?;
    let start = u64::from_le_bytes(start.try_into().map_err(|_| broken())?) as usize;
    let size = usize::from(half(elf::PROGRAM_HEADER_SIZE).ok_or_else(broken)?);
    let count = usize::from(half(elf::PROGRAM_HEADER_COUNT).ok_or_else(broken)?);
    let has_interpreter = (0..count).any(|index| {
        let offset = start.saturating_add(index * size);
        let kind = offset.checked_add(4).and_then(|end| head.get(offset..end));
        kind.is_some_and(|bytes| bytes == elf::INTERPRETER.to_le_bytes())
    });
    if has_interpreter {
        return Ok(());
    }
    Err(refuse(format!(
        "{shown} is statically linked: it loads no libraries, so none can stand in for its verbs \
         library. Build it against the shared libibverbs"
    )))
}

fn machine_name(machine: u16) -> String {
    match machine {
        3 => "32-bit x86".to_owned(),
        40 => "32-bit ARM".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "64-bit ARM".to_owned(),
        243 => "RISC-V".to_owned(),
        21 => "64-bit POWER".to_owned(),
        22 => "s390".to_owned(),
        other => format!("another machine (ELF number {other})"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let unique = format!("ferroce-cli-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(unique);
            std::fs::create_dir_all(&path).expect("writable");
            Self(path)
        }

        fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, content).expect("writable");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("ours");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Returns an ELF program of 64 bits with one program header.
    fn elf(machine: u16, program_header: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..4].copy_from_slice(elf::MAGIC);
        bytes[elf::CLASS] = elf::CLASS_64;
        bytes[elf::MACHINE..elf::MACHINE + 2].copy_from_slice(&machine.to_le_bytes());
        bytes[elf::PROGRAM_HEADERS] = 64;
        bytes[elf::PROGRAM_HEADER_SIZE] = 56;
        bytes[elf::PROGRAM_HEADER_COUNT] = 1;
        bytes[64..68].copy_from_slice(&program_header.to_le_bytes());
        bytes
    }

    fn message(path: &Path) -> String {
        check(path).expect_err("refused").message
    }

    #[test]
    fn programs_of_this_machine_are_fine_and_scripts_are_followed() {
        let folder = Folder::new("fine");
        check(&find(OsStr::new("sh")).expect("every machine has one")).expect("dynamic");
        let script = folder.file("script", b"#!/bin/sh -e\nexit 0\n", 0o755);
        check(&script).expect("a shell runs it");
        let through_env = folder.file("env", b"#!/usr/bin/env -S A=1 sh\n", 0o755);
        check(&through_env).expect("env runs a shell");
        let fixed = folder.file("static", &elf(elf::OUR_MACHINE, 1), 0o755);
        let line = format!("#! {}\n", fixed.display());
        let script = folder.file("script", line.as_bytes(), 0o755);
        assert!(message(&script).contains("statically linked"));
        let line = format!("#!{}\n", folder.0.join("circle").display());
        let circle = folder.file("circle", line.as_bytes(), 0o755);
        assert!(message(&circle).contains("too many interpreters"));
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_reason() {
        let folder = Folder::new("refused");
        let foreign = folder.file("foreign", &elf(0x1234, elf::INTERPRETER), 0o755);
        assert!(message(&foreign).contains("another machine"));
        let fixed = folder.file("static", &elf(elf::OUR_MACHINE, 1), 0o755);
        assert!(message(&fixed).contains("statically linked"));
        let damaged = folder.file("damaged", elf::MAGIC, 0o755);
        assert!(message(&damaged).contains("damaged"));
        let dynamic = folder.file("dynamic", &elf(elf::OUR_MACHINE, elf::INTERPRETER), 0o755);
        check(&dynamic).expect("dynamic");
        let text = folder.file("text", b"hello", 0o644);
        let refused = find(text.as_os_str()).expect_err("not executable");
        assert_eq!(refused.code, EXIT_CANNOT_RUN);
        let refused = find(OsStr::new("/no/such/program")).expect_err("not there");
        assert_eq!(refused.code, EXIT_NOT_FOUND);
        let refused = find(OsStr::new("no-such-program-anywhere")).expect_err("not there");
        assert_eq!(refused.code, EXIT_NOT_FOUND);
    }
}
