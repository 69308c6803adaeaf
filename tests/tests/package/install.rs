//! The scripts of `make install`, `make uninstall` and `make package`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ferroce_tests::{Ended, Scratch};

use super::files::{BINARIES, copy_build, needed, sections, tree};
use super::{output, packaging, release};

/// A time for the files of packages: 2026-01-01.
const EPOCH: &str = "1767225600";
/// The oldest supported glibc, which RHEL 9 has.
const FLOOR: (u32, u32) = (2, 34);
/// Libraries that programs may need: those of libc6 and libgcc-s1, the package's `Depends`.
const LIBRARIES: [&str; 6] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "linux-vdso.so.1",
];

fn install(scratch: &Scratch, destination: &Path, release: &Path) -> Ended {
    let mut command = packaging("install");
    command
        .arg(release)
        .arg("/opt/ferroce")
        .env("DESTDIR", destination);
    scratch.finish(command)
}

fn uninstall(scratch: &Scratch, destination: &Path) -> Ended {
    let mut command = packaging("uninstall");
    command.arg("/opt/ferroce").env("DESTDIR", destination);
    scratch.finish(command)
}

/// Goal: `make uninstall` removes everything that `make install` has created, also after a second
/// installation. Method: compare the trees of a folder before and after.
#[test]
fn uninstall_removes_what_install_has_put_there() {
    let scratch = Scratch::new();
    let root = scratch.path("root");
    for _ in 0..2 {
        install(&scratch, &root, &release()).expect_success();
    }
    let prefix = root.join("opt/ferroce");
    for binary in BINARIES {
        let sections = sections(&scratch, &prefix.join(binary));
        assert!(!sections.contains(".symtab"), "{binary} is not stripped");
        assert!(
            !sections.contains(".debug_line"),
            "{binary} is not stripped"
        );
    }
    for file in [
        "lib/ferroce/libibverbs.so",
        "share/man/man1/ferroce-run.1",
        "share/bash-completion/completions/ferroce",
        "share/zsh/site-functions/_ferroce",
        "share/fish/vendor_completions.d/ferroce.fish",
        "share/doc/ferroce/LICENSE-MIT",
        "share/doc/ferroce/examples/course.h",
        "share/ferroce/tsan.supp",
        "share/ferroce/valgrind.supp",
    ] {
        assert!(prefix.join(file).is_file(), "{file} is missing");
    }
    uninstall(&scratch, &root).expect_success();
    assert_eq!(tree(&root), [""; 0]);
}

/// Goal: files of other programs stay, and so do folders that existed before.
#[test]
fn uninstall_leaves_what_it_has_not_installed() {
    let scratch = Scratch::new();
    let root = scratch.path("root");
    let prefix = root.join("opt/ferroce");
    fs::create_dir_all(prefix.join("bin")).expect("our own folder");
    install(&scratch, &root, &release()).expect_success();
    let foreign = "share/man/man1/ferroce-foreign.1";
    fs::write(prefix.join(foreign), "").expect("our own folder");
    uninstall(&scratch, &root).expect_success();
    let ours = "opt/ferroce/share/man/man1/";
    let expected = [
        "opt/",
        "opt/ferroce/",
        "opt/ferroce/bin/",
        "opt/ferroce/share/",
    ]
    .map(String::from)
    .into_iter()
    .chain(["opt/ferroce/share/man/".into(), ours.into()])
    .chain([format!("opt/ferroce/{foreign}")]);
    assert_eq!(tree(&root), expected.collect::<Vec<_>>());
}

/// Goal: installing a newer version removes files that it no longer has.
#[test]
fn an_update_removes_files_of_the_version_before() {
    let scratch = Scratch::new();
    let root = scratch.path("root");
    install(&scratch, &root, &release()).expect_success();
    let prefix = root.join("opt/ferroce");
    let old = prefix.join("share/man/man1/ferroce-old.1");
    let list = prefix.join("lib/ferroce/installed");
    fs::write(&old, "").expect("our own folder");
    let listed = fs::read_to_string(&list).expect("the list");
    let line = "file /opt/ferroce/share/man/man1/ferroce-old.1\n";
    fs::write(&list, listed + line).expect("our own folder");
    install(&scratch, &root, &release()).expect_success();
    assert!(!old.exists(), "a file of the old version has stayed");
    uninstall(&scratch, &root).expect_success();
    assert_eq!(tree(&root), [""; 0]);
}

/// Goal: the scripts report errors, and a list with paths outside of the prefix removes nothing.
#[test]
fn wrong_calls_are_named() {
    let scratch = Scratch::new();
    let root = scratch.path("root");
    let nothing = install(&scratch, &root, &scratch.path("nothing"));
    assert!(
        !nothing.succeeded() && nothing.output.contains("`make` builds it"),
        "{nothing:?}"
    );
    let missing = uninstall(&scratch, &root);
    assert!(
        !missing.succeeded() && missing.output.contains("no installation"),
        "{missing:?}"
    );
    let kept = scratch.path("kept");
    fs::write(&kept, "").expect("our own folder");
    let folder = root.join("opt/ferroce/lib/ferroce");
    fs::create_dir_all(&folder).expect("our own folder");
    fs::write(folder.join("installed"), "file /../kept\n").expect("our own folder");
    let damaged = uninstall(&scratch, &root);
    assert!(
        !damaged.succeeded() && damaged.output.contains("damaged"),
        "{damaged:?}"
    );
    assert!(kept.exists());
}

/// Packages of one build, created once for all tests.
pub struct Packages {
    scratch: Scratch,
    folder: PathBuf,
}

impl Packages {
    pub fn of_this_build() -> &'static Self {
        static MADE: OnceLock<Packages> = OnceLock::new();
        MADE.get_or_init(|| {
            let scratch = Scratch::new();
            let folder = scratch.path("packages");
            package(&scratch, &release(), &folder);
            Self { scratch, folder }
        })
    }

    /// Returns the path of the file with this ending.
    pub fn file(&self, ending: &str) -> String {
        let names = tree(&self.folder);
        let found = names.iter().find(|name| name.ends_with(ending));
        let name = found.unwrap_or_else(|| panic!("no {ending} among {names:?}"));
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// Returns the prefix of the unpacked Debian package.
    fn unpacked(&self) -> PathBuf {
        static UNPACKED: OnceLock<PathBuf> = OnceLock::new();
        let unpack = || {
            let to = self.scratch.path("unpacked");
            let path = to.to_string_lossy();
            output(
                &self.scratch,
                "dpkg-deb",
                &["-x", &self.file(".deb"), &path],
            );
            to.join("usr")
        };
        UNPACKED.get_or_init(unpack).clone()
    }

    fn field(&self, name: &str) -> String {
        let field = output(&self.scratch, "dpkg-deb", &["-f", &self.file(".deb"), name]);
        field.trim().to_owned()
    }
}

fn package(scratch: &Scratch, release: &Path, folder: &Path) {
    let mut command = packaging("package");
    command
        .args([release, folder])
        .env("SOURCE_DATE_EPOCH", EPOCH);
    scratch.finish(command).expect_success();
}

/// Goal: two runs give the same bytes. Method: the second run uses copies of the build in a
/// different folder, with different times and modes, and a different umask and language.
#[test]
fn the_same_build_makes_the_same_packages() {
    let packages = Packages::of_this_build();
    let scratch = Scratch::new();
    let copy = scratch.path("copy");
    copy_build(&release(), &copy);
    let script = packaging("package");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077 && exec \"$@\"", "sh"]);
    command
        .arg(script.get_program())
        .arg(&copy)
        .arg(scratch.path("again"));
    command
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "Asia/Tokyo");
    scratch.finish(command).expect_success();
    let sums = fs::read_to_string(packages.file("SHA256SUMS")).expect("sums");
    let again = fs::read_to_string(scratch.path("again/SHA256SUMS")).expect("sums");
    assert_eq!(sums.lines().count(), 3, "{sums}");
    assert_eq!(sums, again);
    // The checksums match the files.
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&packages.folder);
    scratch.finish(check).expect_success();
}

/// Goal: packages have the same time in every file, and belong to root.
#[test]
fn files_of_packages_are_roots() {
    let packages = Packages::of_this_build();
    let scratch = &packages.scratch;
    let tarball = output(
        scratch,
        "tar",
        &["--utc", "-tvzf", &packages.file(".tar.gz")],
    );
    let deb = output(scratch, "dpkg-deb", &["-c", &packages.file(".deb")]);
    assert!(tarball.lines().count() > 30 && deb.lines().count() > 30);
    for line in tarball.lines() {
        assert!(
            line.contains(" 0/0 ") && line.contains("2026-01-01 00:00"),
            "{line}"
        );
    }
    for line in deb.lines() {
        let mode = line.split(' ').next().unwrap_or_default();
        assert!(line.contains(" root/root "), "{line}");
        let expected = ["drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"];
        assert!(expected.contains(&mode), "{line}");
    }
}

/// Goal: `Depends` is complete. Method: each needed library belongs to libc6 or libgcc-s1, and no
/// symbol needs a newer libc6 than `Depends` names.
#[test]
fn the_package_depends_on_what_it_needs() {
    let packages = Packages::of_this_build();
    let (major, minor) = FLOOR;
    let depends = packages.field("Depends");
    assert_eq!(
        depends,
        format!("libc6 (>= {major}.{minor}), libgcc-s1 (>= 4.2)")
    );
    for binary in BINARIES {
        let needed = needed(&packages.scratch, &packages.unpacked().join(binary));
        assert!(
            needed.iter().any(|name| name == "libc.so.6"),
            "{binary}: {needed:?}"
        );
        for name in needed {
            assert!(LIBRARIES.contains(&name.as_str()), "{binary} needs {name}");
        }
    }
    assert_eq!(packages.field("Version"), env!("CARGO_PKG_VERSION"));
    let size: u64 = packages.field("Installed-Size").parse().expect("KiB");
    assert!((5_000..100_000).contains(&size), "{size} KiB");
}

/// Goal: one binary runs on RHEL 9 and Ubuntu 22.04. Method: find the newest glibc among the
/// versions of all symbols; also test that the check can fail.
#[test]
fn symbols_are_of_the_oldest_glibc_that_is_served() {
    let packages = Packages::of_this_build();
    let binaries = BINARIES.map(|binary| packages.unpacked().join(binary));
    let mut command = packaging("glibc-floor");
    command.args(&binaries);
    let said = packages.scratch.finish(command).expect_success();
    for line in said.lines() {
        let version = line
            .rsplit(' ')
            .next()
            .and_then(|version| version.split_once('.'));
        let (major, minor) = version.unwrap_or_else(|| panic!("{line}"));
        let found = (
            major.parse().expect("a number"),
            minor.parse().expect("a number"),
        );
        assert!(found <= FLOOR, "{line}");
    }
    assert_eq!(said.lines().count(), BINARIES.len(), "{said}");
    let mut command = packaging("glibc-floor");
    command.args(&binaries).env("GLIBC_FLOOR", "2.9");
    let refused = packages.scratch.finish(command);
    assert!(
        !refused.succeeded() && refused.output.contains("GLIBC_2.34"),
        "{refused:?}"
    );
}

/// Goal: an installation runs without any path in the environment. Method: run the command of the
/// unpacked package, and of the unpacked tarball, without the rest of the build.
#[test]
fn programs_run_from_the_package() {
    let packages = Packages::of_this_build();
    let scratch = Scratch::new();
    let tarball = scratch.path("tarball");
    fs::create_dir(&tarball).expect("our own folder");
    let path = tarball.to_string_lossy();
    let options = [
        "-xzf",
        &packages.file(".tar.gz"),
        "-C",
        &path,
        "--strip-components=1",
    ];
    output(&scratch, "tar", &options);
    for prefix in [packages.unpacked(), tarball] {
        let mut command = Command::new(prefix.join("bin/ferroce"));
        command.args(["run", "--", "ibv_devinfo"]);
        command
            .env("FERROCE_DIR", scratch.path("fabric"))
            .env_remove("LD_PRELOAD");
        let said = scratch.finish(command).expect_success();
        assert!(said.contains("ferroce0"), "{said}");
        let mut maps = Command::new(prefix.join("bin/ferroce"));
        maps.args(["run", "--", "cat", "/proc/self/maps"]);
        maps.env("FERROCE_DIR", scratch.path("fabric"))
            .env_remove("LD_PRELOAD");
        let said = scratch.finish(maps).expect_success();
        let library = prefix.join("lib/ferroce/libibverbs.so.1");
        let library = library.canonicalize().expect("it is there");
        assert!(said.contains(&*library.to_string_lossy()), "{said}");
    }
}

/// Goal: the package has the documents that Debian requires, compressed as required.
#[test]
fn the_package_has_its_documents() {
    let usr = Packages::of_this_build().unpacked();
    for file in [
        "share/doc/ferroce/copyright",
        "share/doc/ferroce/changelog.gz",
        "share/man/man1/ferroce.1.gz",
        "share/zsh/vendor-completions/_ferroce",
    ] {
        assert!(usr.join(file).is_file(), "{file} is missing");
    }
    let text = fs::read_to_string(usr.join("share/doc/ferroce/copyright")).expect("UTF-8");
    assert!(text.contains("License: MIT or Apache-2.0"), "{text}");
    // The crates that are linked into it, not those that only build or test it.
    for (name, is_linked) in [
        ("clap-", true),
        ("libc-", true),
        ("syn-", false),
        ("loom-", false),
    ] {
        let stanza = format!("\nFiles: crates/{name}");
        assert_eq!(text.contains(&stanza), is_linked, "{name}: {text}");
    }
    // The file contains the text of each licence that a stanza names.
    for licence in ["MIT", "Apache-2.0", "BSD-3-Clause", "Zlib"] {
        let heading = format!("\nLicense: {licence}\n");
        let mut texts = text.split(heading.as_str()).skip(1);
        assert!(texts.any(|text| text.starts_with(' ')), "{licence}: {text}");
    }
}
