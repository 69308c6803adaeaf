//! The scripts of `.ci/`. `cargo` finds the toolchain that builds this project, before cargo reads
//! `Cargo.toml`; `touched` prints the paths that the commits of the last day touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ferroce_tests::Scratch;

/// Newer than any toolchain of the machine, so only the test's toolchains are new enough.
const MANIFEST: &str = "[workspace.package]\nrust-version = \"900.5\" # oldest\n";

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("our own folder");
    fs::write(path, text).expect("our own folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own file");
}

/// Installs a fake toolchain of this version. Its cargo prints its path, the rustc that it would
/// call, and its arguments.
fn install(folder: &Path, version: &str) {
    let cargo = "#!/bin/sh\necho \"$0 $(rustc --version) $*\"\n";
    write_program(&folder.join("cargo"), cargo);
    let rustc = format!("#!/bin/sh\necho 'rustc {version} (0000000 2026-01-01)'\n");
    write_program(&folder.join("rustc"), &rustc);
}

struct Machine {
    scratch: Scratch,
}

impl Machine {
    fn new() -> Self {
        let scratch = Scratch::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/cargo");
        let text = fs::read_to_string(script).expect(".ci/cargo");
        write_program(&scratch.path("project/.ci/cargo"), &text);
        fs::write(scratch.path("project/Cargo.toml"), MANIFEST).expect("our own folder");
        Self { scratch }
    }

    fn in_path(&self) -> PathBuf {
        self.scratch.path("path")
    }

    fn in_home(&self) -> PathBuf {
        self.scratch.path("home/.cargo/bin")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.in_path().display());
        Command::new("timeout")
            .arg("20")
            .arg(self.scratch.path("project/.ci/cargo"))
            .args(arguments)
            .env("PATH", path)
            .env("HOME", self.scratch.path("home"))
            .env_remove("CARGO_HOME")
            .output()
            .expect("timeout runs (coreutils)")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

#[test]
fn cargo_and_rustc_of_one_new_toolchain_are_taken_past_an_old_one() {
    let machine = Machine::new();
    install(&machine.in_path(), "900.4.9");
    install(&machine.in_home(), "900.10.0-nightly");
    let output = machine.run(&["build", "--release"]);
    let cargo = machine.in_home().join("cargo");
    let expected = format!(
        "{} rustc 900.10.0-nightly (0000000 2026-01-01) build --release",
        cargo.display()
    );
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(text(&machine.run(&["--packages"]).stdout), "");
}

#[test]
fn the_first_in_the_path_is_taken_when_it_is_new_enough() {
    let machine = Machine::new();
    install(&machine.in_path(), "900.5.0");
    install(&machine.in_home(), "901.0.0");
    let output = machine.run(&["--version"]);
    let expected = machine.in_path().join("cargo").display().to_string();
    assert!(
        text(&output.stdout).starts_with(&expected),
        "{}",
        text(&output.stdout)
    );
}

/// One sentence, before cargo has reported anything about `Cargo.toml`.
#[test]
fn without_a_new_one_the_sentence_names_what_is_wanted_and_what_is_there() {
    let machine = Machine::new();
    install(&machine.in_path(), "900.4.9");
    let output = machine.run(&["build"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(text(&output.stdout), "", "cargo was started");
    assert_eq!(said.lines().count(), 1, "{said}");
    let there = format!("900.4.9 in {}", machine.in_path().display());
    for expected in ["900.5 or newer", &there, "rustup", "rustc-web cargo-web"] {
        assert!(said.contains(expected), "no {expected} in: {said}");
    }
}

#[test]
fn packages_are_wanted_where_apt_can_install_them() {
    let machine = Machine::new();
    write_program(&machine.in_path().join("apt-get"), "#!/bin/sh\nexit 1\n");
    let output = machine.run(&["--packages"]);
    assert_eq!(text(&output.stdout), "rustc-web cargo-web");
    assert!(output.status.success());
}

/// A repository with `.ci/touched`.
struct Repository {
    scratch: Scratch,
}

impl Repository {
    fn new() -> Self {
        let scratch = Scratch::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/touched");
        let script = fs::read_to_string(script).expect(".ci/touched");
        write_program(&scratch.path("project/.ci/touched"), &script);
        let repository = Self { scratch };
        repository.git(&["init", "--quiet"], "");
        repository
    }

    fn git(&self, arguments: &[&str], date: &str) {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(self.scratch.path("project"))
            .env("GIT_COMMITTER_DATE", date)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    fn write(&self, file: &str) {
        fs::write(self.scratch.path("project").join(file), "").expect("our own folder");
    }

    fn commit(&self, file: &str, date: &str) {
        self.write(file);
        self.git(&["add", file], date);
        self.git(&["commit", "--quiet", "--message", file], date);
    }

    fn touched(&self, variable: (&str, &str)) -> String {
        let output = Command::new(self.scratch.path("project/.ci/touched"))
            .env_remove("CI_ALL")
            .env_remove("CI_BASE")
            .env(variable.0, variable.1)
            .output()
            .expect("bash runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

#[test]
fn paths_of_the_last_day_are_touched() {
    let repository = Repository::new();
    repository.commit("old", "2026-01-01T10:00:00Z");
    repository.commit("older-than-a-day", "2026-01-02T10:00:00Z");
    repository.commit("recent", "2026-01-02T14:00:00Z");
    repository.commit("last", "2026-01-03T12:00:00Z");
    repository.git(&["add", ".ci/touched"], "");
    repository.write("untracked");
    let recent = ".ci/touched\nlast\nrecent\nuntracked";
    assert_eq!(repository.touched(("CI_ALL", "")), recent);
    let since_base = repository.touched(("CI_BASE", "HEAD~3"));
    assert_eq!(
        since_base,
        ".ci/touched\nlast\nolder-than-a-day\nrecent\nuntracked"
    );
    let all = repository.touched(("CI_ALL", "1"));
    assert!(all.lines().any(|path| path == "old"), "{all}");
}
